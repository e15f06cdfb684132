/* Reading batches ahead: an ordered pipeline (base/ordered_pipeline.h) with one reader, no workers and two
 * slots. Its items are the micro-batches in the order in which steps take them. A request for any other
 * batch drops the items and restarts the pipeline there. */
#include "data/prefetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ordered_pipeline.h"

/* Double buffering: one is copied while the other is filled. */
enum { BUFFERS = 2 };

typedef struct { Batch batch; Status status; char message[512]; } PrefetchBuffer;
typedef struct { int64_t step; int i; } BatchPosition;          /* i: index in PrefetchSetup.micro */

struct Prefetch {
    PrefetchSetup    setup;
    int             *micro;
    OrderedPipeline *pipeline;                  /* NULL: dry */
    PrefetchBuffer   buffer[BUFFERS];           /* by slot of the pipeline */
    /* The next to fill; only the thread uses it while the pipeline runs. */
    BatchPosition    fill;
    BatchPosition    take;                      /* the next to take */
    bool             running;                   /* else nothing is filled, and any position may be next */
};

static BatchPosition position_next(const Prefetch *p, BatchPosition at)
{
    bool last = at.i + 1 == p->setup.count;
    return (BatchPosition){ at.step + last, last ? 0 : at.i + 1 };
}

/* Runs on the pipeline's thread. Messages are thread-local, so an error's text is kept for the thread that
 * takes the batch. Filling continues after an error: it may concern a batch that is never taken. */
static bool buffer_fill(void *context, int slot, int64_t *weight)
{
    Prefetch       *p = context;
    PrefetchBuffer *b = &p->buffer[slot];
    (void)weight;
    b->status = loader_fill(p->setup.loader, &b->batch, p->fill.step, p->micro[p->fill.i],
                            p->setup.vocabulary);
    if (b->status != OK) snprintf(b->message, sizeof b->message, "%s", fail_text());
    p->fill = position_next(p, p->fill);
    return true;
}

Status prefetch_open(Prefetch **prefetch, const PrefetchSetup *setup)
{
    Prefetch *p = *prefetch = calloc(1, sizeof *p);
    if (!p || !(p->micro = calloc((size_t)setup->count, sizeof *p->micro))) {
        free(p);
        *prefetch = NULL;
        return fail(NO_MEMORY, "no memory to read batches ahead");
    }
    memcpy(p->micro, setup->micro, (size_t)setup->count * sizeof *p->micro);
    p->setup = *setup;
    for (int i = 0; i < BUFFERS; i++)
        p->buffer[i].batch = loader_batch_new(&setup->loader->config, setup->host);
    if (setup->host->dry) return OK;
    OrderedPipelinePlan plan = { .what = "reading batches ahead", .slots = BUFFERS, .reader = true,
                                 .paused = true, .context = p, .fill = buffer_fill };
    Status status = ordered_pipeline_open(&p->pipeline, &plan);
    if (status == OK) return OK;
    prefetch_close(p);
    *prefetch = NULL;
    return status;
}

void prefetch_pause(Prefetch *p)
{
    p->running = false;
    if (p->pipeline) ordered_pipeline_pause(p->pipeline);
}

/* p->fill is written only while the pipeline is paused; the pipeline's lock makes it visible to the
 * thread. */
Status prefetch_take(Prefetch *p, Queue *q, Batch *batch, int64_t step, int i)
{
    CHECK(p->pipeline && i >= 0 && i < p->setup.count, "micro-batch %d of %d, thread %d", i, p->setup.count,
          p->pipeline != NULL);
    if (!p->running || p->take.step != step || p->take.i != i) {
        prefetch_pause(p);
        p->fill    = p->take = (BatchPosition){ step, i };
        p->running = true;
        ordered_pipeline_resume(p->pipeline);
    }
    const PrefetchBuffer *b = &p->buffer[ordered_pipeline_next(p->pipeline)];
    Status status = b->status == OK ? OK : fail(b->status, "%s", b->message);
    if (status == OK) batch_copy(q, batch, &b->batch);
    ordered_pipeline_release(p->pipeline);
    p->take = position_next(p, p->take);
    return status;
}

double prefetch_waited(Prefetch *p)
{
    return p->pipeline ? (double)ordered_pipeline_waited(p->pipeline) * 1e-9 : 0;
}

void prefetch_close(Prefetch *p)
{
    if (!p) return;
    ordered_pipeline_close(p->pipeline);
    free(p->micro);
    free(p);
}
