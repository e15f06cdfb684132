/* Filling batches from token files, and reporting files that are truncated while a run reads them. The
 * default order of samples, a permutation per epoch, is computed here by random_permute; orders of
 * Megatron-LM, which shuffle documents too, are in data/order.c.
 *
 *     S positions of a whole sequence   s of them on this rank, in two parts   u s in its Ulysses group
 *     b sequences of a micro-batch      T = b s rows */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include "base/guard.h"
#include "base/random.h"
#include "data/loader.h"
#include "tensor/ops.h"

static int group_ranks(const LoaderConfig *config) { return config->ulysses > 0 ? config->ulysses : 1; }

static Status config_check(const LoaderConfig *config)
{
    int64_t S = config->sequence, parts = 2 * (int64_t)config->cp, step = config->micro * config->dp;
    CHECK(S > 0 && config->micro > 0 && config->global > 0, "the loader's sizes must be above 0");
    CHECK(config->dp_rank >= 0 && config->dp_rank < config->dp,
          "dp rank %d of %d", config->dp_rank, config->dp);
    CHECK(config->cp_rank >= 0 && config->cp_rank < config->cp,
          "cp rank %d of %d", config->cp_rank, config->cp);
    CHECK(config->cp % group_ranks(config) == 0, "%d ranks of Ulysses of cp %d", config->ulysses, config->cp);
    if (config->cp > 1 && S % parts != 0)
        return fail(BAD_OPTION,
                    "--seq-length %" PRId64 " must be a multiple of 2 x --context-parallel-size %d; %"
                    PRId64 " is", S, config->cp, (S / parts + 1) * parts);
    if (config->global % step != 0)
        return fail(BAD_OPTION,
                    "--global-batch-size %" PRId64 " must be a multiple of --micro-batch-size %" PRId64
                    " x %d data-parallel ranks; %" PRId64 " is", config->global, config->micro, config->dp,
                    (config->global / step + 1) * step);
    if (config->global > INT32_MAX / S)
        return fail(BAD_OPTION,
                    "--global-batch-size %" PRId64 " x --seq-length %" PRId64 " is above the 2^31 tokens"
                    " a step may have; lower one", config->global, S);
    if (config->eod < 0 && (config->reset_positions || config->reset_attention || config->mask_eod))
        return fail(BAD_OPTION, "--reset-position-ids, --reset-attention-mask and --eod-mask-loss need an"
                    " end-of-document id, and the tokenizer has none; remove them, or give a --tokenizer that"
                    " has one");
    return OK;
}

Status loader_open(Loader *loader, const TokenFile *token_file, const char *split, SplitKind kind,
                   LoaderConfig config)
{
    *loader = (Loader){ .token_file = token_file, .config = config, .kind = kind };
    TRY(config_check(&config));
    int64_t begin, end;
    TRY(split_range(&begin, &end, split, kind, SPLIT_SUMS, token_file->sequences));
    loader->first   = token_file_start(token_file, begin);
    loader->tokens  = token_file_start(token_file, end) - loader->first;
    loader->samples = (loader->tokens - 1) / config.sequence;
    if (loader->samples < 1)
        return fail(BAD_FILE,
                    "%s: the %s part under --split %s has %" PRId64 " tokens; one sample of --seq-length %"
                    PRId64 " takes %" PRId64 ": give more text, another split or a shorter sequence",
                    token_file->bin.path, split_name(kind), split ? split : "(all of it)", loader->tokens,
                    config.sequence, config.sequence + 1);
    return OK;
}

Status loader_open_blocks(Loader *loader, const SampleBlocks *blocks, SplitKind kind, LoaderConfig config)
{
    CHECK(blocks->sequence == config.sequence, "blocks of %" PRId64 " tokens for samples of %" PRId64,
          blocks->sequence, config.sequence);
    *loader = (Loader){ .token_file = blocks->token_file, .config = config, .kind = kind, .blocks = blocks,
                        .first = blocks->first, .tokens = blocks->tokens, .samples = blocks->samples };
    return config_check(&config);
}

Status loader_open_blend(Loader *loader, const Blend *blend, LoaderConfig config)
{
    *loader = (Loader){ .blend = blend, .config = config };
    return config_check(&config);
}

