/* Buckets of parameters: which blocks this stage needs, their memory, and the reductions and gathers at the
 * end of a step. Every reduction adds in rank order, so an all-reduce (ZeRO 0) and a reduce-scatter (ZeRO 1)
 * give the same bits. */
#include "parallel/buckets.h"
#include <stdlib.h>

bool unit_uses_embedding(const ModelConfig *config, int64_t unit)
{
    UnitKind kind = model_unit(config, unit);
    return kind == UNIT_EMBED || (kind == UNIT_HEAD && config->tied);
}

/* Block 0, the token embedding, is needed by the first stage and, where it is tied, by the last; block 1 + u
 * by unit u. */
static bool stage_needs(const Buckets *b, const Stage *stage, int64_t block)
{
    if (block > 0) return stage_holds(stage, block - 1);
    return stage_holds(stage, 0) || (b->config->tied && stage_holds(stage, model_units(b->config) - 1));
}

static Bucket bucket_make(const Buckets *b, const Stage *stage, int64_t block, Arena *persistent)
{
    Bucket k = { .counted = block > 0 || stage_holds(stage, 0) };
    int64_t d = comm_size(b->data_comm);
    params_block(&k.block, b->config, block, comm_size(b->tp), comm_rank(b->tp));
    k.shard       = (k.block.count + d - 1) / d;
    k.padded      = k.shard * d;
    k.shard_first = k.shard * comm_rank(b->data_comm);
    k.own_first   = b->zero_stage >= 1 ? k.shard_first : 0;
    k.own_count   = b->zero_stage >= 1 ? k.shard : k.padded;
    k.weights = tensor_new(persistent, "weights", b->precision.param,
        b->zero_stage >= 3 ? k.shard : k.padded);
    if (b->training && b->precision.param != b->precision.master)
        k.master = tensor_new(persistent, "master weights", b->precision.master, k.own_count);
    if (b->training)
        k.grads = tensor_new(persistent, "gradients", b->precision.gradient,
            b->zero_stage >= 2 ? k.shard : k.padded);
    return k;
}

/* Elements of the blocks of the largest unit of the stage: what a buffer must hold that any of its units is
 * gathered into. */
static int64_t largest_unit(const Buckets *b, const Stage *stage)
{
    int64_t most = 0;
    for (int64_t u = 0; u < model_units(b->config); u++) {
        if (!stage_holds(stage, u)) continue;
        int64_t n = b->bucket[b->of_block[u + 1]].padded;
        if (unit_uses_embedding(b->config, u)) n += b->bucket[b->of_block[0]].padded;
        if (n > most) most = n;
    }
    return most;
}

void buckets_open(Buckets *b, const BucketsSetup *s)
{
    int64_t blocks = params_blocks(s->config);
    int zero = comm_size(s->data_comm) > 1 ? s->zero_stage : 0;  /* one data rank shards nothing */
    *b = (Buckets){ .config = s->config, .precision = s->precision, .queue = s->queue, .zero_stage = zero,
        .training = s->training,
        .sequence_parallel = s->sequence_parallel, .data_comm = s->data_comm, .tp = s->tp, .tied = s->tied,
        .scratch = s->scratch };
    b->of_block = calloc((size_t)blocks, sizeof *b->of_block);
    b->bucket   = calloc((size_t)blocks, sizeof *b->bucket);
    CHECK(b->of_block && b->bucket, "no memory for %lld parameter blocks", (long long)blocks);
    for (int64_t i = 0; i < blocks; i++) {
        b->of_block[i] = stage_needs(b, s->stage, i) ? b->count : -1;
        if (b->of_block[i] >= 0) b->bucket[b->count++] = bucket_make(b, s->stage, i, s->persistent);
    }
    for (int i = 0; i < 2; i++) {
        b->slot[i].unit = -1;
        if (b->zero_stage >= 3)
            b->slot[i].flat = tensor_new(s->gathered, "gathered weights", b->precision.param,
                largest_unit(b, s->stage));
    }
    if (b->zero_stage >= 2 && b->training)
        b->unit_grads = tensor_new(s->gathered, "unit gradients", b->precision.gradient,
            largest_unit(b, s->stage));
}

void buckets_close(Buckets *b)
{
    free(b->bucket);
    free(b->of_block);
    *b = (Buckets){ 0 };
}

Bucket *bucket_of(Buckets *b, int64_t block)
{
    return b->of_block[block] < 0 ? NULL : &b->bucket[b->of_block[block]];
}

Tensor bucket_own(const Bucket *k, Tensor x)
{
    return x.dim[0] == k->own_count ? x : tensor_flat(x, k->own_first, k->own_count);
}

Tensor bucket_master(const Bucket *k)
{
    return tensor_present(k->master) ? k->master : bucket_own(k, k->weights);
}

