/* State of the mixture of experts over a run: the bias of each expert, and what a step counts. At the end of
 * a step the counts of all ranks of the stage are added, so that every layout has the same biases, and each
 * stage's totals are added to those of the others for the report. */
#include <stdio.h>
#include <stdlib.h>
#include "store/checkpoint_writer.h"
#include "train/trainer.h"
#include "train/trainer_moe.h"

static bool has_experts(const Trainer *t) { return t->config->model.experts > 0; }

static void rows_number(Trainer *t)
{
    const ModelConfig *model = &t->config->model;
    int ranks = comm_size(t->comms.dispatch);
    int64_t layers = model_layers(model);
    t->moe.row = calloc((size_t)layers, sizeof *t->moe.row);
    CHECK(t->moe.row, "no memory for the rows of %lld layers", (long long)layers);
    for (int64_t l = 0; l < layers; l++) {
        bool here = model_layer_is_moe(model, l) && stage_holds(&t->stage, model_layer_unit(model, l));
        t->moe.row[l] = here ? (int)t->moe.rows++ : -1;
    }
    for (int i = 0; i < 2; i++) {
        size_t chunks = (size_t)moe_chunks(model, ranks / t->mesh.size.etp);
        t->moe.offset[i] = calloc(chunks * ((size_t)ranks + 1), sizeof *t->moe.offset[i]);
        CHECK(t->moe.offset[i], "no memory for the offsets of %d ranks", ranks);
    }
}

void trainer_moe_open(Trainer *t)
{
    const ModelConfig *model = &t->config->model;
    Arena *arena = &t->arena[ARENA_PERSISTENT];
    Dtype statistic = t->precision.statistic;
    if (!has_experts(t)) return;
    rows_number(t);
    t->moe.dispatch = t->comms.dispatch;
    t->moe.sequence = t->comms.sequence;
    t->moe.shards   = t->mesh.size.etp;
    t->moe.overlap  = !t->config->no_overlap;
    if (model->moe.bias && t->moe.rows > 0)
        t->moe.bias_nE = tensor_new(arena, "expert biases", statistic, t->moe.rows, model->experts);
    if (!t->config->training) return;
    if (t->moe.rows > 0)
        t->moe.load_nE = tensor_new(arena, "expert loads", statistic, t->moe.rows, model->experts + MOE_SUMS);
    t->moe_summary = tensor_new(arena, "expert loads", statistic, 1 + MOE_SUMS);
}

void trainer_moe_close(Trainer *t)
{
    free(t->moe.row);
    for (int i = 0; i < 2; i++) free(t->moe.offset[i]);
}

void trainer_moe_init(Trainer *t)
{
    if (tensor_present(t->moe.bias_nE)) fill_zero(&t->queue, (FillZero){ .y = t->moe.bias_nE });
}

void trainer_moe_begin(Trainer *t)
{
    if (tensor_present(t->moe.load_nE)) fill_zero(&t->queue, (FillZero){ .y = t->moe.load_nE });
}

void trainer_moe_end(Trainer *t)
{
    const MoeConfig *moe = &t->config->model.moe;
    Tensor load = t->moe.load_nE;
    Arena *scratch = &t->arena[ARENA_SCRATCH];
    if (!has_experts(t)) return;
    if (t->moe.rows > 0)
        comm_all_reduce(t->comms.stage, &t->queue, load, scratch);              /* <-> tp+cp+dp: all-reduce */
    if (tensor_present(t->moe.bias_nE))
        expert_bias_update(&t->queue, (ExpertBiasUpdate){ .bias_LE = t->moe.bias_nE, .load_LE = load,
            .rate = moe->bias_rate });
    fill_zero(&t->queue, (FillZero){ .y = t->moe_summary });
    if (t->moe.rows > 0)
        load_summary(&t->queue, (LoadSummary){ .summary_S = t->moe_summary, .load_LE = load });
    comm_all_reduce(t->comms.pp, &t->queue, t->moe_summary, scratch);  /* <-> pp: all-reduce */
}

/* Means over layers, and over tokens. */
MoeReport trainer_moe_report(Trainer *t)
{
    double read[1 + MOE_SUMS], number[1 + MOE_SUMS];
    const ModelConfig *model = &t->config->model;
    double tokens = (double)(t->run.batch * model->sequence), layers = 0;
    if (!has_experts(t) || !t->moe_summary.data) return (MoeReport){ 0 };
    for (int64_t l = 0; l < model_layers(model); l++) layers += model_layer_is_moe(model, l);
    queue_read(&t->queue, read, t->moe_summary.data, tensor_bytes(t->moe_summary));
    dtype_convert(number, F64, read, t->moe_summary.dtype, 1 + MOE_SUMS);
    return (MoeReport){ .load = number[0] / layers,
        .dropped = number[1 + MOE_DROPPED] / (layers * tokens * (double)model->moe.topk),
        .balance = number[1 + MOE_BALANCE] / (layers * tokens),
        .z       = number[1 + MOE_Z] / (layers * tokens) };
}

/* ---- in checkpoints ---- */

LogicalTensor trainer_moe_tensor(const Trainer *t, int64_t layer)
{
    return checkpoint_expert_bias(&t->config->model, layer, t->precision.statistic);
}

TensorShard trainer_moe_shard(const Trainer *t, int64_t layer)
{
    LogicalTensor of = trainer_moe_tensor(t, layer);
    TensorShard shard = { .dims = 1 };
    int64_t E = t->config->model.experts;
    if (!tensor_present(t->moe.bias_nE) || t->moe.row[layer] < 0) return shard;
    snprintf(shard.name, sizeof shard.name, "%s", of.name);
    for (int d = 0; d < 4; d++) shard.global[d] = shard.box[d] = d == 0 ? E : 1;
    shard.count = E;
    shard.local = tensor_flat(t->moe.bias_nE, t->moe.row[layer] * E, E);
    return shard;
}
