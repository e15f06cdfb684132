/* Buckets of parameters: which blocks this stage needs, which elements of them each rank owns, and their
 * memory. parallel/bucket_sums.c has their messages. */
#include "parallel/buckets.h"
#include <stdlib.h>

bool unit_uses_embedding(const ModelConfig *config, int64_t unit)
{
    UnitKind kind = model_unit(config, unit);
    return kind == UNIT_EMBED || kind == UNIT_MTP || (kind == UNIT_HEAD && config->tied);
}

/* Block 0, the token embedding, is needed by the first stage and, where it is tied or tokens further ahead
 * are predicted, by the last one; block 1 + u by unit u. Multi-token prediction is where the head is. */
static bool stage_needs(const Buckets *b, const Stage *stage, int64_t block)
{
    if (block > 0) return stage_holds(stage, block - 1);
    return stage_holds(stage, 0) ||
           (model_embedding_copied(b->config) && stage_holds(stage, model_head(b->config)));
}

/* Of the units of this stage that use the block the first, whose backward is last. */
static int64_t last_user(const ModelConfig *config, const Stage *stage, int64_t block)
{
    if (block > 0) return block - 1;
    if (stage_holds(stage, 0)) return 0;
    return config->tied ? model_head(config) : model_head(config) + 1;
}

/* ---- ownership ---- */

/* The end of a granule next to element `at` of the block: granules are counted from a parameter's first
 * element, and what is between two parameters belongs to the one before. */
static int64_t snap(const ParamBlock *block, int64_t at, ParamGranule granule)
{
    for (int i = 0; i < block->params; i++) {
        const Param *p = &block->param[i];
        int64_t next = i + 1 < block->params ? block->param[i + 1].at : block->count;
        if (at >= next) continue;
        int64_t unit = granule.elements(granule.context, p), low = p->at + (at - p->at) / unit * unit;
        int64_t high = low + unit < p->at + param_elements(p) ? low + unit : next;
        return at - low < high - at ? low : high;
    }
    return block->count;
}

/* Where all granules are elements the shards are equal, and the last ones may have padding. Else what the
 * first r ranks own of this block and of those before comes as near to r / d of them as whole granules allow:
 * a rank that has too much of one block gets less of the next. */
void bucket_boundaries(int64_t *begin, int64_t *ahead, const ParamBlock *block, int d, ParamGranule granule)
{
    int64_t count = block->count, equal = (count + d - 1) / d;
    bool elements = true;
    for (int i = 0; granule.elements && i < block->params; i++)
        elements &= granule.elements(granule.context, &block->param[i]) == 1;
    begin[0] = 0;
    for (int r = 1; r <= d; r++) {
        int64_t share = count / d * r + count % d * r / d, at = share - ahead[r];
        begin[r] = r * equal;
        if (elements || d == 1) continue;
        begin[r] = r == d || at >= count ? count : at <= 0 ? 0 : snap(block, at, granule);
        if (begin[r] < begin[r - 1]) begin[r] = begin[r - 1];
        ahead[r] += begin[r] - share;
    }
}

static void boundaries_set(Bucket *k, int d, int64_t *ahead, ParamGranule granule)
{
    k->begin = calloc((size_t)d + 1, sizeof *k->begin);
    CHECK(k->begin, "no memory for the boundaries of %d shards", d);
    bucket_boundaries(k->begin, ahead, &k->block, d, granule);
    k->equal = true;
    for (int r = 0; r < d; r++) k->equal &= k->begin[r + 1] - k->begin[r] == k->begin[1];
}

/* The replicas of a shard count equal parts of it. */
static void counted_set(Bucket *k, bool copy)
{
    int64_t n = comm_size(k->comms.replica), part = (k->own_count + n - 1) / n;
    int64_t first = part * comm_rank(k->comms.replica), left = k->own_count - first;
    k->counted_first = k->own_first + (left > 0 ? first : k->own_count);
    k->share_count   = left <= 0 ? 0 : left < part ? left : part;
    k->counted_count = copy ? 0 : k->share_count;
    k->copy          = copy;
}

static Bucket bucket_make(const Buckets *b, const BucketsSetup *s, const ParamBlock *block, int64_t *ahead)
{
    Bucket k = { .block = *block, .comms = s->data[block->family] };
    int d = comm_size(k.comms.shard), r = comm_rank(k.comms.shard);
    k.zero_stage = d > 1 ? s->zero_stage : 0;
    CHECK(k.zero_stage > 0 || d == 1, "ZeRO 0 shards nothing, over %d ranks of %s", d,
          comm_name(k.comms.shard));
    boundaries_set(&k, d, ahead, s->granule);
    k.own_first = k.begin[r];
    k.own_count = k.begin[r + 1] - k.begin[r];
    k.last_unit = last_user(s->config, s->stage, block->index);
    counted_set(&k, block->index == 0 && !stage_holds(s->stage, 0));
    k.weights = tensor_new(s->persistent, "weights", b->precision.param,
        k.zero_stage >= 3 ? k.own_count : bucket_whole(&k));
    if (b->training && (b->precision.param != b->precision.master || s->averages))
        k.master = tensor_new(s->persistent, "master weights", b->precision.master, k.own_count);
    if (b->training)
        k.grads = tensor_new(s->persistent, "gradients", b->precision.gradient,
            k.zero_stage >= 2 ? k.own_count : bucket_whole(&k));
    return k;
}

