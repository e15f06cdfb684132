/* Reading batches ahead: an ordered pipeline (base/ordered_pipeline.h) with one reader, no workers and two
 * slots. Its items are the micro-batches in the order in which steps take them. A request for any other
 * batch drops the items and restarts the pipeline there. */
#include "data/prefetch.h"

#include <stdlib.h>
#include "base/ordered_pipeline.h"

/* Double buffering: one is copied while the other is filled. A device may copy it later than it is taken, so
 * the caller has it until the next one is taken (ordered_pipeline_next releases it). */
enum { BUFFERS = 2 };

typedef struct { HostBatch host; Failure failure; } PrefetchBuffer;
/* first: of the step; i: index in its order */
typedef struct { int64_t first; int i; const StepOrder *order; } BatchPosition;

struct Prefetch {
    PrefetchSetup    setup;
    OrderedPipeline *pipeline;                  /* NULL: dry */
    PrefetchBuffer   buffer[BUFFERS];           /* by slot of the pipeline */
    /* The next to fill; only the thread uses it while the pipeline runs. */
    BatchPosition    fill;
    BatchPosition    take;                      /* the next to take */
    bool             running;                   /* else nothing is filled, and any position may be next */
    PrefetchBuffer  *taken;                     /* the last one taken: a queue may not have copied it yet */
};

/* A step has few sizes over a run, so that they are looked through. */
static BatchPosition position_of(const Prefetch *p, int64_t first, int i)
{
    int64_t samples = batch_schedule_at(p->setup.batch, first);
    int k = 0;
    while (k < p->setup.orders && p->setup.order[k].samples != samples) k++;
    CHECK(k < p->setup.orders, "no order for a step of %lld samples", (long long)samples);
    return (BatchPosition){ first, i, &p->setup.order[k] };
}

static BatchPosition position_next(const Prefetch *p, BatchPosition at)
{
    if (at.i + 1 == at.order->count) return position_of(p, at.first + at.order->samples, 0);
    at.i++;
    return at;
}

/* Runs on the pipeline's thread. Messages are thread-local, so an error's text is kept for the thread that
 * takes the batch. Filling continues after an error: it may concern a batch that is never taken. */
static bool buffer_fill(void *context, int slot, int64_t *weight)
{
    Prefetch       *p = context;
    PrefetchBuffer *b = &p->buffer[slot];
    (void)weight;
    b->failure.status = OK;
    failure_keep(&b->failure, loader_fill(p->setup.loader, &b->host.batch, p->fill.first,
                                          p->fill.order->micro[p->fill.i], p->setup.vocabulary));
    p->fill = position_next(p, p->fill);
    return true;
}

Status prefetch_open(Prefetch **prefetch, const PrefetchSetup *setup)
{
    Prefetch *p = *prefetch = calloc(1, sizeof *p);
    if (!p) return fail(NO_MEMORY, "no memory to read batches ahead");
    p->setup = *setup;
    for (int i = 0; i < BUFFERS; i++)
        p->buffer[i].host.batch = loader_batch_new(&setup->loader->config, setup->host);
    if (setup->host->dry) return OK;
    OrderedPipelinePlan plan = { .what = "reading batches ahead", .slots = BUFFERS, .reader = true,
                                 .paused = true, .context = p, .fill = buffer_fill };
    Status status = ordered_pipeline_open(&p->pipeline, &plan);
    if (status == OK) return OK;
    prefetch_close(p);
    *prefetch = NULL;
    return status;
}

/* p->fill is written only while the pipeline is paused; the pipeline's lock makes it visible to the
 * thread. */
Status prefetch_take(Prefetch *p, Queue *q, Batch *batch, int64_t first, int i)
{
    CHECK(p->pipeline, "micro-batch %d is taken of a dry prefetch", i);
    if (p->taken) host_batch_free(&p->taken->host);
    p->taken = NULL;
    if (!p->running || p->take.first != first || p->take.i != i) {
        ordered_pipeline_pause(p->pipeline);
        p->fill = p->take = position_of(p, first, i);
        CHECK(i >= 0 && i < p->take.order->count, "micro-batch %d of %d", i, p->take.order->count);
        p->running = true;
        ordered_pipeline_resume(p->pipeline);
    }
    PrefetchBuffer *b = &p->buffer[ordered_pipeline_next(p->pipeline)];
    Status status = failure_report(&b->failure);
    if (status == OK) host_batch_copy(q, batch, &b->host);
    if (b->host.leaving) p->taken = b;
    else ordered_pipeline_release(p->pipeline);
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
    for (int i = 0; i < BUFFERS; i++) host_batch_close(&p->buffer[i].host);
    free(p);
}
