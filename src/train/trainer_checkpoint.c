/* Between the flat parameter blocks of a rank and the logical tensors of a checkpoint. The tensors are named
 * by their parameter, or <parameter>.<state> for an optimizer state; which part of each a rank writes or
 * reads follows from its buckets. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "comm/broadcast.h"
#include "store/checkpoint_writer.h"
#include "convert/weights/foreign_weights.h"
#include "tensor/step_end.h"
#include "train/step.h"
#include "train/step_sums.h"
#include "train/trainer.h"
#include "train/trainer_checkpoint.h"
#include "train/trainer_fp8.h"
#include "train/trainer_moe.h"
#include "train/trainer_optimizer.h"

/* A growing list; the caller frees shard. */
typedef struct { TensorShard *shard; int count, capacity; } ShardList;

/* Adds a shard whose elements are in `flat` from element `at` of the block on; flat begins at element
 * flat_first of the block. Empty shards are left out. */
static void shards_add(const Trainer *t, ShardList *list, TensorShard shard, Tensor flat, int64_t flat_first,
                       int64_t at)
{
    if (shard.count == 0) return;
    ARRAY_RESERVE_OR_STOP(list->shard, list->capacity, list->count + 1);
    shard.local = tensor_flat(flat, at + shard.first - flat_first, shard.count);
    if (t->queue.memory) shard.queue = (Queue *)&t->queue;
    list->shard[list->count++] = shard;
}

/* A range of elements of a parameter block. */
typedef struct { int64_t first, count; } BlockRange;

static LogicalTensor state_tensor(const Trainer *t, const OptimizerState *state, const ParamBlock *block,
                                  int p)
{
    TensorShard whole = state_held(state, &t->update.optimizer.sizes, block, p, 0, block->count);
    LogicalTensor tensor = { .dims = whole.dims, .dtype = t->precision.state[state->role] };
    memcpy(tensor.dim, whole.global, sizeof tensor.dim);
    memcpy(tensor.name, whole.name, sizeof tensor.name);
    return tensor;
}

/* Whether the checkpoint has the errors of as many workers; NULL: it is about to be written. */
static bool of_these_workers(const Trainer *t, const Checkpoint *from, const OptimizerState *state,
                             const ParamBlock *block, int p)
{
    if (!from || state->shape != PER_WORKER) return true;
    LogicalTensor tensor = state_tensor(t, state, block, p);
    return checkpoint_has(from, &tensor);
}

/* part: state_held or state_saved, of the elements `span`, but for those of workers, which are saved as
 * they are held. From a checkpoint of another number of workers their errors are left out. */
static void add_states(const Trainer *t, ShardList *list, int index, int p, BlockRange span,
                       const Checkpoint *from,
                       TensorShard (*part)(const OptimizerState *state, const StateSizes *sizes,
                                           const ParamBlock *block, int p, int64_t first, int64_t count))
{
    const OptimizerPiece *piece = trainer_piece(t, index, p);
    const StateSizes *sizes = &t->update.optimizer.sizes;
    const Bucket *k = &t->buckets.bucket[index];
    for (int s = 0; piece && s < piece->rule->states; s++) {
        const OptimizerState *state = &piece->rule->state[s];
        bool worker = state_of_worker(state);
        if (worker && !from && !bucket_counts_worker(k)) continue;
        if (!of_these_workers(t, from, state, &k->block, p)) continue;
        BlockRange of = worker ? (BlockRange){ k->own_first, k->own_count } : span;
        TensorShard held = state_held(state, sizes, &k->block, p, k->own_first, k->own_count);
        TensorShard shard = part(state, sizes, &k->block, p, of.first, of.count);
        shards_add(t, list, shard, piece->state[s], held.first, 0);
    }
}

/* x: the weights or the master weights of the bucket, whose first element is flat_first of the block */
static void add_weight(const Trainer *t, const Bucket *k, ShardList *list, int p, BlockRange span, Tensor x,
                       int64_t flat_first)
{
    shards_add(t, list, params_tensor_shard(&k->block, p, span.first, span.count), x, flat_first,
        k->block.param[p].at);
}