int64_t loader_epoch(const Loader *loader)
{
    return loader->blend ? loader->blend->samples : loader->samples;
}

/* ---- a batch ---- */

/* First index in the sequence of each part of rank `rank`, where ranks have s positions. */
static int64_t part_first(const LoaderConfig *config, int64_t rank, int64_t s, int which)
{
    return which == 0 ? rank * (s / 2) : config->sequence - (rank + 1) * (s - s / 2);
}

/* Cuts the tensors of a batch from one piece of memory, or counts its bytes; base NULL: no memory. */
typedef struct { char *base; size_t used; } Cut;

static Tensor cut_new(Cut *cut, Dtype dtype, int64_t rows, int64_t columns, int64_t pairs)
{
    const int64_t dim[] = { rows, columns, pairs };
    Tensor x = tensor_at(cut->base ? cut->base + cut->used : NULL, dtype, dim, 3);
    cut->used += (tensor_bytes(x) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return x;
}

static Tensor ahead_new(Cut *cut, const LoaderConfig *config, Dtype dtype, int64_t T)
{
    return config->ahead > 0 ? cut_new(cut, dtype, config->ahead, T, 1) : tensor_none();
}

static void batch_cut(Batch *batch, const LoaderConfig *config, Cut *cut)
{
    int64_t b = config->micro, s = config->sequence / config->cp, T = b * s, u = group_ranks(config);
    batch->token_i         = cut_new(cut, I32, T, 1, 1);
    batch->target_i        = cut_new(cut, I32, T, 1, 1);
    batch->loss_weight_T   = cut_new(cut, config->loss_weight, T, 1, 1);
    batch->position_i      = cut_new(cut, I32, T, 1, 1);
    batch->dropout_index_i = cut_new(cut, I32, T, 1, 1);
    batch->sample_i        = cut_new(cut, I32, b, 1, 1);
    batch->key_range_i     = config->reset_attention ? cut_new(cut, I32, b, u * s, 2) : tensor_none();
    batch->ahead_token_i   = ahead_new(cut, config, I32, T);              /* last: see batch_copy */
    batch->ahead_target_i  = ahead_new(cut, config, I32, T);
    batch->ahead_weight    = ahead_new(cut, config, config->loss_weight, T);
}

/* `seen` is that of causal attention, or all keys until a batch is filled. */
Batch loader_batch_new(const LoaderConfig *config, Arena *host)
{
    int64_t s = config->sequence / config->cp, u = group_ranks(config), group = config->cp_rank / u;
    int64_t late = part_first(config, group, u * s, 1);
    KeyBounds all = { 0, config->sequence };
    Batch batch = { 0 };
    Cut   cut = { 0 };
    batch_cut(&batch, config, &cut);
    batch = (Batch){
        .all    = tensor_new(host, "batch", U8, (int64_t)cut.used),
        .causal = { { 0, (group + 1) * (u * s / 2) }, { 0, late + u * s - u * s / 2 } },
        .part   = { part_first(config, config->cp_rank, s, 0), part_first(config, config->cp_rank, s, 1) },
    };
    cut = (Cut){ .base = batch.all.data };
    batch_cut(&batch, config, &cut);
    for (int which = 0; which < 2; which++)
        batch.seen[which] = config->reset_attention ? all : batch.causal[which];
    return batch;
}

/* What lies ahead is last, so that without it a batch is the beginning of one with it. */
void batch_copy(Queue *q, Batch *to, const Batch *from)
{
    size_t room = tensor_bytes(to->all), bytes = tensor_bytes(from->all);
    if (room < bytes) bytes = room;
    if (q) queue_write(q, to->all.data, from->all.data, bytes);
    else   memcpy(to->all.data, from->all.data, bytes);
    memcpy(to->seen, from->seen, sizeof to->seen);
}

void host_batch_copy(Queue *q, Batch *to, HostBatch *from)
{
    batch_copy(q, to, &from->batch);
    if (!q) return;
    if (!from->copied.device) queue_event_open(&from->copied, q);
    queue_event_record(&from->copied, q);
    from->leaving = from->copied.device != NULL;
}

void host_batch_free(HostBatch *b)
{
    if (b->leaving) queue_event_wait(&b->copied);
    b->leaving = false;
}

void host_batch_close(HostBatch *b) { queue_event_close(&b->copied); }

void batch_bound_keys(Batch *batch)
{
    Tensor range = batch->key_range_i;
    if (!tensor_present(range)) return;
    int64_t b = range.dim[0], s = range.dim[1];
    for (int which = 0; which < 2; which++) {
        KeyBounds seen = { INT32_MAX, 0 };
        for (int64_t row = 0; row < b; row++)
            for (int64_t i = which * (s / 2); i < (which == 0 ? s / 2 : s); i++) {
                const int32_t *keys = (const int32_t *)range.data + 2 * (row * s + i);
                if (keys[0] >= keys[1]) continue;                       /* this query sees no keys */
                if (keys[0] < seen.first) seen.first = keys[0];
                if (keys[1] > seen.end)   seen.end   = keys[1];
            }
        batch->seen[which] = seen;
    }
}

/* A sample: where its tokens are read, the S + 1 of it, or the S targets of a block behind one token. lead:
 * the token that is put before the first; -1: all are read. */
typedef struct { OrderReader reader; int64_t targets; int32_t lead; } Sample;

/* A block is read from the token before it, unless it begins a sentence. */
static Sample block_sample(const Loader *loader, int64_t i)
{
    SampleBlock block = block_at(loader->blocks, i);
    return (Sample){ { .token_file = loader->token_file, .at = block.first - !block.leads,
                       .end = block.first + block.tokens },
                     block.tokens, block.leads ? loader->blocks->lead : -1 };
}

/* Sample `at`, counted over all epochs of jotun's order, or in the blend, which contains its epochs. The
 * permutation of an epoch is a function of seed, split and epoch, so any sample is found in constant time. */
static Status sample_find(Sample *sample, const Loader *loader, int64_t at)
{
    *sample = (Sample){ .targets = loader->config.sequence, .lead = -1 };
    if (loader->blend) {
        if (at >= loader->blend->samples)
            return fail(BAD_OPTION,
                        "sample %" PRId64 " of an order built for %" PRId64 " samples, as --train-iters and"
                        " --global-batch-size give them; raise --train-iters", at, loader->blend->samples);
        sample->reader = blend_read(loader->blend, at);
        return OK;
    }
    uint64_t stream = random_key(loader->config.seed, split_name(loader->kind));
    uint64_t key    = random_mix(stream, (uint64_t)(at / loader->samples));
    uint64_t i      = random_permute(key, (uint64_t)loader->samples, (uint64_t)(at % loader->samples));
    int64_t  first  = loader->first + (int64_t)i * loader->config.sequence;
    if (loader->blocks) {
        *sample = block_sample(loader, (int64_t)i);
        return OK;
    }
    sample->reader = (OrderReader){ .token_file = loader->token_file, .at = first,
                             .end = first + loader->config.sequence + 1 };
    return OK;
}

static void weight_set(Tensor loss_weight_T, int64_t row, double value)
{
    if (loss_weight_T.dtype == F64) ((double *)loss_weight_T.data)[row] = value;
    else                            ((float  *)loss_weight_T.data)[row] = (float)value;
}

/* Fills one row: the position `index` of its sequence, in a document that begins at position `document`. */
static void row_fill(const Loader *loader, Batch *batch, int64_t row, int32_t token, int32_t target,
                     int32_t sample, int32_t index, int32_t document)
{
    const LoaderConfig *config = &loader->config;
    ((int32_t *)batch->token_i.data)[row]         = token;
    ((int32_t *)batch->target_i.data)[row]        = target;
    ((int32_t *)batch->position_i.data)[row]      = config->reset_positions ? index - document : index;
    ((int32_t *)batch->dropout_index_i.data)[row] = sample * (int32_t)config->sequence + index;
    weight_set(batch->loss_weight_T, row, config->mask_eod && token == config->eod ? 0 : 1);
}

/* The two parts of `rank` of ranks with s positions */
typedef struct { int64_t first[2], s; } Parts;

static Parts parts_of(const LoaderConfig *config, int64_t rank, int64_t s)
{
    return (Parts){ { part_first(config, rank, s, 0), part_first(config, rank, s, 1) }, s };
}

/* Which of the s positions index i of the sequence is; -1: none. */
static int64_t held_at(Parts parts, int64_t i)
{
    int64_t half = parts.s / 2, early = i - parts.first[0], late = i - parts.first[1];
    if (early >= 0 && early < half) return early;
    return late >= 0 && late < parts.s - half ? half + late : -1;
}

/* What index i of the sequence is to multi-token prediction at the indices before it, of which `own` are held
 * from row `first` on. Called with -1 as token it clears what no token is ahead of. */
static void ahead_fill(const Loader *loader, Batch *batch, const Parts *own, int64_t first, int64_t i,
                       int32_t token, int32_t target)
{
    const LoaderConfig *config = &loader->config;
    double S = (double)config->sequence, N = config->ahead;
    bool counts = token >= 0 && !(config->mask_eod && token == config->eod);
    for (int k = 1; k <= config->ahead; k++) {
        int64_t at = i >= k && i - k < config->sequence ? held_at(*own, i - k) : -1;
        if (at < 0) continue;
        Tensor token_i  = batch_ahead(batch->ahead_token_i, k);
        Tensor target_i = batch_ahead(batch->ahead_target_i, k);
        ((int32_t *)token_i.data)[first + at]  = token >= 0 ? token : 0;
        ((int32_t *)target_i.data)[first + at] = token >= 0 ? target : 0;
        weight_set(batch_ahead(batch->ahead_weight, k), first + at,
                   counts ? config->ahead_factor / N * S / (S - k) : 0);
    }
}

static Status token_read(int32_t *token, OrderReader *reader, int64_t vocabulary)
{
    int64_t at = order_reader_next(reader);
    *token = token_file_token(reader->token_file, at);
    if (*token >= 0 && *token < vocabulary) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is outside of the vocabulary of %" PRId64
                "; the text was prepared with another tokenizer: prepare it again with that of the model, or "
                "give a new model the other one as --tokenizer",
                reader->token_file->bin.path, at * reader->token_file->width, *token, vocabulary);
}

