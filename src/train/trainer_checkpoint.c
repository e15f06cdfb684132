#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/trainer.h"

/* Between a rank's flat blocks and the logical tensors of a checkpoint. Names: a parameter's own, and <parameter>.<state>. */

typedef struct { TensorShard *shard; int count, room; } Shards;

static void pieces_add(Shards *list, TensorShard shard, const char *state, Tensor flat, int64_t flat_first, int64_t at)
{
    if (shard.count == 0) return;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->shard = realloc(list->shard, (size_t)list->room * sizeof *list->shard);
        CHECK(list->shard, "no memory for %d shards", list->room);
    }
    if (state) snprintf(shard.name + strlen(shard.name), sizeof shard.name - strlen(shard.name), ".%s", state);
    shard.local = tensor_flat(flat, at + shard.first - flat_first, shard.count);
    list->shard[list->count++] = shard;
}

typedef struct { int64_t first, count; } ParamSpan;

static void add_states(const Trainer *t, Shards *list, int index, int p, ParamSpan span)
{
    const Bucket *k = &t->buckets.bucket[index];
    TensorShard shard = params_tensor_shard(&k->block, p, span.first, span.count);
    for (int s = 0; s < t->config->optimizer->states; s++)
        pieces_add(list, shard, t->config->optimizer->state_name[s], t->state[index][s], k->own_first, k->block.param[p].at);
}

static void add_weight(const Bucket *k, Shards *list, int p, ParamSpan span)
{
    int64_t flat_first = k->weights.dim[0] == k->padded ? 0 : k->shard_first;
    pieces_add(list, params_tensor_shard(&k->block, p, span.first, span.count), NULL, k->weights, flat_first, k->block.param[p].at);
}

/* Each element once over all ranks: its data shard, replicated parameters by tp rank 0, the word embedding by the first stage */
static Shards shards_to_save(const Trainer *t)
{
    Shards list = { 0 };
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        ParamSpan shard = { k->shard_first, k->shard };
        for (int p = 0; k->counted && p < k->block.params; p++) {
            if (k->block.param[p].sharding == TP_REPLICATED && t->mesh.at.tp > 0) continue;
            add_weight(k, &list, p, shard);
            add_states(t, &list, i, p, shard);
        }
    }
    return list;
}

/* All that this rank stores */
static Shards pieces_to_load(const Trainer *t, bool states)
{
    Shards list = { 0 };
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        bool whole = k->weights.dim[0] == k->padded;
        ParamSpan stored = { whole ? 0 : k->shard_first, whole ? k->padded : k->shard };
        for (int p = 0; p < k->block.params; p++) {
            add_weight(k, &list, p, stored);
            if (states) add_states(t, &list, i, p, (ParamSpan){ k->own_first, k->own_count });
        }
    }
    return list;
}

static void logical_add(Bundle *bundle, const Param *p, const char *state, Dtype dtype)
{
    LogicalTensor *tensor = &bundle->tensor[bundle->tensors++];
    *tensor = (LogicalTensor){ .dims = p->dims, .dim = { p->global[0], p->global[1], 1, 1 }, .dtype = dtype };
    snprintf(tensor->name, sizeof tensor->name, state ? "%s.%s" : "%s", p->name, state);
}

/* One file a block of the model, with its states: the same under every layout. Returns how many; the caller frees. */
static int bundles_make(const Trainer *t, Bundle **out)
{
    const TrainConfig *r = t->config;
    int64_t blocks = params_blocks(&r->model);
    int count = 0;
    *out = calloc((size_t)blocks, sizeof **out);
    CHECK(*out, "no memory for %lld bundles", (long long)blocks);
    for (int64_t b = 0; b < blocks; b++) {
        ParamBlock block;
        params_block(&block, &r->model, b, 1, 0);
        if (block.params == 0) continue;
        Bundle *bundle = &(*out)[count++];
        bundle->tensor = calloc((size_t)block.params * (1 + OPTIMIZER_STATES), sizeof *bundle->tensor);
        CHECK(bundle->tensor, "no memory for a bundle of %d tensors", block.params);
        snprintf(bundle->file, sizeof bundle->file, "block_%04lld.safetensors", (long long)b);
        for (int p = 0; p < block.params; p++) {
            logical_add(bundle, &block.param[p], NULL, t->queue.real);
            for (int s = 0; s < r->optimizer->states; s++) logical_add(bundle, &block.param[p], r->optimizer->state_name[s], t->queue.real);
        }
    }
    return count;
}

