#ifndef TENSOR_STEP_STATE_H
#define TENSOR_STEP_STATE_H
/* The values that change from step to step. They are in one small struct in the memory of the device that
 * computes, and never among an op's arguments, so that a step captured as a CUDA graph can be replayed. The
 * host writes seed, step, updates, both lr, average_share, weight_decay and loss_limit before a step; the op
 * clip_and_skip writes factor, skip, unread and the loss scale within it (tensor/step_end.h).
 *
 * Loss scaling keeps the gradients of activations within the range of F16. The scale of the mean loss rises
 * and falls as that of Megatron-LM's DynamicGradScaler. Gradients here are those of the sum of losses over
 * tokens, so backward begins with gradient_scale = loss scale / the least power of two that is not below the
 * tokens of a global batch: a power of two as well, so that scaling rounds nothing. */
#include <stdbool.h>
#include <stdint.h>

/* How the loss scale changes: a constant unless `dynamic`. A step whose loss or gradient norm is not finite
 * takes one of `hysteresis`; at 0 of them the scale is halved in every such step, down to `minimum`. After
 * `window` steps without one it is doubled, and hysteresis is whole again. */
typedef struct {
    bool    dynamic;
    double  minimum;
    int64_t window, hysteresis;
} LossScaling;

/* The part of loss scaling that is saved and resumed. */
typedef struct {
    double  scale;             /* of the mean loss; 0: losses are not scaled */
    int64_t growth;            /* finite steps since the scale changed */
    int64_t hysteresis;        /* what is left of it */
} LossScale;

typedef struct {
    uint64_t seed;             /* of dropout */
    int64_t  step;             /* steps done before this one: 0, 1, ... */
    int64_t  updates;          /* steps before this one that were not skipped; Adam's t is updates + 1 */
    double   lr;               /* the learning rate of this step */
    double   decoupled_lr;     /* that of token embedding and output layer, the same where none is given */
    double   average_share;    /* of schedule-free optimizers: this step's share in the average of weights */
    double   weight_decay;     /* its weight decay; operations have a factor of it for each parameter */
    /* clipping / tokens: the optimizer's op multiplies gradients, which are sums over tokens, by it as it
     * reads them; the gradients in memory are unchanged */
    double   factor;
    /* what the gradient of the sum of losses is multiplied by: 1, or loss.scale / token_scale */
    double   gradient_scale;
    double   token_scale;      /* the least power of two that is not below the tokens of a global batch */
    LossScale loss;
    double   loss_limit;       /* a mean loss above it is a spike, and nothing is updated; 0: no limit */
    int32_t  skip;             /* 1: a spike, or loss or gradient norm is not finite: nothing is updated */
    int32_t  unread;           /* 1: a rank had no data: the step does not count, nor does its amax */
} StepState;

/* The learning rate of an operation of the optimizer, on hosts and GPUs */
#define STEP_LR(state, decoupled) ((decoupled) ? (state)->decoupled_lr : (state)->lr)

enum { SKIP_OVERFLOW = 2, SKIP_SPIKE = 3 };
#endif
