#ifndef BASE_BATCH_SCHEDULE_H
#define BASE_BATCH_SCHEDULE_H
/* The number of samples of a training step as a function of the samples consumed before it: constant, or
 * rising in steps (--rampup-batch-size, --step-batch-size-schedule). A run's position is its consumed
 * samples, so that a resume in the middle of a ramp needs no other state. */
#include <stdint.h>

/* From `from` consumed samples on a step has `size` samples. */
typedef struct { int64_t from, size; } BatchStep;
/* Ascending in `from`, which begins with 0; at least one. The array belongs to whoever made it. */
typedef struct { const BatchStep *step; int steps; } BatchSchedule;
enum { BATCH_STEPS_MAX = 4096 };

/* The samples of the step that begins after `consumed` samples. */
int64_t batch_schedule_at     (BatchSchedule batch, int64_t consumed);
int64_t batch_schedule_largest(BatchSchedule batch);
/* The samples consumed after so many further steps; INT64_MAX where they are more. */
int64_t batch_schedule_after  (BatchSchedule batch, int64_t consumed, int64_t steps);
/* How many whole steps fit between `consumed` and `end` samples. */
int64_t batch_schedule_steps  (BatchSchedule batch, int64_t consumed, int64_t end);
#endif
