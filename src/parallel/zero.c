/* The parameters and gradients of a unit while it runs. Under ZeRO 3 a unit's weights are gathered into one
 * of two slots, so that the all-gather of the next unit overlaps with the computation of this one. */
#include "parallel/buckets.h"

/* The unit's blocks with `own` and `embedding` as their flat tensors; `embedding` is ignored by units that do
 * not use block 0. */
static UnitParam param_at(Buckets *b, int64_t unit, Tensor own, Tensor embedding)
{
    bool uses = unit_uses_embedding(b->config, unit);
    return (UnitParam){ .own = &bucket_of(b, unit + 1)->block, .flat_own = own,
                        .embedding = uses ? &bucket_of(b, 0)->block : NULL, .flat_embedding = embedding };
}

/* The unit's blocks in one flat tensor: its own block first, then the token embedding. */
static UnitParam param_within(Buckets *b, int64_t unit, Tensor flat)
{
    Bucket *own = bucket_of(b, unit + 1);
    Bucket *embedding = unit_uses_embedding(b->config, unit) ? bucket_of(b, 0) : NULL;
    return param_at(b, unit, tensor_flat(flat, 0, own->padded),
        embedding ? tensor_flat(flat, own->padded, embedding->padded) : tensor_none());
}

static GatherSlot *slot_of(Buckets *b, int64_t unit)
{
    return b->slot[0].unit == unit ? &b->slot[0] : b->slot[1].unit == unit ? &b->slot[1] : NULL;
}

void zero_prefetch(Buckets *b, int64_t unit)
{
    if (b->zero_stage < 3 || slot_of(b, unit)) return;
    GatherSlot *slot = b->slot[0].unit >= 0 ? &b->slot[1] : &b->slot[0];
    CHECK(!slot->held && slot->unit < 0, "both ZeRO 3 gather slots are in use, by units %lld and %lld",
        (long long)b->slot[0].unit, (long long)b->slot[1].unit);
    UnitParam w = param_within(b, unit, slot->flat);
    slot->unit = unit;
    slot->own_gather = slot->embedding_gather = (Pending){ -1 };
    if (w.own->count > 0) {
        Tensor shard = bucket_of(b, unit + 1)->weights;
        slot->own_gather =
            comm_all_gather_begin(b->data_comm, b->queue, w.flat_own, shard);  /* <-> dp+cp: all-gather */
    }
    if (w.embedding) {
        Tensor shard = bucket_of(b, 0)->weights, flat = w.flat_embedding;
        slot->embedding_gather =
            comm_all_gather_begin(b->data_comm, b->queue, flat, shard);        /* <-> dp+cp: all-gather */
    }
}

UnitParam zero_unshard(Buckets *b, int64_t unit)
{
    if (b->zero_stage < 3) {
        Bucket *embedding = unit_uses_embedding(b->config, unit) ? bucket_of(b, 0) : NULL;
        return param_at(b, unit, bucket_of(b, unit + 1)->weights,
                        embedding ? embedding->weights : tensor_none());
    }
    zero_prefetch(b, unit);                              /* does nothing if the unit has been prefetched */
    GatherSlot *slot = slot_of(b, unit);
    comm_wait(b->data_comm, slot->own_gather);
    comm_wait(b->data_comm, slot->embedding_gather);
    slot->held = true;
    return param_within(b, unit, slot->flat);
}

void zero_reshard(Buckets *b, int64_t unit)
{
    GatherSlot *slot = b->zero_stage < 3 ? NULL : slot_of(b, unit);
    if (!slot) return;
    slot->held = false;
    slot->unit = -1;
}

UnitParam zero_unshard_grads(Buckets *b, int64_t unit)
{
    if (b->zero_stage >= 2) {
        UnitParam dw = param_within(b, unit, b->unit_grads);
        if (dw.own->count > 0) fill_zero(b->queue, (FillZero){ .y = dw.flat_own });
        if (dw.embedding) fill_zero(b->queue, (FillZero){ .y = dw.flat_embedding });
        return dw;
    }
    Bucket *embedding = unit_uses_embedding(b->config, unit) ? bucket_of(b, 0) : NULL;
    return param_at(b, unit, bucket_of(b, unit + 1)->grads, embedding ? embedding->grads : tensor_none());
}

/* Sums `whole` over the data ranks and adds this rank's shard to its gradients. Every
 * micro-batch needs its own reduce-scatter, since no rank keeps whole gradients in between. */
static void add_shard(Buckets *b, Bucket *k, Tensor whole)
{
    size_t mark = arena_mark(b->scratch);
    whole = bucket_message(b, k, whole);
    Tensor part = tensor_new(b->scratch, "gradient shard", whole.dtype, k->shard);
    comm_reduce_scatter(b->data_comm, b->queue, part, whole, b->scratch);      /* <-> dp+cp: reduce-scatter */
    accumulate(b->queue, (Accumulate){ .y = k->grads, .x = part });
    arena_reset(b->scratch, mark);
}

void zero_reduce_grads(Buckets *b, int64_t unit)
{
    if (b->zero_stage < 2) return;
    UnitParam dw = param_within(b, unit, b->unit_grads);
    if (dw.own->count > 0) add_shard(b, bucket_of(b, unit + 1), dw.flat_own);
    if (dw.embedding) add_shard(b, bucket_of(b, 0), dw.flat_embedding);
}