/* Initial values are rounded from the compute type, so that the weights are the rounded master weights. */
void buckets_init(Buckets *b, uint64_t seed)
{
    for (int i = 0; i < b->count; i++) {
        Bucket *k = &b->bucket[i];
        bool whole = tensor_present(k->master) && k->master.dim[0] == k->weights.dim[0];
        if (tensor_present(k->master))
            params_init(b->queue, b->config, &k->block, k->master, k->own_first, seed);
        if (whole) convert(b->queue, (Convert){ .y_N = k->weights, .x_N = k->master });
        else
            params_init(b->queue, b->config, &k->block, k->weights, b->zero_stage >= 3 ? k->shard_first : 0,
                seed);
    }
}

void buckets_zero_grads(Buckets *b)
{
    for (int i = 0; i < b->count; i++) fill_zero(b->queue, (FillZero){ .y = b->bucket[i].grads });
}

/* Under sequence parallelism each tp rank has the gradients of replicated parameters for its own rows only,
 * so they are summed over tp. They are one range at the end of the block; of it this sums what is within the
 * elements this rank owns. */
static void sum_replicated(Buckets *b, Bucket *k)
{
    int64_t from = k->block.replicated > k->own_first ? k->block.replicated : k->own_first;
    int64_t end  = k->own_first + k->own_count, to = k->block.count < end ? k->block.count : end;
    if (!b->sequence_parallel || from >= to) return;
    Tensor own = bucket_own(k, k->grads);
    Tensor replicated = tensor_flat(own, from - k->own_first, to - from);
    comm_all_reduce(b->tp, b->queue, replicated, b->scratch);                       /* <-> tp: all-reduce */
}

Tensor bucket_message(const Buckets *b, const Bucket *k, Tensor whole)
{
    if (b->precision.message == b->precision.gradient || comm_size(b->data_comm) == 1) return whole;
    Tensor narrow = tensor_new(b->scratch, "gradient message", b->precision.message, k->padded);
    convert(b->queue, (Convert){ .y_N = narrow, .x_N = whole });
    return narrow;
}

/* One data rank sends nothing and rounds nothing. */
static bool narrow_messages(const Buckets *b)
{
    return b->precision.message != b->precision.gradient && comm_size(b->data_comm) > 1 && b->zero_stage <= 1;
}

/* Gradients rounded to the type of messages, summed in the compute type and rounded again; so ZeRO 0 and 1
 * have the same sums. */
static void reduce_narrow(Buckets *b, Bucket *k, Tensor own)
{
    size_t mark = arena_mark(b->scratch);
    Tensor whole = bucket_message(b, k, k->grads), part = whole;
    if (b->zero_stage == 0) {
        comm_all_reduce(b->data_comm, b->queue, whole, b->scratch);            /* <-> dp+cp: all-reduce */
    } else {
        part = tensor_new(b->scratch, "gradient message", b->precision.message, k->shard);
        comm_reduce_scatter(b->data_comm, b->queue, part, whole, b->scratch);  /* <-> dp+cp: reduce-scatter */
    }
    convert(b->queue, (Convert){ .y_N = own, .x_N = part });
    arena_reset(b->scratch, mark);
}

/* ZeRO 2 and 3 have reduced over dp x cp after each micro-batch already (zero_reduce_grads). The sum over tp
 * comes last, when only own elements remain, so it sends the least. */
static void bucket_reduce(Buckets *b, Bucket *k)
{
    if (k->block.count == 0) return;
    Tensor own = bucket_own(k, k->grads);
    Comm *data = b->data_comm;
    if (narrow_messages(b)) reduce_narrow(b, k, own);                          /* <-> dp+cp */
    else if (b->zero_stage == 0)
        comm_all_reduce(data, b->queue, k->grads, b->scratch);                 /* <-> dp+cp: all-reduce */
    else if (b->zero_stage == 1)
        comm_reduce_scatter(data, b->queue, own, k->grads, b->scratch);        /* <-> dp+cp: reduce-scatter */
    sum_replicated(b, k);
}

/* From the last unit to the first, the order in which backward completes them. */
void buckets_reduce(Buckets *b, const Stage *stage, int chunk)
{
    for (int64_t u = stage->first[chunk] + stage->count[chunk] - 1; u >= stage->first[chunk]; u--)
        bucket_reduce(b, bucket_of(b, u + 1));
}

void buckets_reduce_tied(Buckets *b)
{
    Bucket *embedding = bucket_of(b, 0);
    if (!embedding) return;
    bucket_reduce(b, embedding);
    Tensor own = bucket_own(embedding, embedding->grads);
    if (b->tied) comm_all_reduce(b->tied, b->queue, own, b->scratch);               /* <-> tied: all-reduce */
}

void buckets_all_gather_params(Buckets *b)
{
    for (int i = 0; i < b->count; i++) {
        Bucket *k = &b->bucket[i];
        Tensor own = bucket_own(k, k->weights);
        if ((b->zero_stage == 1 || b->zero_stage == 2) && k->block.count > 0)
            comm_all_gather(b->data_comm, b->queue, k->weights, own);              /* <-> dp+cp: all-gather */
    }
}