/* ---- opening ---- */

/* Elements of the buckets of the largest unit of the stage that are sharded from a ZeRO stage on: what a
 * buffer must hold that any of its units is gathered into. */
static int64_t largest_unit(Buckets *b, const Stage *stage, int zero_stage)
{
    int64_t most = 0;
    for (int64_t u = 0; u < model_units(b->config); u++) {
        int64_t n = 0;
        for (UnitBlock i = 0; stage_holds(stage, u) && i < UNIT_BLOCKS; i++) {
            const Bucket *k = unit_bucket(b, u, i);
            if (k && k->zero_stage >= zero_stage) n += bucket_room(k);
        }
        if (n > most) most = n;
    }
    return most;
}

void buckets_open(Buckets *b, const BucketsSetup *s)
{
    int64_t blocks = params_blocks(s->config), *ahead[PARAM_FAMILIES];
    *b = (Buckets){ .config = s->config, .precision = s->precision, .queue = s->queue,
        .training = s->training, .tp = s->tp, .kv = s->kv, .tied = s->tied, .scratch = s->scratch,
        .overlap = s->overlap,
        .window = s->window ? s->window : MESSAGE_WINDOW };
    b->bucket = calloc((size_t)blocks * PARAM_FAMILIES, sizeof *b->bucket);
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
        b->of_block[f] = calloc((size_t)blocks, sizeof *b->of_block[f]);
        ahead[f] = calloc((size_t)comm_size(s->data[f].shard) + 1, sizeof *ahead[f]);
        CHECK(b->bucket && b->of_block[f] && ahead[f], "no memory for %lld parameter blocks",
              (long long)blocks);
    }
    for (int64_t i = 0; i < blocks; i++)
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
            ParamBlock block;
            params_block(&block, s->config, f, i, s->ranks);
            bool here = stage_needs(b, s->stage, i) && (f == PARAMS_DENSE || block.params > 0);
            b->of_block[f][i] = here ? b->count : -1;
            if (here) b->bucket[b->count++] = bucket_make(b, s, &block, ahead[f]);
        }
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) free(ahead[f]);
    int64_t gathered = largest_unit(b, s->stage, 3), summed = largest_unit(b, s->stage, 2);
    for (int i = 0; i < 2; i++) {
        b->slot[i].unit = -1;
        if (gathered > 0)
            b->slot[i].flat = tensor_new(s->gathered, "gathered weights", b->precision.param, gathered);
    }
    for (int i = 0; i < (b->overlap && !buckets_narrow(b) ? 2 : 1) && summed > 0 && b->training; i++)
        b->unit_grads[i] = tensor_new(s->gathered, "unit gradients", b->precision.gradient, summed);
    background_sums_open(b, s);
}

void buckets_close(Buckets *b)
{
    background_sums_close(b);
    for (int i = 0; i < b->count; i++) free(b->bucket[i].begin);
    free(b->bucket);
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) free(b->of_block[f]);
    *b = (Buckets){ 0 };
}

Bucket *bucket_of(Buckets *b, ParamFamily family, int64_t block)
{
    int i = b->of_block[family][block];
    return i < 0 ? NULL : &b->bucket[i];
}

Bucket *unit_bucket(Buckets *b, int64_t unit, UnitBlock which)
{
    switch (which) {
    case UNIT_OWN:       return bucket_of(b, PARAMS_DENSE, unit + 1);
    case UNIT_EXPERTS:   return bucket_of(b, PARAMS_EXPERTS, unit + 1);
    case UNIT_EMBEDDING: return unit_uses_embedding(b->config, unit) ? bucket_of(b, PARAMS_DENSE, 0) : NULL;
    case UNIT_SHARED_HEAD:
        if (model_unit(b->config, unit) != UNIT_MTP || b->config->tied) return NULL;
        return bucket_of(b, PARAMS_DENSE, model_head(b->config) + 1);
    case UNIT_BLOCKS:    break;
    }
    return NULL;
}

int64_t bucket_whole(const Bucket *k) { return k->begin[comm_size(k->comms.shard)]; }

int64_t bucket_room(const Bucket *k)
{
    return (bucket_whole(k) + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

Tensor bucket_own(const Bucket *k, Tensor x)
{
    return x.dim[0] == k->own_count ? x : tensor_flat(x, k->own_first, k->own_count);
}

bool bucket_counts_worker(const Bucket *k)
{
    return !k->copy && (!k->comms.worker || comm_rank(k->comms.worker) == 0);
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
            params_init(b->queue, &k->block, k->master, k->own_first, seed);
        if (whole) convert(b->queue, (Convert){ .y_N = k->weights, .x_N = k->master });
        else
            params_init(b->queue, &k->block, k->weights, k->zero_stage >= 3 ? k->own_first : 0,
                seed);
    }
}

void buckets_zero_weights(Buckets *b)
{
    for (int i = 0; i < b->count; i++) {
        Bucket *k = &b->bucket[i];
        if (tensor_present(k->master)) fill_zero(b->queue, (FillZero){ .y = k->master });
        fill_zero(b->queue, (FillZero){ .y = k->weights });
    }
}

void buckets_zero_grads(Buckets *b)
{
    for (int i = 0; i < b->count; i++) fill_zero(b->queue, (FillZero){ .y = b->bucket[i].grads });
}
