#ifndef PARALLEL_SCHEDULE_ORDER_H
#define PARALLEL_SCHEDULE_ORDER_H
/* The order in which a stage computes, without messages: what distinguishes the kinds of schedules. Only
 * schedule_rows.c includes this header. */
#include "parallel/schedule.h"

/* FORWARD, BACKWARD_INPUT or BACKWARD_WEIGHT */
typedef struct { ScheduleVerb verb; int chunk, micro; } ComputeTask;
typedef struct { int tasks; ComputeTask *task; } ComputeOrder;             /* task is owned */

/* All computations of a stage, of a shape that schedule_accepts. NO_MEMORY. */
Status compute_order_make(ComputeOrder *order, const ScheduleShape *shape, int stage);
#endif