/* The scales of a block's 8-bit inputs and their history, which all ranks of a stage have. From a checkpoint
 * only what it holds in this shape: one without them, or with a history of another length, is read as well,
 * and the others are those of a new run. */
static void add_scales(const Trainer *t, ShardList *list, const Checkpoint *from)
{
    for (int64_t l = 0; t->fp8.rows > 0 && l < model_layers(&t->config->model); l++)
        for (int i = 0; i < FP8_SAVED; i++) {
            TensorShard   shard = trainer_fp8_shard(t, l, i);
            LogicalTensor tensor = trainer_fp8_tensor(t, l, i);
            if (shard.count == 0 || (from && !checkpoint_has(from, &tensor))) continue;
            shards_add(t, list, shard, shard.local, 0, 0);
        }
}

/* The biases of experts, which all ranks of a stage have. A checkpoint without them was not trained with
 * any. */
static void add_biases(const Trainer *t, ShardList *list, const Checkpoint *from)
{
    for (int64_t l = 0; tensor_present(t->moe.bias_nE) && l < model_layers(&t->config->model); l++) {
        TensorShard   shard = trainer_moe_shard(t, l);
        LogicalTensor tensor = trainer_moe_tensor(t, l);
        if (shard.count == 0 || (from && !checkpoint_has(from, &tensor))) continue;
        shards_add(t, list, shard, shard.local, 0, 0);
    }
}

/* What this rank writes: the elements that it counts, of parameters of which its copy is saved. So over all
 * ranks each element is written once. */
static ShardList shards_to_save(const Trainer *t)
{
    bool states = !t->config->no_save_states;
    ShardList list = { 0 };
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        BlockRange counted = { k->counted_first, k->counted_count };
        for (int p = 0; p < k->block.params; p++) {
            if (!k->block.param[p].saves) continue;
            add_weight(t, k, &list, p, counted, bucket_master(k), k->own_first);
            if (states) add_states(t, &list, i, p, counted, NULL, state_saved);
        }
    }
    if (comm_rank(t->comms.dp_cp) == 0 && t->mesh.at.tp == 0) {
        if (states) add_scales(t, &list, NULL);
        add_biases(t, &list, NULL);
    }
    return list;
}

/* What this rank reads: all it holds, whether or not other ranks hold it too. Weights narrower than those of
 * the checkpoint are rounded as they are read, as the optimizer rounds the master weights. */
static ShardList shards_to_load(const Trainer *t, const Checkpoint *from, bool states)
{
    ShardList list = { 0 };
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        bool whole = k->zero_stage < 3;
        BlockRange stored = { whole ? 0 : k->own_first, whole ? bucket_whole(k) : k->own_count };
        for (int p = 0; p < k->block.params; p++) {
            BlockRange own = { k->own_first, k->own_count };
            add_weight(t, k, &list, p, stored, k->weights, stored.first);
            if (tensor_present(k->master)) add_weight(t, k, &list, p, own, k->master, k->own_first);
            if (states) add_states(t, &list, i, p, own, from, state_held);
        }
    }
    if (states) add_scales(t, &list, from);
    add_biases(t, &list, from);
    return list;
}

/* A side that is too long for a square state has none. */
static void logical_add_state(const Trainer *t, CheckpointFile *file, const OptimizerState *state,
                              const ParamBlock *block, int p)
{
    LogicalTensor tensor = state_tensor(t, state, block, p);
    bool empty = false;
    for (int d = 0; d < tensor.dims; d++) empty |= tensor.dim[d] == 0;
    if (!empty) file->tensor[file->tensors++] = tensor;
}

static void logical_add_block(const Trainer *t, CheckpointFile *file, const ParamBlock *block, bool states)
{
    for (int p = 0; p < block->params; p++) {
        const UpdateRule *rule = optimizer_rule(t->config->optimizer, &block->param[p]);
        const Param *param = &block->param[p];
        file->tensor[file->tensors++] = checkpoint_param(param, t->precision.master);
        for (int s = 0; states && s < rule->states; s++)
            logical_add_state(t, file, &rule->state[s], block, p);
    }
}

