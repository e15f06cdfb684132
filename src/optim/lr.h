#ifndef OPTIM_LR_H
#define OPTIM_LR_H
/* The learning rate as a pure function of the number of steps done before, so that a resumed run needs no
 * state. The formulas are those of Megatron-LM's OptimizerParamScheduler: linear warm-up from 0, so that
 * the very first step has learning rate 0, then decay from `peak` to `low`, which is reached at step
 * `decay` and kept. */
#include <stdint.h>

typedef enum { LR_CONSTANT, LR_LINEAR, LR_COSINE } LrStyle;
typedef struct {
    LrStyle style;
    double  peak, low;                 /* learning rates */
    int64_t warmup, decay;             /* steps from the start of the run */
} LrSchedule;

/* done: the steps done before this one. */
double lr_at(const LrSchedule *schedule, int64_t done);
#endif
