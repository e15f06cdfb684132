#ifndef BASE_ORDERED_PIPELINE_H
#define BASE_ORDERED_PIPELINE_H
/* A producer, worker threads and one consumer around a ring of slots. One thread at a time fills the next
 * slot, `workers` threads work on filled slots in any order, and the caller receives them in the order in
 * which they were filled. The user keeps the data of each slot, indexed by the slot's number; a slot
 * belongs to one thread at a time, so neither stage needs a lock. Memory is bounded by the number of
 * slots, and nothing is allocated after opening.
 *
 *     OrderedPipeline *pipeline;
 *     TRY(ordered_pipeline_open(&pipeline, &plan));      what the plan points at must outlive the pipeline
 *     for (int slot; (slot = ordered_pipeline_next(pipeline)) >= 0; ) ...
 *     ordered_pipeline_close(pipeline);                  at any time
 *
 * One lock and one condition variable serve all threads: an item should be a millisecond of work, not a
 * microsecond. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { PIPELINE_SLOTS_EACH = 2, PIPELINE_SLOTS_MORE = 2 };

typedef struct {
    const char *what;                   /* names the pipeline if threads do not start: "--workers 8" */
    /* Threads that work; 0: a filled slot is ready at once, and `work` is NULL. */
    int     workers;
    /* Of the ring; ordered_pipeline_slots(workers) keep all workers busy. */
    int     slots;
    /* `fill` has a thread of its own, else an idle worker fills; true if workers is 0. */
    bool    reader;
    bool    paused;                     /* nothing is filled before ordered_pipeline_resume */
    /* Limit for the summed weight of all slots from `fill` to release; a single slot may be heavier. 0: no
     * limit. */
    int64_t weight_most;
    void   *context;
    /* Called by one thread at a time. Sets the slot's weight; false: the end, and the slot stays empty. */
    bool  (*fill)(void *context, int slot, int64_t *weight);
    /* `worker` counts from 0; a worker has one slot at a time. */
    void  (*work)(void *context, int worker, int slot);
} OrderedPipelinePlan;

typedef struct OrderedPipeline OrderedPipeline;
/* Two slots per worker, one in work and one waiting, and two for the reader and the caller. */
static inline int ordered_pipeline_slots(int workers)
{
    return PIPELINE_SLOTS_EACH * workers + PIPELINE_SLOTS_MORE;
}

/* NO_MEMORY if memory or a thread is missing; *pipeline is NULL then. A weight limit requires a reader. */
Status  ordered_pipeline_open   (OrderedPipeline **pipeline, const OrderedPipelinePlan *plan);
/* Waits for the next slot, which is the caller's until the next call or release; -1 at the end. */
int     ordered_pipeline_next   (OrderedPipeline *pipeline);
/* The caller's slot may be filled again, if it has one. */
void    ordered_pipeline_release(OrderedPipeline *pipeline);
/* Drops all slots, the caller's too. After it returns neither fill nor work runs, so what they use may be
 * changed. */
void    ordered_pipeline_pause  (OrderedPipeline *pipeline);
void    ordered_pipeline_resume (OrderedPipeline *pipeline);    /* after a pause, not after the end */
/* Nanoseconds that ordered_pipeline_next waited since the previous call of this function. */
int64_t ordered_pipeline_waited (OrderedPipeline *pipeline);
/* NULL is allowed; fill and work are not called after it. */
void    ordered_pipeline_close  (OrderedPipeline *pipeline);
#endif
