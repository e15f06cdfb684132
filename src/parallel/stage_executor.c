/* The loops over units. In each iteration a unit's weights are unsharded, the next unit's prefetched, the
 * unit runs, its weights are resharded and scratch is reset, so that scratch needs the bytes of the largest
 * unit only. */
#include "parallel/stage_executor.h"
#include <stdlib.h>

static void slot_open(StageExecutor *executor, ActivationSlot *slot, const StageExecutorSetup *s)
{
    int64_t units = 0;
    for (int c = 0; c < executor->stage->chunks; c++)
        if (executor->stage->count[c] > units) units = executor->stage->count[c];
    slot->save  = calloc((size_t)units, sizeof *slot->save);
    slot->input = calloc((size_t)units, sizeof *slot->input);
    slot->batch = loader_batch_new(s->batch, s->batches);
    CHECK(slot->save && slot->input, "no memory for the saved tensors of %lld units", (long long)units);
    arena_open_within(&slot->activations, "slot", s->activations, "slots", s->slot_bytes);
}

void stage_executor_open(StageExecutor *executor, const StageExecutorSetup *s)
{
    *executor = (StageExecutor){ .stage = s->stage, .buckets = s->buckets, .ctx = s->ctx, .defer = s->defer,
        .next_unit = -1,
        .recompute = s->recompute, .recomputed = s->recomputed,
        .slots = s->slots, .slot = calloc((size_t)s->slots, sizeof(ActivationSlot)) };
    CHECK(executor->slot, "no memory for %d activation slots", s->slots);
    for (int i = 0; i < s->slots; i++) slot_open(executor, &executor->slot[i], s);
    executor->ctx.batch = &executor->slot[0].batch;        /* hidden_new needs its sizes */
    /* Pushed before any unit runs, so they remain when scratch is reset to the mark of a unit. */
    for (int i = 0; s->buckets->training && !s->forward_alone && i < 2; i++)
        executor->unit_grad[i] = hidden_new(&executor->ctx, executor->ctx.scratch, "gradient between units");
}

void stage_executor_close(StageExecutor *executor)
{
    for (int i = 0; i < executor->slots; i++) {
        arena_close(&executor->slot[i].activations);
        free(executor->slot[i].save);
        free(executor->slot[i].input);
    }
    free(executor->slot);
}

size_t stage_executor_slot_bytes(const StageExecutor *executor)
{
    size_t most = 0;
    for (int i = 0; i < executor->slots; i++)
        if (executor->slot[i].activations.peak > most) most = executor->slot[i].activations.peak;
    return most;
}

size_t stage_executor_wgrad_bytes(const StageExecutor *executor)
{
    size_t forward = 0, most = stage_executor_slot_bytes(executor);
    for (int i = 0; i < executor->slots; i++)
        if (executor->slot[i].forward_bytes > forward) forward = executor->slot[i].forward_bytes;
    return executor->defer && forward > 0 ? most - forward : 0;
}

ActivationSlot *stage_executor_slot(StageExecutor *executor, int slot) { return &executor->slot[slot]; }

static RecomputeGroup group_of(const StageExecutor *executor, int chunk, int64_t i)
{
    return stage_recompute_group(executor->stage, &executor->recompute, executor->ctx.config->layers, chunk,
        i);
}

static bool group_has(RecomputeGroup group) { return group.end > group.first; }

/* The context of a slot. Deferred weight gradients run after scratch is reset, so what they read is kept in
 * the slot. */
static ExecContext slot_context(const StageExecutor *executor, ActivationSlot *slot)
{
    ExecContext ctx = executor->ctx;
    ctx.batch       = &slot->batch;
    ctx.activations = ctx.activations_wgrad = &slot->activations;
    ctx.recompute   = executor->recompute.modules;
    ctx.wgrad_saved = executor->defer ? &slot->activations : ctx.scratch;
    return ctx;
}

void stage_executor_begin(StageExecutor *executor, int chunk, int index)
{
    ActivationSlot *slot = stage_executor_slot(executor, index);
    ExecContext ctx = slot_context(executor, slot);
    arena_reset(&slot->activations, 0);
    slot->in = (Hidden){ .n = 0 };
    if (!stage_is_first(executor->stage, chunk)) slot->in = hidden_new(&ctx, ctx.activations, "chunk input");
}

static void prefetch(StageExecutor *executor, int64_t unit)
{
    if (unit >= 0) zero_prefetch(executor->buckets, unit);                        /* <-> shard under ZeRO 3 */
}

/* Whether a unit's forward reads weights. In training the head's does not, since its backward computes the
 * loss as well; so ZeRO 3 gathers its weights, and a tied embedding, once. Multi-token prediction reads what
 * the head's final norm makes. */
static bool forward_reads_weights(const StageExecutor *executor, int64_t unit)
{
    bool head = model_unit(executor->ctx.config, unit) == UNIT_HEAD;
    return !head || !executor->ctx.backward_follows || executor->ctx.config->mtp > 0;
}

