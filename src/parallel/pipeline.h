#ifndef PARALLEL_PIPELINE_H
#define PARALLEL_PIPELINE_H
/* Runs the rows of a schedule on this stage, one after the other: receives, sends, waits, forward and
 * backward of a chunk. It is the only code that knows both messages and activation slots. What the rows are
 * is decided by parallel/schedule.c. */
#include "parallel/stage_executor.h"

/* What rows need that is not this module's: batches from the loader, gradient reductions and the
 * optimizer. */
typedef struct {
    void *context;
    /* FORWARD: fills the batch of a micro-batch before it runs. It cannot fail, since the other ranks wait
     * for this one's messages: where data cannot be read it fills in ids 0, and the caller of pipeline_run
     * discards the step (train/step.c does so). */
    void (*fill)  (void *context, Batch *batch, int micro);
    /* REDUCE: the chunk's gradients of all micro-batches are complete */
    void (*reduce)(void *context, int chunk);
    void (*step)  (void *context);                               /* STEP: the end of a training step */
} PipelineCalls;

typedef struct {
    StageExecutor *executor;
    Comm *pp;
    /* gradients [t, C] received and to be sent; on activations */
    Hidden grad_in[CHUNKS_MAX][2], grad_out[CHUNKS_MAX][2];
    /* [rows], by row of the schedule that posted it; owned */
    Pending *pending;
    int   rows;
} Pipeline;

/* `rows` is the number of rows of the longest schedule that will be run. The gradient buffers are pushed on
 * `activations`. Memory that is refused is a CHECK, as in stage_executor_open and buckets_open. */
void pipeline_open (Pipeline *pipeline, StageExecutor *executor, Comm *pp, Arena *activations, int rows);
void pipeline_close(Pipeline *pipeline);
/* Returns when all rows are done, in particular when all messages have been waited for. <-> pp: send, and
 * what the rows compute */
void pipeline_run  (Pipeline *pipeline, const Schedule *schedule, PipelineCalls calls);
#endif