/* Adds the scales of the block's 8-bit inputs, `always` also where this run has none. */
static void logical_add_scales(const Trainer *t, CheckpointFile *file, int64_t block, bool always)
{
    const ModelConfig *model = &t->config->model;
    const Fp8Choice *fp8 = &t->config->precision.fp8;
    int64_t layer = block > 0 ? model_unit_layer(model, block - 1) : -1;
    bool has = fp8->recipe == FP8_DELAYED && fp8_has_block(fp8, layer, model->layers);
    if (layer < 0 || !(has || always)) return;
    for (int i = 0; i < FP8_SAVED; i++) file->tensor[file->tensors++] = trainer_fp8_tensor(t, layer, i);
}

/* The files of a checkpoint: one for each unit and one for the token embedding, of its parameters and, with
 * `states`, their optimizer states, the same under every layout.
 * `any` adds the tensors of a block that this run may lack. Returns their number; the caller frees *out and
 * the tensors of each. */
static int files_make(const Trainer *t, bool states, bool any, CheckpointFile **out)
{
    const TrainConfig *config = t->config;
    int64_t blocks = params_blocks(&config->model);
    int count = 0;
    *out = calloc((size_t)blocks, sizeof **out);
    CHECK(*out, "no memory for %lld checkpoint files", (long long)blocks);
    for (int64_t b = 0; b < blocks; b++) {
        ParamBlock block[PARAM_FAMILIES];
        int params = 0;
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
            params_block(&block[f], &config->model, f, b, NULL);
            params += block[f].params;
        }
        if (params == 0) continue;
        CheckpointFile *file = &(*out)[count++];
        file->tensor = calloc((size_t)params * (1 + OPTIMIZER_STATES) + FP8_SAVED + 1, sizeof *file->tensor);
        CHECK(file->tensor, "no memory for a checkpoint file of %d tensors", params);
        checkpoint_file_name(file->name, b);
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) logical_add_block(t, file, &block[f], states);
        if (states) logical_add_scales(t, file, b, any);
        int64_t layer = b > 0 ? model_unit_layer(&config->model, b - 1) : -1;
        if (model_layer_is_moe(&config->model, layer) && (config->model.moe.bias || any))
            file->tensor[file->tensors++] = trainer_moe_tensor(t, layer);
    }
    return count;
}

/* Weights that are not finite are never saved, so the newest checkpoint can always be resumed from. One sum
 * of squares finds any. */
static Status check_weights_finite(Trainer *t)
{
    Tensor sum_1 = tensor_flat(t->sums.own_S, SUM_SQUARES, 1);
    fill_zero(&t->queue, (FillZero){ .y = sum_1 });
    for (int i = 0; i < t->buckets.count; i++)
        square_sum(&t->queue, (SquareSum){ .out_1 = sum_1, .x_N = bucket_master(&t->buckets.bucket[i]) });
    double sum;
    queue_read(&t->queue, &sum, sum_1.data, sizeof sum);
    if (isfinite(sum)) return OK;
    return fail(BAD_OPTION,
        "weights are not finite after step %lld, so they are not saved; earlier checkpoints are kept; "
        "try a lower --lr or a larger --adam-eps", (long long)t->run.step);
}

Status trainer_save(Trainer *t, const char *dir, int64_t keep_last)
{
    const char *data = NULL;
    Status ready = check_weights_finite(t);
    /* rank 0 writes the manifest */
    if (ready == OK && t->mesh.rank == 0) ready = datasets_fingerprints(&t->input.datasets, &data);
    TRY(agree(t->comms.world, ready));
    Fp8Largest largest = trainer_fp8_largest(t);
    CheckpointState state = { .data_fingerprint = data, .tokenizer = t->config->tokenizer,
        .lacks = t->config->no_save_states ? CHECKPOINT_STATES : 0,
        .fp8_largest = { largest.x, largest.dy }, .valid_loss = t->run.valid_loss, .due = t->run.due,
        .losses = t->run.losses, .evaluations = t->run.evaluations,
        .loss_scale = t->step_state.loss, .step = t->run.step,
        .average = { t->run.average.sum, t->run.average.largest }, .estimated = t->run.estimated,
        .samples = t->run.samples, .updates = t->step_state.updates, .updated_samples =
            t->run.updated_samples,
        .step_samples = t->config->lr.by_steps ? (int64_t)t->config->lr.step : 0,
        .seed = t->config->seed, .options = t->config->options, .given = t->config->given,
        .kernels = t->queue.backend == &cpu_backend ? kernel_family_name(t->queue.kernels) : NULL };
    CheckpointFile *files;
    int count = files_make(t, !t->config->no_save_states, false, &files);
    ShardList list = shards_to_save(t);
    queue_wait(&t->queue);
    Status status = checkpoint_save(t->comms.world, dir, &state, files, count, list.shard, list.count,
        (int)keep_last);
    checkpoint_files_free(files, count);
    free(list.shard);
    return status;
}

