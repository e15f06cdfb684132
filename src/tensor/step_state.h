#ifndef TENSOR_STEP_STATE_H
#define TENSOR_STEP_STATE_H
/* The values that change from step to step. They are in one small struct in the memory of the device that
 * computes, and never among an op's arguments, so that a step captured as a CUDA graph can be replayed.
 * The host writes seed, step, updates and lr before a step; the op clip_and_skip writes factor and skip
 * within it. */
#include <stdint.h>

typedef struct {
    uint64_t seed;             /* of dropout */
    int64_t  step;             /* steps done before this one: 0, 1, ... */
    int64_t  updates;          /* steps before this one that were not skipped; Adam's t is updates + 1 */
    double   lr;               /* the learning rate of this step */
    /* clipping / tokens: the optimizer's op multiplies gradients, which are sums over tokens, by it as it
     * reads them; the gradients in memory are unchanged */
    double   factor;
    int32_t  skip;             /* 1: loss or gradient norm is not finite, so nothing is updated */
} StepState;
#endif
