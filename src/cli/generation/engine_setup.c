/* What an engine needs of a run: micro-batches of positions, in one sequence, with no memory of layers that
 * have been computed. */
#include "cli/generation/engine_setup.h"
#include <string.h>
#include "base/integer.h"
#include "cli/setup/setup.h"

void generation_fit(TrainConfig *config, const Options *o, GenerationSize *size)
{
    int64_t cp = o->context_parallel, dp = options_data_parallel(o);
    int64_t micros = least(o->pipeline_parallel, size->sequences);
    int shared = (int)((o->sequence_parallel ? o->tensor_parallel : 1) * (cp > 1 ? 2 : 1));
    int64_t rows = engine_rows(size->widest, size->chunk, divide_up(size->sequences, micros), shared);
    size->int8 = o->weights.value == CHOICE_weights_int8;
    config->micro  = 1;
    config->global = micros * dp;
    config->model.sequence = rows * cp;
    config->recompute = (Recompute){ .method = RECOMPUTE_UNIFORM, .layers = 1 };
}

/* session: the engine's memory */
typedef struct { const GenerationRun *run; Arena session; } Rank;

static Engine *open_engine(Trainer *t, Rank *rank)
{
    const GenerationRun *run = rank->run;
    const GenerationSize *size = run->size;
    EngineSetup setup = { .executor = &t->train.executor, .pipeline = &t->train.pipeline,
        .schedule = &t->valid.schedule, .world = t->comms.world, .tp = t->comms.tp, .cp = t->comms.cp, .pp =
            t->comms.pp,
        .data = t->comms.dp_cp, .arena = &rank->session,
        .rows = t->config->model.sequence / t->mesh.size.cp, .sequences = size->sequences,
        .capacity = size->capacity, .pages = size->pages, .int8 = size->int8,
        .ids = run->tokenizer->vocabulary, .end = run->tokenizer->eod };
    if (run->setup) run->setup(run->context, &setup);
    return engine_open(&setup);
}

/* Dry, for the size of the session's memory and of all arenas. */
static void work_dry(Trainer *t, void *context)
{
    Engine *engine = open_engine(t, context);
    engine_run(engine, NULL);
    engine_close(engine);
}

Status generation_run(Transport *transport, const GenerationRun *run)
{
    Rank rank = { .run = run };
    Trainer t;
    arena_dry(&rank.session, "session");
    if (strcmp(run->config->device, "cuda") == 0)
        return fail(BAD_OPTION, "--device cuda trains and evaluates, and does not generate yet; give "
                    "--device cpu");
    Status status = trainer_start_work(&t, run->config, transport, work_dry, &rank);
    size_t bytes = rank.session.peak;
    arena_close(&rank.session);
    if (status == OK) status = agree(t.comms.world, arena_open(&rank.session, "session", bytes));
    if (status == OK && run->before)
        status = agree(t.comms.world, t.mesh.rank == 0 ? run->before(run->context, &t) : OK);
    char    path[1024];
    int64_t step;
    if (status == OK) status = setup_load(&t, path, &step);
    if (status == OK) {
        Engine *engine = open_engine(&t, &rank);
        status = run->work(run->context, &t, engine);                                  /* <-> all axes */
        engine_close(engine);
    }
    arena_close(&rank.session);
    trainer_close(&t);
    return status;
}
