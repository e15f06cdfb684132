#ifndef TESTS_LAYOUTS_ORDER_H
#define TESTS_LAYOUTS_ORDER_H
/* What a pipeline stage computes in a step, in order, against the rows of its schedule, which is made again and
 * proved together with those of the other stages. */
#include "train/trainer.h"

enum { ORDER_MOST = 1024 };
typedef struct { ScheduleVerb verb; int chunk, slot; } Done;
typedef struct {
    Trainer *trainer;
    PipelineCompute compute;                          /* what the trainer's pipeline calls without a watch */
    Done done[ORDER_MOST];
    int  count;
} OrderWatch;

/* The steps between begin and end are recorded; the watch stays where it is. */
void   order_begin(OrderWatch *watch, Trainer *trainer);
/* BAD_SHAPE where one step was not done in the order of the schedule. */
Status order_end  (OrderWatch *watch);
#endif
