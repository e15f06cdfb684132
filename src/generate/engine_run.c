/* The engine: opened, closed, and its loop of forwards. */
#include <stdlib.h>
#include "base/integer.h"
#include "generate/forward.h"
#include "generate/scheduler.h"

struct Engine {
    EngineSetup g;
    Sequence   *sequence;                  /* [data ranks x sequences] */
    Forward     forward;
    Scheduler   scheduler;                 /* of rank 0, while it runs */
    Buffer      plan;                      /* of other ranks */
    ForwardPlan step;
    ModelConfig model;
    const ModelConfig *of_executor;
};

int64_t engine_rows(int64_t widest, int64_t chunk, int64_t sequences, int sharded)
{
    int64_t rows = most_of(least(widest, chunk), sequences);
    return divide_up(rows, sharded) * sharded;
}

Engine *engine_open(const EngineSetup *setup)
{
    Engine *e = calloc(1, sizeof *e);
    CHECK(e, "no memory for an engine");
    e->g = *setup;
    if (e->g.page == 0) e->g.page = PAGE_POSITIONS;
    int64_t unit = e->g.executor->ctx.tp.sequence_parallel ? comm_size(e->g.tp) : 1;
    int64_t micros = e->g.schedule->shape.micros;
    e->g.rows = e->g.rows / unit * unit;
    CHECK(divide_up(e->g.sequences, micros) <= e->g.rows, "%lld texts in %lld micro-batches of %lld positions",
        (long long)e->g.sequences, (long long)micros, (long long)e->g.rows);
    e->sequence = calloc((size_t)(data_ranks(&e->g) * e->g.sequences), sizeof *e->sequence);
    CHECK(e->sequence, "no memory for %lld texts", (long long)e->g.sequences);
    /* a capacity of experts would make a token depend on the others of its forward */
    e->of_executor = e->g.executor->ctx.config;
    e->model = *e->of_executor;
    e->model.moe.capacity_factor = 0;
    e->g.executor->ctx.config = &e->model;
    forward_open(&e->forward, &e->g, e->sequence);
    return e;
}

static void sequences_clear(Engine *e)
{
    for (int64_t i = 0; i < data_ranks(&e->g) * e->g.sequences; i++) {
        free(e->sequence[i].id);
        e->sequence[i] = (Sequence){ .active = false };
    }
}

void engine_close(Engine *e)
{
    if (!e) return;
    forward_close(&e->forward);
    e->g.executor->ctx.config = e->of_executor;
    sequences_clear(e);
    free(e->sequence);
    plan_close(&e->plan);
    free(e->step.segment);
    free(e);
}

/* The most that a forward of prompts and one of texts take. */
static void run_dry(Engine *e)
{
    const EngineSetup *g = &e->g;
    ForwardPlan plan = { .micros = g->schedule->shape.micros, .rows = g->rows, .results = logits_room(g),
                         .alternatives = ALTERNATIVES_MOST };
    forward_run(&e->forward, &plan);                                          /* <-> tp, cp, pp, data */
    plan.rows = rows_shared(g, divide_up(g->sequences, plan.micros));
    forward_run(&e->forward, &plan);                                          /* <-> tp, cp, pp, data */
}

void engine_run(Engine *e, const RequestSource *source)
{
    const EngineSetup *g = &e->g;
    PlanTarget target = { .g = g, .sequence = e->sequence, .page_i = e->forward.page_i,
                          .copy = forward_copy_page, .context = &e->forward };
    if (comm_dry(g->tp)) { run_dry(e); return; }
    bool plans = comm_rank(g->world) == 0;
    Buffer *steps = plans ? &e->scheduler.plan : &e->plan;
    if (plans) scheduler_open(&e->scheduler, g, source);
    for (;;) {
        if (plans) scheduler_plan(&e->scheduler, &e->step);
        plan_take(steps, g->world, &target, &e->step);                        /* <-> world: broadcast */
        if (e->step.closed) break;
        if (e->step.micros == 0) { plan_clear(steps); continue; }
        const int32_t *results = forward_run(&e->forward, &e->step);          /* <-> tp, cp, pp, data */
        if (plans) scheduler_take(&e->scheduler, &e->step, results);
    }
    if (plans) scheduler_close(&e->scheduler), e->scheduler = (Scheduler){ .g = NULL };
    sequences_clear(e);
}
