/*  S positions of a whole sequence   s of them held here, in two parts
 *  b sequences of a micro-batch      T = b s rows                                                              */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "data/loader.h"
#include "tensor/ops.h"

static const char *const split_name[] = { "train", "valid", "test" };

/* ---- opening ---- */

/* "969,30,1": up to three weights; missing ones are 0 */
static bool weights_read(double weight[3], const char *split)
{
    const char *p = split;
    for (int i = 0; i < 3; i++) {
        char *end;
        weight[i] = strtod(p, &end);
        if (end == p || !isfinite(weight[i]) || weight[i] < 0) return false;
        if (*end == 0) break;
        if (*end != ',' || i == 2) return false;
        p = end + 1;
    }
    double sum = weight[0] + weight[1] + weight[2];
    for (int i = 0; i < 3; i++) weight[i] /= sum;      /* all zero gives NaN */
    return sum > 0;
}

/* Megatron's borders: round(cumulated weight * sequences), halves to even. What it calls documents here are the
 * sequences of the index; they differ only by empty documents and by text prepared sentence by sentence.        */
static Status split_range(Loader *loader, const char *split)
{
    const Shard *shard = loader->shard;
    double weight[3] = { 0 }, low = 0;
    if (!weights_read(weight, split))
        return fail(BAD_OPTION, "--split %s: wants weights of train, valid and test, as 969,30,1", split);
    for (int i = 0; i < (int)loader->kind; i++) low += weight[i];
    int64_t begin = (int64_t)rint(low * (double)shard->sequences);
    int64_t end   = (int64_t)rint((low + weight[loader->kind]) * (double)shard->sequences);
    int64_t last  = end < shard->sequences ? shard_start(shard, end) : shard->tokens;
    loader->first  = begin < shard->sequences ? shard_start(shard, begin) : shard->tokens;
    loader->tokens = last - loader->first;
    return OK;
}

static Status shape_check(const LoaderShape *shape)
{
    int64_t S = shape->sequence, parts = 2 * (int64_t)shape->cp, step = shape->micro * shape->dp;
    CHECK(S > 0 && shape->micro > 0 && shape->global > 0, "loader wants sizes above 0");
    CHECK(shape->dp_rank >= 0 && shape->dp_rank < shape->dp, "dp rank %d of %d", shape->dp_rank, shape->dp);
    CHECK(shape->cp_rank >= 0 && shape->cp_rank < shape->cp, "cp rank %d of %d", shape->cp_rank, shape->cp);
    if (shape->cp > 1 && S % parts != 0)
        return fail(BAD_OPTION, "--seq-length %" PRId64 " must be a multiple of 2 x --context-parallel-size %d; %"
                    PRId64 " is", S, shape->cp, (S / parts + 1) * parts);
    if (shape->global % step != 0)
        return fail(BAD_OPTION, "--global-batch-size %" PRId64 " must be a multiple of --micro-batch-size %" PRId64
                    " x %d data-parallel ranks; %" PRId64 " is", shape->global, shape->micro, shape->dp,
                    (shape->global / step + 1) * step);
    if (shape->global > INT32_MAX / S)
        return fail(BAD_OPTION, "--global-batch-size %" PRId64 " x --seq-length %" PRId64 " is above the 2^31 tokens"
                    " a step may have; lower one", shape->global, S);
    if (shape->eod < 0 && (shape->reset_positions || shape->reset_attention || shape->mask_eod))
        return fail(BAD_OPTION, "--reset-position-ids, --reset-attention-mask and --eod-mask-loss want an"
                    " end-of-document id, and the tokenizer has none; drop them");
    return OK;
}

Status loader_open(Loader *loader, const Shard *shard, const char *split, SplitKind kind, LoaderShape shape)
{
    *loader = (Loader){ .shard = shard, .shape = shape, .kind = kind };
    TRY(shape_check(&shape));
    TRY(split_range(loader, split));
    loader->samples = (loader->tokens - 1) / shape.sequence;
    if (loader->samples < 1)
        return fail(BAD_FILE, "%s: the %s part under --split %s has %" PRId64 " tokens; one sample of --seq-length %"
                    PRId64 " takes %" PRId64 ": give more text, another split or a shorter sequence", shard->bin.path,
                    split_name[kind], split, loader->tokens, shape.sequence, shape.sequence + 1);
    return OK;
}

int loader_micros(const Loader *loader)
{
    return (int)(loader->shape.global / (loader->shape.micro * loader->shape.dp));
}

/* ---- a batch ---- */