/* The units of the chunk whose forward runs: multi-token prediction is for training. */
static int64_t forward_units(const StageExecutor *executor, int chunk)
{
    int64_t first = executor->stage->first[chunk], count = executor->stage->count[chunk];
    int64_t end = executor->ctx.backward_follows ? model_units(executor->ctx.config)
                                                 : model_head(executor->ctx.config) + 1;
    return first + count < end ? count : end - first;
}

/* The unit whose weights are read after the forward of unit i of the chunk; -1: none. */
static int64_t forward_next_read(const StageExecutor *executor, int chunk, int64_t i)
{
    int64_t first = executor->stage->first[chunk];
    while (++i < forward_units(executor, chunk))
        if (forward_reads_weights(executor, first + i)) return first + i;
    return executor->next_unit;
}

/* comm_poll lets the transport progress between units: with MPI, messages posted earlier move only inside its
 * calls. */
void stage_executor_forward(StageExecutor *executor, int chunk, int index)
{
    ActivationSlot *slot = stage_executor_slot(executor, index);
    ExecContext ctx = slot_context(executor, slot);
    int64_t first = executor->stage->first[chunk], count = forward_units(executor, chunk);
    size_t empty = arena_mark(executor->recomputed);
    Hidden x = slot->in;
    for (int64_t i = 0; i < count; i++) {
        size_t mark = arena_mark(ctx.scratch);
        RecomputeGroup group = group_of(executor, chunk, i);
        bool ends = i + 1 == count && stage_is_last(executor->stage, chunk), last = i + 1 == group.end;
        ctx.activations = group_has(group) ? executor->recomputed : &slot->activations;
        ctx.activations_wgrad = ctx.activations;
        Hidden y = { .n = 0 };
        if (!ends) y = hidden_new(&ctx, last ? &slot->activations : ctx.activations, "residual");
        if (group_has(group) && i == group.first) slot->input[i] = x;
        UnitParam w = { 0 };
        if (forward_reads_weights(executor, first + i))
            w = zero_unshard(executor->buckets, first + i);                       /* <-> shard under ZeRO 3 */
        prefetch(executor, forward_next_read(executor, chunk, i));                /* <-> shard under ZeRO 3 */
        thread_context()->unit = (int)(first + i);
        unit_forward(&ctx, first + i, y, &w, &slot->save[i], x);               /* <-> tp cp */
        thread_context()->unit = -1;
        zero_reshard(executor->buckets, first + i);
        arena_reset(ctx.scratch, mark);
        if (last) arena_reset(executor->recomputed, empty);
        comm_poll(executor->ctx.tp.comm);
        x = y;
    }
    slot->out     = x;
    slot->forward_bytes = arena_mark(&slot->activations);
}

/* The unit's weight gradients of a micro-batch are complete. */
static void complete_weight(StageExecutor *executor, int64_t unit)
{
    zero_reduce_grads(executor->buckets, unit, executor->final);               /* <-> shard under ZeRO 2, 3 */
    if (executor->final) buckets_reduce_begin(executor->buckets, unit);        /* <-> shard, replica */
}

static void backward_weight(StageExecutor *executor, const ExecContext *ctx, int64_t unit, UnitSave *save)
{
    UnitParam dw = zero_unshard_grads(executor->buckets, unit);
    thread_context()->unit = (int)unit;
    unit_backward_weight(ctx, unit, &dw, save);                           /* <-> tp under sequence parallel */
    thread_context()->unit = -1;
    complete_weight(executor, unit);                                           /* <-> shard, replica */
}

/* Whether a unit's backward_input reads weights. The embedding's does not, since ids have no gradient; so
 * ZeRO 3 need not gather the token embedding, the largest of all blocks, a second time. */
static bool backward_reads_weights(const StageExecutor *executor, int64_t unit)
{
    return model_unit(executor->ctx.config, unit) != UNIT_EMBED;
}

/* The unit whose weights backward reads after those of unit i: where a group of recomputed units is next, the
 * first of the group, because its forward is repeated. -1: none. */
static int64_t next_read(const StageExecutor *executor, int chunk, int64_t i)
{
    if (i == 0 || !backward_reads_weights(executor, executor->stage->first[chunk] + i - 1)) return -1;
    RecomputeGroup group = group_of(executor, chunk, i - 1);
    return group_has(group) && group.end == i ? group.first : i - 1;
}

/* Whether a unit's weight gradients are computed while tp sums its input gradients. */
static bool weight_beside(const StageExecutor *executor, int64_t unit)
{
    return executor->buckets->overlap && !executor->defer && comm_size(executor->ctx.tp.comm) > 1 &&
           unit_weight_beside(executor->ctx.config, unit);
}

int64_t stage_executor_first_read(const StageExecutor *executor, int chunk, bool forward)
{
    int64_t first = executor->stage->first[chunk], last = executor->stage->count[chunk] - 1;
    RecomputeGroup group = group_of(executor, chunk, last);
    if (forward) return forward_reads_weights(executor, first) ? first : -1;
    if (!backward_reads_weights(executor, first + last)) return -1;
    return first + (group_has(group) && group.end == last + 1 ? group.first : last);
}

/* Repeats the forward of a unit for its saves, and returns its output, which the last unit of a group does
 * not compute. Saves that deferred weight gradients read are kept in the slot. */
