#ifndef TENSOR_PRECISION_H
#define TENSOR_PRECISION_H
/* The type of each role that a tensor has in training: whoever makes a tensor takes its type from here, and
 * an operation takes types from its tensors.
 *
 * Where `param` is narrower than `master`, the optimizer keeps the weights in `master` and rounds them to
 * `param` after each update (Micikevicius et al. 2018, Mixed Precision Training, arXiv 1710.03740). */
#include "tensor/dtype.h"

enum { PRECISION_STATES = 2 };
typedef struct {
    Dtype param;           /* the weights that operations read */
    Dtype activation;      /* activations, their gradients; messages of tensor and pipeline parallelism */
    Dtype gradient;        /* sums of weight gradients over micro-batches */
    Dtype message;         /* weight gradients while they are summed over ranks */
    Dtype master;          /* the weights that the optimizer updates */
    Dtype state[PRECISION_STATES];     /* the optimizer's, in its order: AdamW's first and second moment */
    /* a few numbers per token or head: mean and rstd of a norm, lse, delta, losses and their weights */
    Dtype statistic;
} Precision;

/* What a run chooses. All zero: every role has the compute type. */
typedef enum { MIXED_NONE, MIXED_BF16, MIXED_F16 } MixedPrecision;
typedef struct {
    MixedPrecision mixed;                      /* the type of parameters and activations */
    bool message_bf16;                         /* weight gradients are summed over ranks in BF16 */
    bool state_bf16[PRECISION_STATES];
} PrecisionChoice;

/* compute: that of the back end (Backend.compute). With MIXED_NONE, F64 for the reference and F32 else. */
static inline Precision precision_make(Dtype compute, const PrecisionChoice *c)
{
    Dtype narrow = c->mixed == MIXED_BF16 ? BF16 : c->mixed == MIXED_F16 ? F16 : compute;
    return (Precision){ .param = narrow, .activation = narrow, .gradient = compute,
                        .message = c->message_bf16 ? BF16 : compute, .master = compute,
                        .state = { c->state_bf16[0] ? BF16 : compute, c->state_bf16[1] ? BF16 : compute },
                        .statistic = compute };
}

static inline Precision precision_uniform(Dtype dtype)
{
    return precision_make(dtype, &(PrecisionChoice){ MIXED_NONE, false, { false, false } });
}
#endif
