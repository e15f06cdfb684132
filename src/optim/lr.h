#ifndef OPTIM_LR_H
#define OPTIM_LR_H
/* The learning rate as a pure function of how many steps were done before this one: Megatron-LM's OptimizerParamScheduler.
 * Linear warm-up from 0 (the very first step has 0), then decay from `peak` to `low`, reached at step `decay` and kept. */
#include <stdint.h>

typedef enum { LR_CONSTANT, LR_LINEAR, LR_COSINE } LrStyle;
typedef struct { LrStyle style; double peak, low; int64_t warmup, decay; } LrSchedule;
double lr_at(const LrSchedule *schedule, int64_t done);
#endif