static Hidden recompute_unit(StageExecutor *executor, const ExecContext *ctx, ActivationSlot *slot,
                             int chunk, int64_t i, const UnitParam *w, Hidden x)
{
    ExecContext again = *ctx;
    size_t mark = arena_mark(ctx->scratch);
    Hidden y = { .n = 0 };
    again.activations = executor->recomputed;
    bool deferred = executor->defer && unit_defers_weight(ctx, executor->stage->first[chunk] + i);
    again.activations_wgrad = deferred ? &slot->activations : executor->recomputed;
    bool last = i + 1 == group_of(executor, chunk, i).end;
    if (!last) y = hidden_new(&again, again.activations_wgrad, "residual");
    thread_context()->unit = (int)(executor->stage->first[chunk] + i);
    unit_forward(&again, executor->stage->first[chunk] + i, y, w, &slot->save[i], x);  /* <-> tp cp */
    thread_context()->unit = -1;
    arena_reset(ctx->scratch, mark);
    return y;
}

/* Repeats the forward of the units before i of the group that ends with unit i, and returns the input of
 * unit i. */
static Hidden recompute_before(StageExecutor *executor, const ExecContext *ctx, ActivationSlot *slot,
                               int chunk, int64_t i)
{
    int64_t from = group_of(executor, chunk, i).first, first = executor->stage->first[chunk];
    Hidden x = slot->input[from];
    for (int64_t j = from; j < i; j++) {
        UnitParam w = zero_unshard(executor->buckets, first + j);             /* <-> shard under ZeRO 3 */
        zero_prefetch(executor->buckets, first + j + 1);                      /* <-> shard under ZeRO 3 */
        x = recompute_unit(executor, ctx, slot, chunk, j, &w, x);                           /* <-> tp cp */
        zero_reshard(executor->buckets, first + j);
        comm_poll(executor->ctx.tp.comm);
    }
    return x;
}

void stage_executor_backward_input(StageExecutor *executor, int chunk, int index, Hidden dx, Hidden dy)
{
    ActivationSlot *slot = stage_executor_slot(executor, index);
    ExecContext ctx = slot_context(executor, slot);
    int64_t first = executor->stage->first[chunk], count = executor->stage->count[chunk];
    size_t empty = arena_mark(executor->recomputed);
    for (int64_t i = count - 1; i >= 0; i--) {
        size_t mark = arena_mark(ctx.scratch);
        RecomputeGroup group = group_of(executor, chunk, i);
        bool again = i + 1 == group.end, at_once = !unit_defers_weight(&ctx, first + i);
        Hidden dx_unit = i == 0 ? dx : executor->unit_grad[i % 2], x = { .n = 0 };
        UnitParam w = { 0 }, dw = { 0 };
        ctx.activations = group_has(group) ? executor->recomputed : &slot->activations;
        ctx.wgrad_saved = executor->defer && !at_once ? &slot->activations : ctx.scratch;
        if (again) x = recompute_before(executor, &ctx, slot, chunk, i);      /* <-> tp cp shard */
        if (backward_reads_weights(executor, first + i))
            w = zero_unshard(executor->buckets, first + i);                   /* <-> shard under ZeRO 3 */
        if (next_read(executor, chunk, i) >= 0)
            zero_prefetch(executor->buckets, first + next_read(executor, chunk, i));   /* <-> shard, ZeRO 3 */
        if (i == 0) prefetch(executor, executor->next_unit);                  /* <-> shard under ZeRO 3 */
        if (again) recompute_unit(executor, &ctx, slot, chunk, i, &w, x);                   /* <-> tp cp */
        bool beside = weight_beside(executor, first + i);
        if (at_once || beside) dw = zero_unshard_grads(executor->buckets, first + i);
        ctx.beside = beside ? &dw : NULL;
        thread_context()->unit = (int)(first + i);
        unit_backward_input(&ctx, first + i, dx_unit, &w, &dw, &slot->save[i], dy);      /* <-> tp cp */
        thread_context()->unit = -1;
        zero_reshard(executor->buckets, first + i);
        if (at_once || beside) complete_weight(executor, first + i);          /* <-> shard, replica */
        else if (!executor->defer) backward_weight(executor, &ctx, first + i, &slot->save[i]);
        arena_reset(ctx.scratch, mark);
        if (i == group.first) arena_reset(executor->recomputed, empty);
        comm_poll(executor->ctx.tp.comm);
        dy = dx_unit;
    }
}

void stage_executor_backward_weight(StageExecutor *executor, int chunk, int index)
{
    if (!executor->defer) return;
    ActivationSlot *slot = stage_executor_slot(executor, index);
    ExecContext ctx = slot_context(executor, slot);
    for (int64_t i = executor->stage->count[chunk] - 1; i >= 0; i--) {
        size_t mark = arena_mark(ctx.scratch);
        int64_t unit = executor->stage->first[chunk] + i;
        if (unit_defers_weight(&ctx, unit)) backward_weight(executor, &ctx, unit, &slot->save[i]);
        arena_reset(ctx.scratch, mark);
        comm_poll(executor->ctx.tp.comm);
    }
}
