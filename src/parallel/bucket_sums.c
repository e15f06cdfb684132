/* Sums of gradients over the ranks that have parts of them, and gathers of weights: the messages of buckets.
 * Every reduction adds in the order of comm/sum_order.h, so that without replicas ZeRO 0 and 1 give the same
 * bits: an all-reduce adds as a reduce-scatter does. ZeRO 2 and 3 add over ranks first, then over
 * micro-batches. */
#include "parallel/buckets.h"

#include "base/integer.h"

/* Shards window by window: of each rank's shard the elements from `at` on that fit. */
typedef struct { int64_t at, count, mine; } Window;        /* elements of a shard; of this rank's own one */

/* Moves to the next window; false: there is none. *w is zero before the first call. */
static bool window_next(const Buckets *b, const Bucket *k, Window *w)
{
    int64_t d = comm_size(k->comms.shard), longest = 0;
    for (int r = 0; r < d; r++)
        if (k->begin[r + 1] - k->begin[r] > longest) longest = k->begin[r + 1] - k->begin[r];
    w->at += w->count;
    w->count = least(longest - w->at, b->window / d > 0 ? b->window / d : 1);
    w->mine  = least(w->count, k->own_count - w->at);
    return w->count > 0;
}

/* The window of all shards, copied so that they have equal lengths; what a shorter shard lacks is not set and
 * in nobody's sum. */
static void pack(Buckets *b, const Bucket *k, Tensor packed_RN, Tensor whole, const Window *w)
{
    for (int r = 0; r < comm_size(k->comms.shard); r++) {
        int64_t count = least(w->count, k->begin[r + 1] - k->begin[r] - w->at);
        if (count <= 0) continue;
        convert(b->queue, (Convert){ .y_N = tensor_flat(packed_RN, r * w->count, count),
                                     .x_N = tensor_flat(whole, k->begin[r] + w->at, count) });
    }
}

/* Sums window by window, so that no second copy of the bucket is needed for the narrow type. Elements are
 * rounded to the type of messages, summed in the compute type and rounded again. */
static void sum_packed(Buckets *b, const Bucket *k, Tensor sum, Tensor whole)
{
    for (Window w = { 0 }; window_next(b, k, &w);) {
        size_t mark   = arena_mark(b->scratch);
        Tensor packed = tensor_new(b->scratch, "gradient message", b->precision.message,
            comm_size(k->comms.shard), w.count);
        Tensor part   = tensor_new(b->scratch, "gradient message", b->precision.message, w.count);
        pack(b, k, packed, whole, &w);
        comm_reduce_scatter(k->comms.shard, b->queue, part, packed, b->scratch);            /* <-> shard */
        if (w.mine > 0)
            convert(b->queue, (Convert){ .y_N = tensor_flat(sum, w.at, w.mine),
                                         .x_N = tensor_flat(part, 0, w.mine) });
        arena_reset(b->scratch, mark);
    }
}

void bucket_sum_shards(Buckets *b, const Bucket *k, Tensor sum, Tensor whole)
{
    if (buckets_narrow(b)) sum_packed(b, k, sum, whole);                         /* <-> shard */
    else
        comm_reduce_scatter_parts(k->comms.shard, b->queue, sum, whole, k->begin,
                                  b->scratch);                                /* <-> shard: reduce-scatter */
}

Pending bucket_gather_begin(Buckets *b, const Bucket *k, Tensor whole, Tensor own)
{
    return comm_all_gather_parts_begin(k->comms.shard, b->queue, whole, k->begin,
                                       own);                                      /* <-> shard: all-gather */
}