/* Whether the checkpoint has exactly the tensors that the model needs, or the scales of 8-bit inputs as well.
 * Not collective. Without `states` those of the checkpoint are ignored, of whichever optimizer. */
static Status check_coverage(const Trainer *t, const Checkpoint *checkpoint, bool states)
{
    CheckpointFile *files;
    int count = files_make(t, true, true, &files), tensors = 0;
    for (int i = 0; i < count; i++) tensors += files[i].tensors;
    LogicalTensor *all = calloc((size_t)tensors + 1, sizeof *all);
    CHECK(all, "no memory for a list of %d tensors", tensors);
    tensors = 0;
    for (int i = 0; i < count; i++) {
        memcpy(all + tensors, files[i].tensor, (size_t)files[i].tensors * sizeof *all);
        tensors += files[i].tensors;
    }
    checkpoint_files_free(files, count);
    Status status = checkpoint_covers(checkpoint, all, tensors, !states);
    free(all);
    return status;
}

/* A checkpoint from before this was in the manifest has scales of unknown formats, which are taken as they
 * are. */
static void adapt_scales(Trainer *t, const Checkpoint *from)
{
    const double *was = checkpoint_position(from)->fp8_largest;
    for (int64_t l = 0; was[0] > 0 && t->fp8.rows > 0 && l < model_layers(&t->config->model); l++) {
        LogicalTensor scale = trainer_fp8_tensor(t, l, 0);
        if (checkpoint_has(from, &scale)) trainer_fp8_adapt(t, l, (Fp8Largest){ was[0], was[1] });
    }
}

unsigned trainer_loads(const Trainer *t, unsigned lacks)
{
    unsigned leave = t->run.has_saved ? 0 : t->config->leave;
    return t->config->training ? (CHECKPOINT_STATES | CHECKPOINT_POSITION) & ~(leave | lacks) : 0;
}

Status trainer_find(const char *load, char path[1024], bool *found, CheckpointState *state)
{
    *found = foreign_weights_folder(load) != NULL;
    if (*found) {
        snprintf(path, 1024, "%s", load);
        *state = (CheckpointState){ .lacks = CHECKPOINT_STATES | CHECKPOINT_POSITION };
        return OK;
    }
    TRY(checkpoint_find(load, path, found));
    return *found ? checkpoint_state(path, state) : OK;
}

/* Adam's moments are the states that other programs' checkpoints have here. */
static Status check_states(const Trainer *t, const char *folder)
{
    if (optimizers_share_states(t->config->optimizer->name, "adam")) return OK;
    return fail(BAD_OPTION, "--optimizer %s: %s has the states of adam; --no-load-optim begins with new ones",
                t->config->optimizer->name, folder);
}

/* Of a program that does not say its samples, as the schedules count them. */
static int64_t counted_samples(const Trainer *t, int64_t steps)
{
    const int64_t most = (int64_t)1 << 53;             /* that a checkpoint may have */
    return steps < most / t->config->global ? steps * t->config->global : most;
}

/* Collective over world: rank 0 reads which tensors there are, and each rank opens the files with those that
 * it holds. */
