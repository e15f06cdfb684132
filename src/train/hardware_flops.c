/* FLOPs of a token with those that are computed again. */
#include "train/hardware_flops.h"

#include "train/trainer.h"

static double repeated(ForwardFlops f, unsigned modules)
{
    double sum = modules & RECOMPUTE_CORE_ATTN ? f.scores : 0;
    if (modules & RECOMPUTE_MLP) sum += f.mlp;
    if (modules & RECOMPUTE_MOE) sum += f.experts;
    if (modules & (RECOMPUTE_MOE | RECOMPUTE_SHARED_EXPERTS)) sum += f.shared;
    return sum;
}

/* Of the units of a stage's chunk; the head, unit layers + 1, is no layer, and those behind it are. */
static double of_chunk(const TrainConfig *config, const Stage *stage, int chunk, bool causal)
{
    const ModelConfig *model = &config->model;
    double sum = 0;
    for (int64_t i = 0; i < stage->count[chunk]; i++) {
        int64_t unit = stage->first[chunk] + i, layer = unit <= model->layers ? unit - 1 : unit - 2;
        if (unit == 0 || unit == model->layers + 1) continue;
        RecomputeGroup group = stage_recompute_group(stage, &config->recompute, model->layers, chunk, i);
        ForwardFlops f = model_forward_flops(model, layer, causal);
        bool again = group.end > group.first, last = again && i + 1 == group.end && layer < model->layers;
        sum += again ? f.all - (last ? f.last : 0) : repeated(f, config->recompute.modules);
    }
    return sum;
}

double hardware_flops(const TrainConfig *config, bool causal)
{
    ScheduleShape shape = train_config_schedule(config, 1);
    double sum = model_flops(&config->model, causal);
    for (int s = 0; s < config->pp; s++) {
        Stage stage;
        Status status = stage_make(&stage, &config->model, &config->layer_split, &shape, s);
        CHECK(status == OK, "the stages of a run that is open cannot be made: %s", fail_text());
        for (int c = 0; c < stage.chunks; c++) sum += of_chunk(config, &stage, c, causal);
    }
    return sum;
}