Batch loader_batch_new(const LoaderShape *shape, Arena *host)
{
    int64_t b = shape->micro, s = shape->sequence / shape->cp, T = b * s, half = s / 2;
    return (Batch){
        .token_i    = tensor_new(host, "batch", I32, T),
        .target_i   = tensor_new(host, "batch", I32, T),
        .weight_T   = tensor_new(host, "batch", shape->real, T),
        .position_i = tensor_new(host, "batch", I32, T),
        .place_i    = tensor_new(host, "batch", I32, T),
        .sample_i   = tensor_new(host, "batch", I32, b),
        .visible_i  = shape->reset_attention ? tensor_new(host, "batch", I32, b, s, 2) : tensor_none(),
        .part       = { shape->cp_rank * half, shape->sequence - (shape->cp_rank + 1) * (s - half) },
    };
}

/* The first token, in .bin, of the sample that stands at `at` of all epochs laid end to end */
static int64_t sample_start(const Loader *loader, int64_t at)
{
    uint64_t stream = random_key(loader->shape.seed, split_name[loader->kind]);
    uint64_t key    = random_mix(stream, (uint64_t)(at / loader->samples));
    uint64_t i      = random_permute(key, (uint64_t)loader->samples, (uint64_t)(at % loader->samples));
    return loader->first + (int64_t)i * loader->shape.sequence;
}

static void weight_set(Tensor weight_T, int64_t row, double value)
{
    if (weight_T.dtype == F64) ((double *)weight_T.data)[row] = value;
    else                       ((float  *)weight_T.data)[row] = (float)value;
}

/* One position: `index` in its sequence, of a document that began at `document`, goes to `row`. */
static void row_fill(const Loader *loader, Batch *batch, int64_t row, int64_t at, int32_t sample, int32_t index,
                     int32_t document)
{
    const LoaderShape *shape = &loader->shape;
    int32_t token = shard_token(loader->shard, at);
    ((int32_t *)batch->token_i.data)[row]    = token;
    ((int32_t *)batch->target_i.data)[row]   = shard_token(loader->shard, at + 1);
    ((int32_t *)batch->position_i.data)[row] = shape->reset_positions ? index - document : index;
    ((int32_t *)batch->place_i.data)[row]    = sample * (int32_t)shape->sequence + index;
    weight_set(batch->weight_T, row, shape->mask_eod && token == shape->eod ? 0 : 1);
    if (shape->reset_attention) {
        int32_t *visible = (int32_t *)batch->visible_i.data + 2 * row;
        visible[0] = document;
        visible[1] = index + 1;
    }
}

static Status token_outside(const Shard *shard, int64_t at, int64_t vocabulary)
{
    return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is outside of the vocabulary of %" PRId64
                "; the text was prepared with another tokenizer", shard->bin.path, at * shard->width,
                shard_token(shard, at), vocabulary);
}

/* All S + 1 tokens are read on every rank: a document may begin in a part which another rank holds, and an id out
 * of range must be seen by all of them alike.                                                                    */
static Status sample_fill(const Loader *loader, Batch *batch, int64_t slot, int64_t start, int32_t sample,
                          int64_t vocabulary)
{
    int64_t S = loader->shape.sequence, s = S / loader->shape.cp, half = s / 2;
    int32_t document = 0;
    ((int32_t *)batch->sample_i.data)[slot] = sample;
    for (int64_t i = 0; i <= S; i++) {
        int32_t token = shard_token(loader->shard, start + i);
        if (token < 0 || token >= vocabulary) return token_outside(loader->shard, start + i, vocabulary);
        int64_t first = i - batch->part[0], second = i - batch->part[1];
        if (i < S && first >= 0 && first < half)
            row_fill(loader, batch, slot * s + first, start + i, sample, (int32_t)i, document);
        else if (i < S && second >= 0 && second < s - half)
            row_fill(loader, batch, slot * s + half + second, start + i, sample, (int32_t)i, document);
        if (token == loader->shape.eod) document = (int32_t)i + 1;     /* the end of a document belongs to it */
    }
    return OK;
}

Status loader_fill(const Loader *loader, Batch *batch, int64_t step, int micro, int64_t vocabulary)
{
    const LoaderShape *shape = &loader->shape;
    CHECK(batch->token_i.data, "loader_fill on a dry batch");
    int64_t first = ((int64_t)micro * shape->dp + shape->dp_rank) * shape->micro;
    for (int64_t slot = 0; slot < shape->micro; slot++) {
        int64_t start = sample_start(loader, loader->shift + step * shape->global + first + slot);
        TRY(sample_fill(loader, batch, slot, start, (int32_t)(first + slot), vocabulary));
    }
    return OK;
}