/* Every rank reads all S + 1 tokens: a document may begin in a part of another context-parallel rank, and
 * all ranks must find the same id out of range. Positions from `counted` on have no weight. */
static Status sample_fill(const Loader *loader, Batch *batch, int64_t slot, Sample *from, int32_t sample,
                          int64_t counted, int64_t vocabulary)
{
    OrderReader *reader = &from->reader;
    const LoaderConfig *config = &loader->config;
    int64_t S = config->sequence, s = S / config->cp, u = group_ranks(config);
    Parts own = parts_of(config, config->cp_rank, s), group = parts_of(config, config->cp_rank / u, u * s);
    int32_t document = 0, token, target;
    ((int32_t *)batch->sample_i.data)[slot] = sample;
    token = from->lead;
    if (token < 0) TRY(token_read(&token, reader, vocabulary));
    for (int64_t i = 0; i < S; i++, token = target) {
        int64_t at = held_at(own, i), at_group = config->reset_attention ? held_at(group, i) : -1;
        bool inside = i < from->targets;                                /* what follows a block is padding */
        target = token;
        if (inside) TRY(token_read(&target, reader, vocabulary));
        if (at >= 0) row_fill(loader, batch, slot * s + at, token, target, sample, (int32_t)i, document);
        if (at >= 0 && (!inside || i >= counted)) weight_set(batch->loss_weight_T, slot * s + at, 0);
        if (at_group >= 0) {
            int32_t *range = (int32_t *)batch->key_range_i.data + 2 * (slot * u * s + at_group);
            range[0] = document;
            range[1] = (int32_t)i + 1;
        }
        ahead_fill(loader, batch, &own, slot * s, i, inside ? token : -1, target);
        /* The end-of-document token belongs to it. */
        if (token == config->eod) document = (int32_t)i + 1;
    }
    for (int64_t i = S; i < S + config->ahead; i++) ahead_fill(loader, batch, &own, slot * s, i, -1, 0);
    return OK;
}

