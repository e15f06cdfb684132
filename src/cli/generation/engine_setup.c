/* What an engine needs of a run: micro-batches of positions, in one sequence, with no memory of layers that
 * have been computed. */
#include "cli/generation/engine_setup.h"
#include "base/integer.h"

void generation_fit(TrainConfig *config, const Options *o, const GenerationSize *size)
{
    int64_t cp = o->context_parallel, dp = options_data_parallel(o);
    int64_t micros = least(o->pipeline_parallel, size->sequences);
    int shared = (int)((o->sequence_parallel ? o->tensor_parallel : 1) * (cp > 1 ? 2 : 1));
    int64_t rows = engine_rows(size->widest, divide_up(size->sequences, micros), shared);
    config->micro  = 1;
    config->global = micros * dp;
    config->model.sequence = rows * cp;
    config->recompute = (Recompute){ .method = RECOMPUTE_UNIFORM, .layers = 1 };
}

EngineSetup generation_setup(Trainer *t, const GenerationSize *size, int32_t ids, int32_t end, Arena *arena)
{
    return (EngineSetup){ .executor = &t->executor, .pipeline = &t->pipeline, .schedule = &t->valid_schedule,
        .world = t->world, .tp = t->tp, .cp = t->cp, .pp = t->pp, .data = t->data_comm, .arena = arena,
        .rows = t->config->model.sequence / t->mesh.size.cp, .sequences = size->sequences,
        .capacity = size->capacity, .pages = size->pages, .int8 = size->int8, .ids = ids, .end = end };
}

Status generation_load(Trainer *t, const TrainConfig *config)
{
    char path[1024];
    bool found;
    CheckpointState state = { .step = -1 };
    /* A checkpoint exists, because setup_options has read its options; `found` needs no look. */
    TRY(agree(t->world, trainer_find(config->load, path, &found, &state)));
    TRY(agree_on(t->world, state.step, "the step found in --load"));
    watchdog_work(t->world, "loading");
    Status status = trainer_load(t, path);
    watchdog_work(t->world, NULL);
    return status;
}
