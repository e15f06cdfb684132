#ifndef TESTS_LAYOUTS_ORDER_H
#define TESTS_LAYOUTS_ORDER_H
/* What a pipeline stage does in a step, in order, against all rows of its schedule, which is made again and proved
 * together with those of the other stages: which micro-batch is in which slot, messages posted and waited for, sums
 * of gradients, the update. It is seen from outside of the pipeline: in the functions that it calls (the program is
 * linked with --wrap), in the samples of batches, in the memory that messages read and write. */
#include "train/trainer.h"

enum { ORDER_MOST = 4096, ORDER_SLOTS = 256, ORDER_MESSAGES = 2048, ORDER_LAYERS = 32, ORDER_EXPERTS = 8 };
typedef struct {
    Trainer *trainer;
    PipelineCompute compute;                          /* what the trainer's pipeline calls without a watch */
    PipelineCalls calls;
    /* a row each of what was done; numbers that nothing shows are negative */
    ScheduleRow done[ORDER_MOST];
    int  count, micros;                               /* micros: of the step */
    int  chunk[ORDER_SLOTS], micro[ORDER_SLOTS];      /* of what a slot holds */
    int  posted[CHANNELS_MAX][ORDER_MESSAGES];     /* by the number of a message in flight: its row */
    /* copies of this rank's tokens to each expert in the step, by layer of the model; -1: not of this stage */
    int64_t load[ORDER_LAYERS][ORDER_EXPERTS];
} OrderWatch;

/* One step between begin and end, on the thread that calls both. */
void   order_begin(OrderWatch *watch, Trainer *trainer);
/* BAD_SHAPE where the step was not done as the rows of the schedule say, in their order. */
Status order_end  (OrderWatch *watch);
#endif
