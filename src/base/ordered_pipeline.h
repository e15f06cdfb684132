#ifndef BASE_ORDERED_PIPELINE_H
#define BASE_ORDERED_PIPELINE_H
/* A ring of slots with three stages: one thread at a time fills the next slot, `workers` threads work on filled ones in any
 * order, and the caller takes them in the order in which they were filled. The data of a slot is the user's, by the slot's
 * number; a slot belongs to one thread at a time, so that neither stage needs a lock. Nothing is allocated after the opening.
 *
 *     OrderedPipeline *pipeline;
 *     TRY(ordered_pipeline_open(&pipeline, &plan));                    what the plan points at outlives the pipeline
 *     for (int slot; (slot = ordered_pipeline_next(pipeline)) >= 0; ) ...
 *     ordered_pipeline_close(pipeline);                                at any time
 *
 * One lock and one condition serve all threads: an item is expected to be a millisecond of work, not a microsecond.     */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { PIPELINE_SLOTS_EACH = 2, PIPELINE_SLOTS_MORE = 2 };

typedef struct {
    const char *what;                   /* for the message when threads do not start: "--workers 8" */
    int     workers;                    /* threads that work; 0: a filled slot is ready at once, and `work` is NULL */
    int     slots;                      /* of the ring: ordered_pipeline_slots(workers) keep all workers busy */
    bool    reader;                     /* `fill` has a thread of its own; else an idle worker fills. Wanted without workers */
    bool    paused;                     /* nothing is filled before ordered_pipeline_resume */
    int64_t weight_most;                /* of all slots between `fill` and release; one slot alone may be heavier. 0: no limit */
    void   *context;
    bool  (*fill)(void *context, int slot, int64_t *weight);    /* by one thread at a time; false: the end, the slot is empty */
    void  (*work)(void *context, int worker, int slot);         /* worker: from 0; a worker does one slot at a time */
} OrderedPipelinePlan;

typedef struct OrderedPipeline OrderedPipeline;
static inline int ordered_pipeline_slots(int workers) { return PIPELINE_SLOTS_EACH * workers + PIPELINE_SLOTS_MORE; }

/* NO_MEMORY where memory or a thread is missing; *pipeline is NULL then. A limit of weight wants a reader. */
Status  ordered_pipeline_open   (OrderedPipeline **pipeline, const OrderedPipelinePlan *plan);
int     ordered_pipeline_next   (OrderedPipeline *pipeline);    /* the caller's until the next call or release; -1: the end */
void    ordered_pipeline_release(OrderedPipeline *pipeline);    /* the caller's slot may be filled again; none is held: nothing */
/* All slots are dropped, the caller's too; when it returns neither fill nor work runs, and what they use may be changed. */
void    ordered_pipeline_pause  (OrderedPipeline *pipeline);
void    ordered_pipeline_resume (OrderedPipeline *pipeline);    /* after a pause, not after the end */
int64_t ordered_pipeline_waited (OrderedPipeline *pipeline);    /* nanoseconds that `next` waited since the last call of this */
void    ordered_pipeline_close  (OrderedPipeline *pipeline);    /* NULL is fine; no call of fill or work comes after it */
#endif
