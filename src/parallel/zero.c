/* The parameters and gradients of a unit while it runs. Under ZeRO 3 a unit's weights are gathered into one
 * of two slots, so that the all-gather of the next unit overlaps with the computation of this one. */
#include "parallel/buckets.h"

/* The unit's buckets: those that are sharded at `zero_stage` follow each other in `flat`, aligned; of the
 * others the views are of the bucket's own weights, or gradients. */
static UnitParam unit_views(Buckets *b, int64_t unit, int zero_stage, Tensor flat, bool gradients)
{
    UnitParam w = { .block = { NULL } };
    int64_t at = 0;
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        const Bucket *k = unit_bucket(b, unit, i);
        if (!k) continue;
        bool sharded = k->zero_stage >= zero_stage;
        w.block[i] = &k->block;
        w.flat[i]  = sharded ? tensor_flat(flat, at, bucket_whole(k)) : gradients ? k->grads : k->weights;
        if (sharded) at += bucket_room(k);
    }
    return w;
}

static UnitParam weights_views(Buckets *b, int64_t unit, Tensor flat)
{
    return unit_views(b, unit, 3, flat, false);
}

static UnitParam gradient_views(Buckets *b, int64_t unit)
{
    return unit_views(b, unit, 2, b->unit_grads[b->turn], true);
}

static bool unit_sharded(Buckets *b, int64_t unit, int zero_stage)
{
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        const Bucket *k = unit_bucket(b, unit, i);
        if (k && k->zero_stage >= zero_stage) return true;
    }
    return false;
}

static GatherSlot *slot_of(Buckets *b, int64_t unit)
{
    return b->slot[0].unit == unit ? &b->slot[0] : b->slot[1].unit == unit ? &b->slot[1] : NULL;
}

static void gather_unit(Buckets *b, int64_t unit)
{
    if (slot_of(b, unit)) return;
    GatherSlot *slot = b->slot[0].unit >= 0 ? &b->slot[1] : &b->slot[0];
    CHECK(!slot->held && slot->unit < 0, "both ZeRO 3 gather slots are in use, by units %lld and %lld",
        (long long)b->slot[0].unit, (long long)b->slot[1].unit);
    UnitParam w = weights_views(b, unit, slot->flat);
    slot->unit = unit;
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        const Bucket *k = unit_bucket(b, unit, i);
        slot->gather[i] = (Pending){ -1 };
        if (!k || k->zero_stage < 3 || k->block.count == 0) continue;
        slot->gather[i] = bucket_gather_begin(b, k, w.flat[i], k->weights);       /* <-> shard: all-gather */
    }
}

void zero_prefetch(Buckets *b, int64_t unit)
{
    if (b->overlap && unit_sharded(b, unit, 3)) gather_unit(b, unit);             /* <-> shard: all-gather */
}

UnitParam zero_unshard(Buckets *b, int64_t unit)
{
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        Bucket *k = unit_bucket(b, unit, i);
        if (k) bucket_gathered(k);                       /* <-> shard: waits for updated weights, ZeRO 1, 2 */
    }
    if (!unit_sharded(b, unit, 3)) return weights_views(b, unit, tensor_none());
    gather_unit(b, unit);                                /* does nothing if the unit has been prefetched */
    GatherSlot *slot = slot_of(b, unit);
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        const Bucket *k = unit_bucket(b, unit, i);
        if (k) comm_wait(k->comms.shard, slot->gather[i]);
    }
    slot->held = true;
    return weights_views(b, unit, slot->flat);
}

void zero_reshard(Buckets *b, int64_t unit)
{
    GatherSlot *slot = slot_of(b, unit);
    if (!slot || !slot->held) return;                    /* prefetched for its next use */
    slot->held = false;
    slot->unit = -1;
}

UnitParam zero_unshard_grads(Buckets *b, int64_t unit)
{
    buckets_wait_sums(b, b->turn);                      /* <-> shard: its sums before the last are complete */
    UnitParam dw = gradient_views(b, unit);
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        const Bucket *k = unit_bucket(b, unit, i);
        if (k && k->zero_stage >= 2 && k->block.count > 0) fill_zero(b->queue, (FillZero){ .y = dw.flat[i] });
    }
    return dw;
}

/* Sums `whole` over the shard ranks, in the place of this rank's shard, and adds that to its gradients. Every
 * micro-batch needs its own reduce-scatter, since no rank keeps whole gradients in between. */
static void add_shard(Buckets *b, Bucket *k, Tensor whole)
{
    Tensor part = tensor_flat(whole, k->own_first, k->own_count);
    bucket_sum_shards(b, k, part, whole);                                     /* <-> shard: reduce-scatter */
    accumulate(b->queue, (Accumulate){ .y = k->grads, .x = part });
}

void zero_reduce_grads(Buckets *b, int64_t unit, bool final)
{
    UnitParam dw = gradient_views(b, unit);
    bool begun = false;
    for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
        Bucket *k = unit_bucket(b, unit, i);
        if (!k || k->zero_stage < 2 || k->block.count == 0) continue;
        bool last = final && k->last_unit == unit;
        if (background_sum_begin(b, k, dw.flat[i], b->turn, last)) begun = true;               /* <-> shard */
        else add_shard(b, k, dw.flat[i]);                                                     /* <-> shard */
    }
    if (begun && !buckets_narrow(b)) b->turn = 1 - b->turn;
}
