/*  S positions of a whole sequence   s of them held here, in two parts
 *  b sequences of a micro-batch      T = b s rows                                                              */
#include <inttypes.h>
#include <limits.h>
#include "base/random.h"
#include "data/loader.h"
#include "tensor/ops.h"

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

static int64_t token_first(const Shard *shard, int64_t sequence)
{
    return sequence < shard->sequences ? shard_start(shard, sequence) : shard->tokens;
}

Status loader_open(Loader *loader, const Shard *shard, const char *split, SplitKind kind, LoaderShape shape)
{
    *loader = (Loader){ .shard = shard, .shape = shape, .kind = kind };
    TRY(shape_check(&shape));
    int64_t begin, end;
    TRY(split_range(&begin, &end, split, kind, SPLIT_SUMS, shard->sequences));
    loader->first   = token_first(shard, begin);
    loader->tokens  = token_first(shard, end) - loader->first;
    loader->samples = (loader->tokens - 1) / shape.sequence;
    if (loader->samples < 1)
        return fail(BAD_FILE, "%s: the %s part under --split %s has %" PRId64 " tokens; one sample of --seq-length %"
                    PRId64 " takes %" PRId64 ": give more text, another split or a shorter sequence", shard->bin.path,
                    split_word(kind), split ? split : "(all of it)", loader->tokens, shape.sequence, shape.sequence + 1);
    return OK;
}

Status loader_open_blend(Loader *loader, const Blend *blend, LoaderShape shape)
{
    *loader = (Loader){ .blend = blend, .shape = shape };
    return shape_check(&shape);
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

/* At the first token of the sample that stands at `at`: of all epochs laid end to end, or of the blend, which has them all in it */
static Status sample_find(OrderReader *reader, const Loader *loader, int64_t at)
{
    if (loader->blend) {
        if (at >= loader->blend->samples)
            return fail(BAD_OPTION, "sample %" PRId64 " of an order made for %" PRId64 "; --train-iters and --global-batch-size say how many",
                        at, loader->blend->samples);
        *reader = blend_read(loader->blend, at);
        return OK;
    }
    uint64_t stream = random_key(loader->shape.seed, split_word(loader->kind));
    uint64_t key    = random_mix(stream, (uint64_t)(at / loader->samples));
    uint64_t i      = random_permute(key, (uint64_t)loader->samples, (uint64_t)(at % loader->samples));
    int64_t  first  = loader->first + (int64_t)i * loader->shape.sequence;
    *reader = (OrderReader){ .shard = loader->shard, .at = first, .end = first + loader->shape.sequence + 1 };
    return OK;
}

static void weight_set(Tensor weight_T, int64_t row, double value)
{
    if (weight_T.dtype == F64) ((double *)weight_T.data)[row] = value;
    else                       ((float  *)weight_T.data)[row] = (float)value;
}

/* One position: `index` in its sequence, of a document that began at `document`, goes to `row`. */
static void row_fill(const Loader *loader, Batch *batch, int64_t row, int32_t token, int32_t target, int32_t sample, int32_t index,
                     int32_t document)
{
    const LoaderShape *shape = &loader->shape;
    ((int32_t *)batch->token_i.data)[row]    = token;
    ((int32_t *)batch->target_i.data)[row]   = target;
    ((int32_t *)batch->position_i.data)[row] = shape->reset_positions ? index - document : index;
    ((int32_t *)batch->place_i.data)[row]    = sample * (int32_t)shape->sequence + index;
    weight_set(batch->weight_T, row, shape->mask_eod && token == shape->eod ? 0 : 1);
    if (shape->reset_attention) {
        int32_t *visible = (int32_t *)batch->visible_i.data + 2 * row;
        visible[0] = document;
        visible[1] = index + 1;
    }
}

static Status token_read(int32_t *token, OrderReader *reader, int64_t vocabulary)
{
    int64_t at = order_place(reader);
    *token = shard_token(reader->shard, at);
    if (*token >= 0 && *token < vocabulary) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is outside of the vocabulary of %" PRId64
                "; the text was prepared with another tokenizer", reader->shard->bin.path, at * reader->shard->width,
                *token, vocabulary);
}

/* All S + 1 tokens are read on every rank: a document may begin in a part which another rank holds, and an id out
 * of range must be seen by all of them alike.                                                                    */
static Status sample_fill(const Loader *loader, Batch *batch, int64_t slot, OrderReader *reader, int32_t sample, int64_t vocabulary)
{
    int64_t S = loader->shape.sequence, s = S / loader->shape.cp, half = s / 2;
    int32_t document = 0, token, target;
    ((int32_t *)batch->sample_i.data)[slot] = sample;
    TRY(token_read(&token, reader, vocabulary));
    for (int64_t i = 0; i < S; i++, token = target) {
        int64_t first = i - batch->part[0], second = i - batch->part[1];
        TRY(token_read(&target, reader, vocabulary));
        if (first >= 0 && first < half)
            row_fill(loader, batch, slot * s + first, token, target, sample, (int32_t)i, document);
        else if (second >= 0 && second < s - half)
            row_fill(loader, batch, slot * s + half + second, token, target, sample, (int32_t)i, document);
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
        OrderReader reader;
        TRY(sample_find(&reader, loader, loader->shift + step * shape->global + first + slot));
        TRY(sample_fill(loader, batch, slot, &reader, (int32_t)(first + slot), vocabulary));
    }
    return OK;
}
