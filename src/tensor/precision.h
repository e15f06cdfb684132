#ifndef TENSOR_PRECISION_H
#define TENSOR_PRECISION_H
/* The type of each role that a tensor has in training: whoever makes a tensor takes its type from here, and
 * an operation takes types from its tensors.
 *
 * Where `param` is narrower than `master`, the optimizer keeps the weights in `master` and rounds them to
 * `param` after each update (Micikevicius et al. 2018, Mixed Precision Training, arXiv 1710.03740). */
#include "tensor/dtype.h"

/* What the optimizer's states are: means of gradients, such as a first moment or a momentum; means of their
 * squares; numbers that are never rounded to less than the compute type; codes of 8 bits, and the scales of
 * their blocks. */
typedef enum { STATE_MOMENT, STATE_SQUARE, STATE_EXACT, STATE_CODE, STATE_SCALE, STATE_ROLES } StateRole;

/* Linear maps of blocks whose inputs are rounded to 8 bits, with one scale for a tensor, as NVIDIA
 * Transformer Engine's. Delayed scaling takes the scale from the largest magnitudes (amax) of earlier steps,
 * current scaling from the tensor itself. All zero: none. */
typedef enum { FP8_NONE, FP8_DELAYED, FP8_CURRENT } Fp8Recipe;
typedef struct {
    Fp8Recipe recipe;
    bool    hybrid;                            /* gradients in F8_E5M2; without it in F8_E4M3, as all else */
    bool    bf16_weight_gradient;              /* weight gradients from activations that are not rounded */
    int64_t bf16_first_layers, bf16_last_layers;         /* so many at either end have no 8-bit maps */
    /* delayed: steps of the history; the newest amax instead of the largest; a scale is 2^-margin smaller */
    int64_t history;
    bool    most_recent;
    int     margin;
} Fp8Choice;

typedef struct {
    Dtype param;           /* the weights that operations read */
    Dtype activation;      /* activations, their gradients; messages of tensor and pipeline parallelism */
    Dtype gradient;        /* sums of weight gradients over micro-batches */
    Dtype message;         /* weight gradients while they are summed over ranks */
    Dtype master;          /* the weights that the optimizer updates */
    Dtype state[STATE_ROLES];          /* the optimizer's */
    /* a few numbers per token or head: mean and rstd of a norm, lse, delta, losses and their weights */
    Dtype statistic;
    Fp8Choice fp8;
} Precision;

/* What a run chooses. All zero: every role has the compute type. */
typedef enum { MIXED_NONE, MIXED_BF16, MIXED_F16 } MixedPrecision;
typedef struct {
    MixedPrecision mixed;                      /* the type of parameters and activations */
    bool message_bf16;                         /* weight gradients are summed over ranks in BF16 */
    bool state_bf16[STATE_SQUARE + 1];         /* of moments and squares */
    Fp8Choice fp8;
} PrecisionChoice;

/* compute: that of the back end (Backend.compute). With MIXED_NONE, F64 for the reference and F32 else. */
static inline Precision precision_make(Dtype compute, const PrecisionChoice *c)
{
    Dtype narrow = c->mixed == MIXED_BF16 ? BF16 : c->mixed == MIXED_F16 ? F16 : compute;
    return (Precision){ .param = narrow, .activation = narrow, .gradient = compute,
                        .message = c->message_bf16 ? BF16 : compute, .master = compute,
                        .state = { [STATE_MOMENT] = c->state_bf16[STATE_MOMENT] ? BF16 : compute,
                                   [STATE_SQUARE] = c->state_bf16[STATE_SQUARE] ? BF16 : compute,
                                   [STATE_EXACT] = compute, [STATE_CODE] = U8, [STATE_SCALE] = compute },
                        .statistic = compute, .fp8 = c->fp8 };
}

/* Whether the linear maps of a block, of `layers`, take 8-bit inputs. */
static inline bool fp8_has_block(const Fp8Choice *fp8, int64_t layer, int64_t layers)
{
    return fp8->recipe != FP8_NONE && (layer >= layers || (layer >= fp8->bf16_first_layers &&
           layer < layers - fp8->bf16_last_layers));
}

static inline Precision precision_uniform(Dtype dtype)
{
    return precision_make(dtype, &(PrecisionChoice){ .mixed = MIXED_NONE });
}
#endif
