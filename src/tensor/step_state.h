#ifndef TENSOR_STEP_STATE_H
#define TENSOR_STEP_STATE_H
/* What changes from step to step, in one small struct that lives where the queue computes; never in an op's arguments, so a
 * captured graph replays. Written by the host before a step (step, lr) and by the op `clip_and_skip` within it (factor, skip). */
#include <stdint.h>
typedef struct {
    uint64_t seed;
    int64_t  step;             /* steps done before this one: 0, 1, ... */
    int64_t  updates;          /* optimizer updates done before this one (skipped steps do not count): Adam's t is updates + 1 */
    double   lr;
    double   factor;           /* what gradients are multiplied by: clip / tokens */
    int32_t  skip;             /* 1: not finite, weights and states stay untouched */
} StepState;
#endif
