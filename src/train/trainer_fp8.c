/* Scales of the 8-bit inputs of linear maps over a run. With delayed scaling a stage has them, the history of
 * amax and the amax of this step in one tensor each, for all its blocks. At the end of a step the amax of all
 * ranks of the stage are joined, so that every layout has the same scales, and one operation makes the next
 * ones. As in NVIDIA Transformer Engine a skipped step counts like any other, but not one whose data
 * could not be read, which is undone; unlike there the scales change once per step and not with each
 * micro-batch, whose number depends on the layout. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "train/trainer.h"
#include "train/trainer_fp8.h"

static const Fp8Choice *choice_of(const Trainer *t) { return &t->config->precision.fp8; }
static bool delayed(const Trainer *t) { return choice_of(t)->recipe == FP8_DELAYED && t->config->training; }

static Dtype dy_format(const Fp8Choice *c) { return c->hybrid ? F8_E5M2 : F8_E4M3; }

/* Current scaling joins amax over the ranks that hold parts of one micro-batch's tensor, delayed scaling over
 * those that hold parts of a block or of its batch. */
Comm *trainer_fp8_comm(const Trainer *t)
{
    if (choice_of(t)->recipe == FP8_NONE || !t->config->training) return NULL;
    int axes = AXIS_TP | AXIS_CP | (choice_of(t)->recipe == FP8_DELAYED ? AXIS_DP : 0);
    return comm_open_axes(t->comms.world, &t->mesh, axes);
}

static void rows_number(Trainer *t)
{
    const ModelConfig *model = &t->config->model;
    t->fp8.row = calloc((size_t)model_layers(model), sizeof *t->fp8.row);
    CHECK(t->fp8.row, "no memory for the rows of %lld blocks", (long long)model_layers(model));
    for (int64_t l = 0; l < model_layers(model); l++) {
        bool here = fp8_has_block(choice_of(t), l, model->layers) &&
                    stage_holds(&t->stage, model_layer_unit(model, l));
        t->fp8.row[l] = here ? (int)t->fp8.rows++ : -1;
    }
}

void trainer_fp8_open(Trainer *t)
{
    Arena *arena = &t->arena[ARENA_PERSISTENT];
    t->fp8.amax_comm = t->comms.fp8;
    if (!delayed(t)) return;
    rows_number(t);
    int64_t n = t->fp8.rows;
    t->fp8.scale   = tensor_new(arena, "fp8 scales", F32, n, FP8_TENSORS);
    t->fp8.amax    = tensor_new(arena, "fp8 scales", F32, n, FP8_TENSORS);
    t->fp8.history = tensor_new(arena, "fp8 scales", F32, n, FP8_TENSORS, choice_of(t)->history);
}

void trainer_fp8_init(Trainer *t)
{
    if (t->fp8.rows == 0) return;
    init_value(&t->queue, (InitValue){ .y_N = tensor_view(t->fp8.scale, tensor_count(t->fp8.scale)),
                                       .value = 1 });
    fill_zero(&t->queue, (FillZero){ .y = t->fp8.history });
}

/* What evaluations since the last step have recorded is no amax of training. */
void trainer_fp8_begin(Trainer *t)
{
    if (t->fp8.rows > 0) fill_zero(&t->queue, (FillZero){ .y = t->fp8.amax });
}

/* Of all blocks the tensors of kinds first .. first + count - 1, which have one type. */
static void scale_kinds(Trainer *t, int first, int count, Dtype format)
{
    const Fp8Choice *c = choice_of(t);
    int64_t n = t->fp8.rows * LINEARS;
    fp8_scale(&t->queue, (Fp8Scale){ .format = format, .margin = c->margin, .most_recent = c->most_recent,
        .scale_NK    = tensor_slice(tensor_view(t->fp8.scale, n, FP8_KINDS), 1, first, count),
        .history_NKL = tensor_slice(tensor_view(t->fp8.history, n, FP8_KINDS, c->history), 1, first, count),
        .amax_NK     = tensor_slice(tensor_view(t->fp8.amax, n, FP8_KINDS), 1, first, count) });
}

void trainer_fp8_end(Trainer *t)
{
    if (t->fp8.rows == 0) return;
    Tensor amax = tensor_view(t->fp8.amax, tensor_count(t->fp8.amax));
    comm_all_reduce_max(t->comms.fp8, &t->queue, amax, &t->arena[ARENA_SCRATCH]);     /* <-> tp+cp+dp */
    scale_kinds(t, FP8_X, FP8_DY - FP8_X, F8_E4M3);
    scale_kinds(t, FP8_DY, 1, dy_format(choice_of(t)));
}

/* ---- in checkpoints ---- */

LogicalTensor trainer_fp8_tensor(const Trainer *t, int64_t layer, int i)
{
    LogicalTensor tensor = { .dims = 2 + i, .dim = { LINEARS, FP8_KINDS, choice_of(t)->history, 1 },
                             .dtype = F32 };
    snprintf(tensor.name, sizeof tensor.name, "blocks.%lld.%s", (long long)layer,
             i == 0 ? "fp8.scale" : "fp8.amax_history");
    return tensor;
}

TensorShard trainer_fp8_shard(const Trainer *t, int64_t layer, int i)
{
    LogicalTensor of = trainer_fp8_tensor(t, layer, i);
    TensorShard shard = { .dims = of.dims };
    if (!t->fp8.row || t->fp8.row[layer] < 0) return shard;
    snprintf(shard.name, sizeof shard.name, "%s", of.name);
    shard.count = 1;
    for (int d = 0; d < 4; d++) {
        shard.global[d] = shard.box[d] = d < of.dims ? of.dim[d] : 1;
        shard.count *= shard.box[d];
    }
    shard.local = tensor_flat(i == 0 ? t->fp8.scale : t->fp8.history, t->fp8.row[layer] * shard.count,
                              shard.count);
    return shard;
}

Fp8Largest trainer_fp8_largest(const Trainer *t)
{
    const Fp8Choice *c = choice_of(t);
    if (!delayed(t)) return (Fp8Largest){ 0 };
    return (Fp8Largest){ .x  = ldexp(dtype_max(F8_E4M3), -c->margin),
                         .dy = ldexp(dtype_max(dy_format(c)), -c->margin) };
}

/* Both numbers are 1.75 times a power of two, so the product is exact. */
void trainer_fp8_adapt(Trainer *t, int64_t layer, Fp8Largest was)
{
    if (t->fp8.row[layer] < 0) return;
    Fp8Largest now = trainer_fp8_largest(t);
    float *scale = (float *)t->fp8.scale.data + t->fp8.row[layer] * FP8_TENSORS;
    for (int i = 0; i < FP8_TENSORS; i++) {
        double factor = i % FP8_KINDS == FP8_DY ? now.dy / was.dy : now.x / was.x;
        scale[i] = (float)fmin((double)scale[i] * factor, (double)FLT_MAX);
    }
}