/* ---- files that are truncated while they are read ---- */

/* The arguments and the result of loader_fill, for guard_run. */
typedef struct {
    const Loader *loader;
    Batch        *batch;
    int64_t       first, vocabulary;
    int           micro;
    Status        status;
} BatchFill;

/* Fails if the tokens just read may be zeros after the new end of a truncated file. Jotun's own order does
 * not read the index. */
static Status truncation_check(const OrderReader *reader)
{
    if (reader->order) TRY(file_map_check(&reader->token_file->index));
    return file_map_check(&reader->token_file->bin);
}

/* The sample counts for nothing. */
static void weights_clear(const Loader *loader, Batch *batch, int64_t slot)
{
    int64_t s = loader->config.sequence / loader->config.cp;
    for (int64_t i = 0; i < s; i++) {
        weight_set(batch->loss_weight_T, slot * s + i, 0);
        for (int k = 1; k <= loader->config.ahead; k++)
            weight_set(batch_ahead(batch->ahead_weight, k), slot * s + i, 0);
    }
}

/* The check follows the reading: a file that is long enough after its tokens were read was long enough
 * before. It is made once per run of samples from the same file, not once per sample. */
static Status samples_fill(const BatchFill *f)
{
    const Loader       *loader = f->loader;
    const LoaderConfig *config = &loader->config;
    /* of the micro-batch, in the global batch */
    int64_t     first  = ((int64_t)f->micro * config->dp + config->dp_rank) * config->micro;
    int64_t     step    = f->first / config->global + 1;
    int64_t     counted = config->lengths.steps ? length_at(&config->lengths, step) : config->sequence;
    OrderReader before = { 0 };
    Sample      sample = { 0 };
    Status      status = OK;
    for (int64_t slot = 0; slot < config->micro && status == OK; slot++) {
        before = sample.reader;
        int64_t at = f->first + first + slot, end = loader->end;
        TRY(sample_find(&sample, loader, end > 0 && at >= end ? end - 1 : at));
        if (before.token_file && before.token_file != sample.reader.token_file)
            TRY(truncation_check(&before));
        status = sample_fill(loader, f->batch, slot, &sample, (int32_t)(first + slot), counted,
                             f->vocabulary);
        if (end > 0 && at >= end) weights_clear(loader, f->batch, slot);
    }
    batch_bound_keys(f->batch);
    /* Precedes the status, which may come from zeros that are not data. */
    TRY(truncation_check(&sample.reader));
    return status;
}