/* The sums of all replicas of this rank's own elements. One replica sends and rounds nothing. */
static void sum_replicas(Buckets *b, const Bucket *k, Tensor own)
{
    Comm *replica = b->own_gradients ? k->comms.worker : k->comms.replica;
    if (!replica || comm_size(replica) == 1) return;
    if (!buckets_narrow(b)) {
        comm_all_reduce(replica, b->queue, own, b->scratch);                     /* <-> replica: all-reduce */
        return;
    }
    for (int64_t at = 0; at < k->own_count; at += b->window) {
        size_t  mark   = arena_mark(b->scratch);
        int64_t count  = least(b->window, k->own_count - at);
        Tensor  wide   = tensor_flat(own, at, count);
        Tensor  narrow = tensor_new(b->scratch, "gradient message", b->precision.message, count);
        convert(b->queue, (Convert){ .y_N = narrow, .x_N = wide });
        comm_all_reduce(replica, b->queue, narrow, b->scratch);                  /* <-> replica: all-reduce */
        convert(b->queue, (Convert){ .y_N = wide, .x_N = narrow });
        arena_reset(b->scratch, mark);
    }
}

static Comm *sum_comm(const Buckets *b, GradientSum sum)
{
    return sum == GRADIENT_OVER_TP ? b->tp : sum == GRADIENT_OVER_KV ? b->kv : NULL;
}

/* The sums that parameters ask for: neighbours over the same ranks in one message, of the elements that this
 * rank owns. Other ranks of these communicators own the same elements. */
static void sum_copies(Buckets *b, Bucket *k, Tensor own)
{
    const ParamBlock *block = &k->block;
    for (int i = 0, next; i < block->params; i = next) {
        GradientSum sum = block->param[i].sum;
        for (next = i + 1; next < block->params && block->param[next].sum == sum; next++) {}
        const Param *last = &block->param[next - 1];
        int64_t end = least(last->at + param_elements(last), k->own_first + k->own_count);
        int64_t from = block->param[i].at > k->own_first ? block->param[i].at : k->own_first;
        if (sum == GRADIENT_COMPLETE || from >= end) continue;
        Tensor run = tensor_flat(own, from - k->own_first, end - from);
        comm_all_reduce(sum_comm(b, sum), b->queue, run, b->scratch);             /* <-> tp, kv: all-reduce */
    }
}

/* ZeRO 2 and 3 have reduced over shard after each micro-batch already (zero_reduce_grads). The other sums
 * come last, when only own elements remain, so they send the least. What is summed in the background is left
 * out. */
static void bucket_reduce(Buckets *b, Bucket *k)
{
    if (k->block.count == 0) return;
    Tensor own = bucket_own(k, k->grads);
    if (k->zero_stage == 1 && !k->summed)
        bucket_sum_shards(b, k, own, k->grads);                              /* <-> shard: reduce-scatter */
    if (!k->replicas_summed) sum_replicas(b, k, own);                            /* <-> replica: all-reduce */
    k->summed = k->replicas_summed = false;
    sum_copies(b, k, own);                                                        /* <-> tp, kv: all-reduce */
}

/* From the last unit to the first, the order in which backward completes them. */
void buckets_reduce(Buckets *b, const Stage *stage, int chunk)
{
    buckets_wait_sums(b, -1);                                                         /* <-> shard, replica */
    for (int64_t u = stage->first[chunk] + stage->count[chunk] - 1; u >= stage->first[chunk]; u--)
        for (UnitBlock i = UNIT_OWN; i <= UNIT_EXPERTS; i++) {
            Bucket *k = unit_bucket(b, u, i);
            if (k) bucket_reduce(b, k);                                          /* <-> shard replica tp kv */
        }
}

void buckets_reduce_tied(Buckets *b)
{
    Bucket *embedding = bucket_of(b, PARAMS_DENSE, 0);
    buckets_wait_sums(b, -1);                                                         /* <-> shard, replica */
    if (!embedding) return;
    bucket_reduce(b, embedding);                                                    /* <-> shard replica */
    Tensor own = bucket_own(embedding, embedding->grads);
    if (b->tied) comm_all_reduce(b->tied, b->queue, own, b->scratch);               /* <-> tied: all-reduce */
}
