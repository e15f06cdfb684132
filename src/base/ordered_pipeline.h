#ifndef BASE_ORDERED_PIPELINE_H
#define BASE_ORDERED_PIPELINE_H
/* A bounded producer/consumer pipeline that keeps the order of its items. It is a ring of slots with three
 * stages: one thread at a time fills the next slot, `workers` threads process filled slots in any order,
 * and the caller takes the slots in the order in which they were filled. A full ring gives back-pressure:
 * filling waits until a slot is released. The data of a slot belongs to the user, who indexes an array of
 * his own by the slot's number. A slot is with one thread at a time, so the user's callbacks need no lock.
 * Nothing is allocated after the opening.
 *
 *     OrderedPipeline *pipeline;
 *     TRY(ordered_pipeline_open(&pipeline, &plan));      what the plan points at outlives the pipeline
 *     for (int slot; (slot = ordered_pipeline_next(pipeline)) >= 0; ) ...
 *     ordered_pipeline_close(pipeline);                  at any time
 *
 * One lock and one condition variable serve all threads, and each change wakes them all. That is cheap
 * only when an item is about a millisecond of work; for microseconds use team_for (base/team.h). */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* Two slots for each worker, one in work and one filled, and one each for the filling thread and the
 * caller. */
enum { PIPELINE_SLOTS_PER_WORKER = 2, PIPELINE_SLOTS_SPARE = 2 };

typedef struct {
    const char *what;                   /* names the pipeline in messages: "--workers 8" */
    /* threads that call `work`; 0: a filled slot is done, and `work` is NULL */
    int     workers;
    /* in the ring; ordered_pipeline_slots(workers) keeps all workers busy */
    int     slots;
    bool    reader;                     /* `fill` has its own thread, else an idle worker calls it */
    bool    paused;                     /* nothing is filled before ordered_pipeline_resume */
    /* The limit on the sum of the weights of all slots in use, in the user's unit, which is mostly bytes.
     * An item that is alone in the ring may exceed it. 0: no limit. */
    int64_t weight_most;
    void   *context;                    /* the first argument of fill and work; the user's */
    /* Fills `slot` and sets *weight (0 unless set). One thread at a time. false: the end, and the slot
     * stays empty. */
    bool  (*fill)(void *context, int slot, int64_t *weight);
    /* Processes `slot`. worker is 0 .. workers - 1, and a worker processes one slot at a time. */
    void  (*work)(void *context, int worker, int slot);
} OrderedPipelinePlan;

typedef struct OrderedPipeline OrderedPipeline;
static inline int ordered_pipeline_slots(int workers)
{
    return PIPELINE_SLOTS_PER_WORKER * workers + PIPELINE_SLOTS_SPARE;
}

/* Copies the plan and starts the threads. NO_MEMORY when memory or a thread is refused; *pipeline is NULL
 * then. A plan that contradicts itself is a CHECK: without workers there must be a reader, and a limit of
 * weight requires a reader, because a worker that waits for weight to be released could not process the
 * slots that hold it. */
Status  ordered_pipeline_open   (OrderedPipeline **pipeline, const OrderedPipelinePlan *plan);
/* The next slot in order, waiting until it is done; -1 at the end. The caller has it until the next call
 * or release. */
int     ordered_pipeline_next   (OrderedPipeline *pipeline);
/* Makes the caller's slot available for filling. Does nothing when the caller has none. */
void    ordered_pipeline_release(OrderedPipeline *pipeline);
/* Drops all slots, the caller's too. When it returns, neither fill nor work is running, so that the caller
 * may change what they use. */
void    ordered_pipeline_pause  (OrderedPipeline *pipeline);
/* Continues after a pause. It cannot continue after fill has returned false. */
void    ordered_pipeline_resume (OrderedPipeline *pipeline);
/* Nanoseconds that ordered_pipeline_next has waited since the previous call of this function. */
int64_t ordered_pipeline_waited (OrderedPipeline *pipeline);
/* Stops and joins the threads after their current call of fill or work, then frees the pipeline. NULL is
 * allowed. */
void    ordered_pipeline_close  (OrderedPipeline *pipeline);
#endif