static void fill_guarded(void *context)
{
    BatchFill *f = context;
    f->status = samples_fill(f);
}

static const FileMap *map_with(const FileMap *const *maps, int count, const void *at)
{
    for (int i = 0; i < count; i++)
        if ((const uint8_t *)at >= maps[i]->data && (const uint8_t *)at < maps[i]->data + maps[i]->size)
            return maps[i];
    return NULL;
}

/* The file of the loader that is mapped at this address, or NULL. */
static const FileMap *map_find(const Loader *loader, const void *at)
{
    const Blend   *b = loader->blend;
    const FileMap *found;
    if (!b)
        return map_with((const FileMap *[]){ &loader->token_file->bin, &loader->token_file->index }, 2, at);
    for (int i = 0; i < b->count; i++) {
        const Order *o = &b->order[i];
        found = map_with((const FileMap *[]){ &o->token_file->bin, &o->token_file->index, &o->document.map,
                                              &o->sample.map, &o->shuffle.map }, 5, at);
        if (found) return found;
    }
    return map_with((const FileMap *[]){ &b->which.map, &b->sample.map }, 2, at);
}

Status loader_fill(const Loader *loader, Batch *batch, int64_t first, int micro, int64_t vocabulary)
{
    BatchFill fill = { .loader = loader, .batch = batch, .first = first, .vocabulary = vocabulary,
                       .micro = micro };
    CHECK(batch->token_i.data, "loader_fill on a dry batch");
    const void *fault = guard_run(fill_guarded, &fill);
    if (!fault) return fill.status;
    const FileMap *map = map_find(loader, fault);
    CHECK(map, "SIGBUS at %p, which is in no file of the loader", fault);
    TRY(file_map_check(map));
    return fail(BAD_FILE,
                "%s: can no longer be read at byte %zu; its disk fails, restore the file from a copy",
                map->path, (size_t)((const uint8_t *)fault - map->data));
}