static Status load_foreign(Trainer *t, const char *folder, CheckpointState *state)
{
    char  *table = NULL;
    size_t bytes = 0;
    bool reads = t->mesh.rank == 0;
    Status status = reads ? foreign_weights_table(&table, &bytes, folder) : OK;
    status = broadcast_bytes(t->comms.world, status, &table, &bytes);  /* <-> world: broadcast */
    if (status != OK) return free(table), status;
    *state = foreign_weights_table_state(table, bytes);
    bool states = trainer_loads(t, state->lacks) & CHECKPOINT_STATES;
    ShardList list = shards_to_load(t, NULL, states);
    if (states) status = check_states(t, folder);
    if (status == OK)
        status = foreign_weights_load(table, bytes, &t->config->model, list.shard, list.count, states,
                                      comm_rank(t->comms.world), comm_size(t->comms.world));
    free(list.shard);
    free(table);
    return agree(t->comms.world, status);
}

/* Of those workers that this run has, where its optimizer has errors of workers; one tensor tells. */
static bool has_errors(const Trainer *t, const Checkpoint *from)
{
    const Bucket *k = &t->buckets.bucket[0];
    int s = optimizer_state_of(t->config->optimizer, PER_WORKER);
    const UpdateRule *rule = optimizer_rule(t->config->optimizer, &k->block.param[0]);
    return s < 0 || of_these_workers(t, from, &rule->state[s], &k->block, 0);
}

static Status load_shards(Trainer *t, const char *path, CheckpointState *state)
{
    Checkpoint *checkpoint;
    TRY(checkpoint_open(&checkpoint, path));
    *state = *checkpoint_position(checkpoint);
    bool states = trainer_loads(t, state->lacks) & CHECKPOINT_STATES;
    Status status = check_coverage(t, checkpoint, states);
    t->run.errors_left = states && !has_errors(t, checkpoint);
    ShardList list = shards_to_load(t, checkpoint, states);
    if (status == OK) status = checkpoint_load(checkpoint, list.shard, list.count, true);
    if (status == OK && states) adapt_scales(t, checkpoint);
    free(list.shard);
    checkpoint_close(checkpoint);
    return status;
}

/* A schedule of steps continues at the same step, however many samples each of them counts as now. */
static int64_t schedule_position(const LrSchedule *lr, const CheckpointState *state)
{
    bool steps = lr->by_steps && state->step_samples > 0;
    return steps ? state->updated_samples / state->step_samples * (int64_t)lr->step : state->updated_samples;
}

Status trainer_load(Trainer *t, const char *path)
{
    CheckpointState state = { 0 };
    buckets_gathered(&t->buckets);                                                /* <-> shard, ZeRO 1, 2 */
    const char *folder = foreign_weights_folder(path);
    /* for what is in no checkpoint: padding, which is zero, and states that are not loaded. A checkpoint that
     * lacks a weight is refused. */
    trainer_init_to_load(t);
    if (folder) TRY(load_foreign(t, folder, &state));              /* <-> world; same on every rank */
    else        TRY(agree(t->comms.world, load_shards(t, path, &state)));
    if (folder && state.samples == 0) state.updated_samples = counted_samples(t, state.step);
    unsigned loaded = trainer_loads(t, state.lacks);
    if (!(loaded & CHECKPOINT_STATES)) trainer_optimizer_init(t);     /* from these weights; <-> shard */
    else t->run.average = (AverageWeights){ state.average[0], state.average[1] };
    trainer_parameters(t, false);                                                        /* <-> shard */
    t->run.lacked = state.lacks;
    /* for the bias correction of the states, which are 0 where none are loaded: also after a rewind */
    t->step_state.updates = loaded & CHECKPOINT_STATES ? state.updates : 0;
    t->run.estimated = loaded & CHECKPOINT_STATES ? state.estimated : 0;
    if (!(loaded & CHECKPOINT_POSITION)) return OK;
    if (t->config->spike.window > 0) t->run.losses = state.losses;
    t->run.evaluations = state.evaluations;
    t->run.valid_loss = state.valid_loss;
    t->run.due = state.due;
    trainer_set_position(t, state.step, state.samples);
    t->run.updated_samples = schedule_position(&t->config->lr, &state);
    /* a constant scale, or the first dynamic one, is that of the options */
    if (t->config->scaling.dynamic && state.loss_scale.scale > 0) t->step_state.loss = state.loss_scale;
    return OK;
}
