#ifndef PARALLEL_PIPELINE_H
#define PARALLEL_PIPELINE_H
/* Runs the rows of a schedule on this stage: the only code that knows both messages and slots. */
#include "parallel/stage_executor.h"

/* What a step does at rows which are not the walk's: the caller's, since loader and optimizer are no business of this room. */
typedef struct {
    void *context;
    void (*fill)  (void *context, Batch *batch, int micro);      /* before a FORWARD */
    void (*reduce)(void *context, int chunk);                    /* REDUCE */
    void (*step)  (void *context);                               /* STEP */
} PipelineCalls;

typedef struct {
    StageExecutor *executor;
    Comm *pp;
    Flow  grad_in[CHUNKS_MAX][2], grad_out[CHUNKS_MAX][2];       /* on activations */
    Pending *pending;                                            /* by row; owned */
    int   rows;
} Pipeline;

/* rows: the most a schedule run here has */
void pipeline_open (Pipeline *pipeline, StageExecutor *executor, Comm *pp, Arena *activations, int rows);
void pipeline_close(Pipeline *pipeline);
void pipeline_run  (Pipeline *pipeline, const Schedule *schedule, PipelineCalls calls);     /* <-> pp: send, as the rows say */
#endif