/* No checkpoint ever holds weights that are not finite: the one before stays the newest. */
static Status weights_finite(Trainer *t)
{
    Tensor sum_1 = tensor_flat(t->sums_3, 2, 1);
    fill_zero(&t->queue, (FillZero){ .y = sum_1 });
    for (int i = 0; i < t->buckets.count; i++) square_sum(&t->queue, (SquareSum){ .out_1 = sum_1, .x_N = t->buckets.bucket[i].weights });
    queue_wait(&t->queue);
    if (isfinite(*(const double *)sum_1.data)) return OK;
    return fail(BAD_OPTION, "weights are not finite after step %lld, so they are not saved; an older checkpoint stays; try a lower --lr or a larger --adam-eps",
                (long long)t->step);
}

Status trainer_save(Trainer *t, const char *dir)
{
    TRY(agree(t->world, weights_finite(t)));
    const char *data = t->mesh.rank == 0 ? datasets_fingerprints(&t->datasets) : NULL;         /* who writes the manifest */
    CheckpointState state = { .data = data, .step = t->step, .samples = t->loader[SPLIT_TRAIN].shift + t->step * t->config->global, .updates = t->step_state.updates, .seed = t->config->seed,
        .options = t->config->options };
    Bundle *bundles;
    int count = bundles_make(t, &bundles);
    Shards list = shards_to_save(t);
    queue_wait(&t->queue);
    Status status = checkpoint_save(t->world, dir, &state, bundles, count, list.shard, list.count, (int)t->config->keep_last);
    for (int i = 0; i < count; i++) free(bundles[i].tensor);
    free(bundles);
    free(list.shard);
    return status;
}

/* Not collective. What is only evaluated has no place for states, whoever's they are. */
static Status covers(const Trainer *t, const Checkpoint *checkpoint)
{
    Bundle *bundles;
    int count = bundles_make(t, &bundles), tensors = 0;
    for (int i = 0; i < count; i++) tensors += bundles[i].tensors;
    LogicalTensor *all = calloc((size_t)tensors + 1, sizeof *all);
    CHECK(all, "no memory for a list of %d tensors", tensors);
    tensors = 0;
    for (int i = 0; i < count; i++) {
        memcpy(all + tensors, bundles[i].tensor, (size_t)bundles[i].tensors * sizeof *all);
        tensors += bundles[i].tensors;
        free(bundles[i].tensor);
    }
    free(bundles);
    Status status = checkpoint_covers(checkpoint, all, tensors, !t->config->learn);
    free(all);
    return status;
}

static Status pieces_load(const Trainer *t, const char *path, CheckpointState *state)
{
    Checkpoint *checkpoint;
    TRY(checkpoint_open(&checkpoint, path));
    *state = *checkpoint_position(checkpoint);
    Status status = covers(t, checkpoint);
    Shards list   = pieces_to_load(t, t->config->learn);
    if (status == OK) status = checkpoint_load(checkpoint, list.shard, list.count, true);
    free(list.shard);
    checkpoint_close(checkpoint);
    if (status != OK || state->step < INT64_MAX / 2 / t->config->global) return status;
    return fail(BAD_FILE, "%s: step %lld times --global-batch-size %lld are more samples than can be counted", path, (long long)state->step,
                (long long)t->config->global);
}

Status trainer_load(Trainer *t, const char *path)
{
    CheckpointState state = { 0 };
    trainer_init(t);                                             /* padding, which no checkpoint has, is zero */
    TRY(agree(t->world, pieces_load(t, path, &state)));
    if (!t->config->learn) return OK;
    t->step = state.step;
    t->step_state.updates = state.updates;
    if (t->prefetch[SPLIT_TRAIN]) prefetch_rest(t->prefetch[SPLIT_TRAIN]);
    t->loader[SPLIT_TRAIN].shift = state.samples - state.step * t->config->global;      /* another global batch goes on at the next sample */
    return OK;
}
