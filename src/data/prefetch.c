/* The items of the pipeline are the batches of the steps in the order they are taken, from the last jump on. */
#include "data/prefetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ordered_pipeline.h"

enum { AHEAD = 2 };                             /* one is taken while the other is filled */

typedef struct { Batch batch; Status status; char why[512]; } Ready;
typedef struct { int64_t step; int i; } Position;

struct Prefetch {
    PrefetchSetup    setup;
    int             *micro;
    OrderedPipeline *pipeline;                  /* NULL: dry */
    Ready            ready[AHEAD];
    Position         fill, take;                /* the next to fill, the thread's while it runs; the next to take */
    bool             going;                     /* else nothing is filled, and any position may be next */
};

static Position position_after(const Prefetch *p, Position at)
{
    bool last = at.i + 1 == p->setup.count;
    return (Position){ at.step + last, last ? 0 : at.i + 1 };
}

/* By the thread */
static bool ready_fill(void *context, int slot, int64_t *weight)
{
    Prefetch *p = context;
    Ready    *r = &p->ready[slot];
    (void)weight;
    r->status = loader_fill(p->setup.loader, &r->batch, p->fill.step, p->micro[p->fill.i], p->setup.vocabulary);
    if (r->status != OK) snprintf(r->why, sizeof r->why, "%s", fail_text());
    p->fill = position_after(p, p->fill);
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
    for (int i = 0; i < AHEAD; i++) p->ready[i].batch = loader_batch_new(&setup->loader->config, setup->host);
    if (setup->host->dry) return OK;
    OrderedPipelinePlan plan = { .what = "reading batches ahead", .slots = AHEAD, .reader = true, .paused = true,
                                 .context = p, .fill = ready_fill };
    Status status = ordered_pipeline_open(&p->pipeline, &plan);
    if (status == OK) return OK;
    prefetch_close(p);
    *prefetch = NULL;
    return status;
}

void prefetch_rest(Prefetch *p)
{
    p->going = false;
    if (p->pipeline) ordered_pipeline_pause(p->pipeline);
}

static void tensor_take(Tensor to, Tensor from)
{
    if (tensor_bytes(from)) memcpy(to.data, from.data, tensor_bytes(from));
}

static void batch_copy(Batch *to, const Batch *from)
{
    tensor_take(to->token_i,    from->token_i);
    tensor_take(to->target_i,   from->target_i);
    tensor_take(to->loss_weight_T,   from->loss_weight_T);
    tensor_take(to->position_i, from->position_i);
    tensor_take(to->dropout_index_i,    from->dropout_index_i);
    tensor_take(to->sample_i,   from->sample_i);
    if (from->key_range_i.data) tensor_take(to->key_range_i, from->key_range_i);
}

Status prefetch_take(Prefetch *p, Batch *batch, int64_t step, int i)
{
    CHECK(p->pipeline && i >= 0 && i < p->setup.count, "micro-batch %d of %d, thread %d", i, p->setup.count, p->pipeline != NULL);
    if (!p->going || p->take.step != step || p->take.i != i) {
        prefetch_rest(p);
        p->fill  = p->take = (Position){ step, i };
        p->going = true;
        ordered_pipeline_resume(p->pipeline);
    }
    const Ready *r = &p->ready[ordered_pipeline_next(p->pipeline)];
    Status status = r->status == OK ? OK : fail(r->status, "%s", r->why);
    if (status == OK) batch_copy(batch, &r->batch);
    ordered_pipeline_release(p->pipeline);
    p->take = position_after(p, p->take);
    return status;
}

double prefetch_waited(Prefetch *p) { return p->pipeline ? (double)ordered_pipeline_waited(p->pipeline) * 1e-9 : 0; }

void prefetch_close(Prefetch *p)
{
    if (!p) return;
    ordered_pipeline_close(p->pipeline);
    free(p->micro);
    free(p);
}
