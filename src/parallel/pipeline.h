#ifndef PARALLEL_PIPELINE_H
#define PARALLEL_PIPELINE_H
/* Runs the rows of a schedule on this stage, one after the other: receives, sends, waits, forward and
 * backward of a chunk. It is the only code that knows both messages and activation slots. What the rows are
 * is decided by parallel/schedule.h; what a chunk computes, and of which tensors its hidden states consist,
 * by PipelineCompute. */
#include "parallel/channels.h"
#include "parallel/stage_executor.h"

/* A slot as the pipeline sees it: the chunk's input, which RECV writes, its output, which SEND reads, and the
 * batch to fill. */
typedef struct { Hidden in, out; Batch *batch; } PipelineSlot;

/* What computes the chunks of this stage. Slots have the schedule's numbers. */
typedef struct {
    void  *context;
    Queue *queue;
    void (*start)(void *context, bool training);                 /* before the rows of a schedule */
    /* before each row, for what may be known of later ones; NULL: nothing is */
    void (*look_ahead)(void *context, const Schedule *schedule, int row);
    PipelineSlot (*slot)(void *context, int slot);
    /* empties the slot for a micro-batch of the chunk and allocates its input */
    void (*begin)(void *context, int chunk, int slot);
    void (*forward)(void *context, int chunk, int slot);
    /* dx receives the gradient of the input, absent in the first virtual stage; dy is that of the output,
     * absent in the last one */
    void (*backward_input) (void *context, int chunk, int slot, Hidden dx, Hidden dy);
    void (*backward_weight)(void *context, int chunk, int slot);
    /* tensors like the chunk's output or its input */
    Hidden (*gradient_new)(void *context, int chunk, bool of_output, Arena *arena);
} PipelineCompute;

/* The stage executor, with the units of a model. */
PipelineCompute pipeline_compute_units(StageExecutor *executor);

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
    PipelineCompute compute;
    const Channels *channels;
    int   buffers;                             /* of gradients, of a chunk: schedule_buffers */
    /* gradients received and to be sent: [chunks * buffers]; on activations; NULL in evaluation. Owned */
    Hidden *grad_in, *grad_out;
    /* [rows], by row of the schedule that posted it: one for each tensor; owned */
    Pending (*pending)[HIDDEN_MAX];
    int   rows;
} Pipeline;

/* `rows` is the number of rows of the longest schedule that will be run. `shape` is that of the training
 * schedule, whose gradient buffers are pushed on `activations`; NULL: only evaluations are run. Memory that
 * is refused is a CHECK, as in stage_executor_open and buckets_open. */
void pipeline_open (Pipeline *pipeline, PipelineCompute compute, const Channels *channels,
                    const ScheduleShape *shape, int stage, Arena *activations, int rows);
void pipeline_close(Pipeline *pipeline);
/* Returns when all rows are done, in particular when all messages have been waited for. <-> pp: send, and
 * what the rows compute */
void pipeline_run  (Pipeline *pipeline, const Schedule *schedule, PipelineCalls calls);
#endif
