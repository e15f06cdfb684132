/* Documents shuffled as Megatron-LM does it (--data-order megatron); the default order permutes samples
 * instead, by random_permute in data/loader.c.
 * Megatron-core's GPTDataset: the number of epochs, the three indices and their cache. The random draws come
 * in Megatron's order from one generator: documents of the first epochs, documents of a separate last epoch,
 * then samples likewise. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/order.h"
#include "data/mt19937.h"

/* ---- counts ---- */

static Status plan_refused(const OrderSpec *spec, int64_t tokens, const char *what)
{
    return fail(BAD_FILE,
                "%s: sequences %" PRId64 " to %" PRId64 " of it have %" PRId64 " tokens, and one sample of"
                " --seq-length %" PRId64 " takes %" PRId64 ": give more text, another --split or a shorter"
                " sequence", what, spec->begin, spec->end, tokens, spec->sequence, spec->sequence + 1);
}

/* The number of epochs E is the smallest with E tokens >= wanted S + 1, and there are (E tokens - 1) / S
 * samples: a sample takes S + 1 tokens and shares one with the next. The limits keep all products below
 * 2^63. */
Status order_plan(OrderPlan *plan, const OrderSpec *spec, int64_t tokens, const char *what)
{
    int64_t S = spec->sequence, count = spec->end - spec->begin, wanted = spec->wanted < 0 ? 0 : spec->wanted;
    if (count < 1 || tokens < 1) return plan_refused(spec, tokens, what);
    if (spec->seed > UINT32_MAX)
        return fail(BAD_OPTION, "--seed %" PRIu64 ": Megatron's order takes seeds below 2^32", spec->seed);
    if (wanted > (INT64_MAX / 4 - tokens) / S)
        return fail(BAD_OPTION,
                    "%" PRId64 " samples of --seq-length %" PRId64 " are more than 2^61 tokens; lower"
                    " --train-iters", wanted, S);
    /* Rounded up: (wanted S + 1 + tokens - 1) / tokens. */
    int64_t epochs = (wanted * S + tokens) / tokens;
    if (epochs > INT64_MAX / 64 / count)
        return fail(BAD_OPTION,
                    "%s: %" PRId64 " samples are %" PRId64 " epochs of its %" PRId64 " tokens; give more"
                    " text", what,
                    wanted, epochs, tokens);
    /* Empty sequences take entries of the index in every epoch: without this limit its size is not bounded
     * by the tokens. */
    if (epochs * count / 16 > wanted * S + tokens + count)
        return fail(BAD_FILE,
                    "%s: %" PRId64 " sequences with %" PRId64 " tokens in all; most are empty: prepare the"
                    " text again", what, count, tokens);
    int64_t samples = (epochs * tokens - 1) / S, before = ((epochs - 1) * tokens - 1) / S;
    int64_t of_epoch = (tokens - 1) / S;
    if (samples < 1) return plan_refused(spec, tokens, what);
    bool separate = epochs > 1 && wanted - before < (int64_t)(spec->final_epoch_cut * (double)of_epoch);
    *plan = (OrderPlan){
        .tokens       = tokens,
        .epochs       = epochs,
        .entries      = epochs * count,
        .samples      = samples,
        .separate     = separate,
        .before_last  = separate ? before : samples,
        .sample_type  = epochs * count > INT32_MAX ? NPY_I64 : NPY_I32,
        .shuffle_type = samples >= (int64_t)UINT32_MAX - 1 ? NPY_I64 : NPY_U32 };
    return OK;
}

/* ---- the three indices ---- */

/* A separate last epoch is shuffled by itself, so that all epochs before it are used completely. */
static void documents_make(Order *o, Mt19937 *random)
{
    int32_t *x = o->document.made;
    int64_t  count = o->spec.end - o->spec.begin, last = o->plan.separate ? count : 0;
    int64_t  first = o->plan.entries - last;
    for (int64_t e = 0, i = 0; e < o->plan.epochs; e++)
        for (int64_t d = o->spec.begin; d < o->spec.end; d++) x[i++] = (int32_t)d;
    mt19937_shuffle(random, x, 4, first);
    if (last > 0) mt19937_shuffle(random, x + first, 4, last);
}

static void sample_set(NpyArray *sample, int64_t i, int64_t document, int64_t offset)
{
    if (sample->type == NPY_I32) {
        int32_t *row = (int32_t *)sample->made + 2 * i;
        row[0] = (int32_t)document, row[1] = (int32_t)offset;
    } else {
        int64_t *row = (int64_t *)sample->made + 2 * i;
        row[0] = document, row[1] = offset;
    }
}

/* Sample i begins at token i S of all epochs; its row is the entry of the document that contains this
 * token and the offset there. Row 0 is (0, 0) as in Megatron, also if the first document is empty. One
 * pass over the entries. */
static void samples_make(Order *o)
{
    /* `start` is the first token of this entry, counted over all epochs. */
    int64_t S = o->spec.sequence, start = 0, i = 1;
    const int32_t *document = o->document.data;
    sample_set(&o->sample, 0, 0, 0);
    for (int64_t d = 0; d < o->plan.entries && i <= o->plan.samples; d++) {
        int64_t end = start + token_file_length(o->token_file, document[d]);
        for (; i <= o->plan.samples && i * S < end; i++) sample_set(&o->sample, i, d, i * S - start);
        start = end;
    }
    CHECK(i == o->plan.samples + 1, "%" PRId64 " samples found of %" PRId64, i - 1, o->plan.samples);
}

static void shuffle_make(Order *o, Mt19937 *random)
{
    int     width = npy_array_width(o->shuffle.type);
    int64_t first = o->plan.before_last, last = o->plan.samples - first;
    for (int64_t i = 0; i < o->plan.samples; i++) {
        if (width == 4) ((uint32_t *)o->shuffle.made)[i] = (uint32_t)i;
        else            ((int64_t  *)o->shuffle.made)[i] = i;
    }
    mt19937_shuffle(random, o->shuffle.made, width, first);
    if (last > 0) mt19937_shuffle(random, (char *)o->shuffle.made + first * width, width, last);
}

static Status order_make(void *context)
{
    Order  *o = context;
    Mt19937 random;
    TRY(npy_array_make(&o->document));
    TRY(npy_array_make(&o->sample));
    TRY(npy_array_make(&o->shuffle));
    mt19937_seed(&random, (uint32_t)o->spec.seed);
    documents_make(o, &random);
    samples_make(o);
    shuffle_make(o, &random);
    return OK;
}

/* ---- the cache ---- */

/* Validates indices from cache files, which are not trusted: after this no reader leaves the token file. */
static bool indices_valid(void *context)
{
    const Order *o = context;
    int64_t document = 0, at = 0;
    for (int64_t i = 0; i < o->plan.entries; i++) {
        int64_t d = npy_array_at(&o->document, i);
        if (d < o->spec.begin || d >= o->spec.end) return false;
    }
    for (int64_t i = 0; i <= o->plan.samples; i++) {
        int64_t d = npy_array_at(&o->sample, 2 * i), offset = npy_array_at(&o->sample, 2 * i + 1);
        if (d < document || d >= o->plan.entries || offset < 0) return false;
        if (offset > 0 && offset >= token_file_length(o->token_file, npy_array_at(&o->document, d)))
            return false;
        for (; document < d; document++)
            at += token_file_length(o->token_file, npy_array_at(&o->document, document));
        if (at + offset != i * o->spec.sequence) return false;
    }
    for (int64_t i = 0; i < o->plan.samples; i++) {
        int64_t k = npy_array_at(&o->shuffle, i);
        if (k < 0 || k >= o->plan.samples) return false;
    }
    return true;
}

/* FNV-1a over whole lengths instead of bytes. It identifies the text in the description of the cache: a
 * token file that was prepared from other text has other lengths. */
static uint64_t lengths_hash(const TokenFile *token_file, const OrderSpec *spec)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t d = spec->begin; d < spec->end; d++)
        hash = (hash ^ (uint64_t)token_file_length(token_file, d)) * 0x100000001b3u;
    return hash;
}

static Status order_cached(Order *o, SplitKind kind, const char *dir)
{
    char words[1024];
    NpyCache cache;
    const OrderSpec *s = &o->spec;
    snprintf(words, sizeof words,
             "GPTDataset 1\nsequences %" PRId64 " to %" PRId64 ", %" PRId64 " tokens, lengths %016"
             PRIx64 "\nsamples %" PRId64 "\nsequence_length %" PRId64 "\nrandom_seed %" PRIu64
             "\nfinal_epoch_cut %.17g\n",
             s->begin, s->end, o->plan.tokens, lengths_hash(o->token_file, s), s->wanted, s->sequence,
             s->seed, s->final_epoch_cut);
    TRY(npy_cache_name(&cache, dir, "GPTDataset", split_name(kind), words));
    return npy_cache_open(&cache, &(NpyEntry){
        { { "document_index", &o->document }, { "sample_index", &o->sample },
          { "shuffle_index", &o->shuffle } }, 3, order_make, indices_valid, o });
}

Status order_measure(Order *order, const TokenFile *token_file, const OrderSpec *spec)
{
    int64_t tokens = 0;
    *order = (Order){ .token_file = token_file, .spec = *spec };
    if (token_file->sequences > INT32_MAX)
        return fail(BAD_FILE,
                    "%s: %" PRId64 " sequences; Megatron's order has at most 2^31 - 1: prepare the text in"
                    " several parts", token_file->index.path, token_file->sequences);
    for (int64_t d = spec->begin; d < spec->end; d++) tokens += token_file_length(token_file, d);
    return order_plan(&order->plan, spec, tokens, token_file->bin.path);
}

int64_t order_bytes(const Order *o)
{
    int sample_row  = 2 * npy_array_width(o->plan.sample_type);
    int shuffle_row = npy_array_width(o->plan.shuffle_type);
    return 4 * o->plan.entries + sample_row * (o->plan.samples + 1) + shuffle_row * o->plan.samples;
}

Status order_open(Order *order, const TokenFile *token_file, const OrderSpec *spec, SplitKind kind,
                  const char *cache)
{
    TRY(order_measure(order, token_file, spec));
    const OrderPlan *plan = &order->plan;
    order->document = npy_array(NPY_I32, plan->entries, 1);
    order->sample   = npy_array(plan->sample_type, plan->samples + 1, 2);
    order->shuffle  = npy_array(plan->shuffle_type, plan->samples, 1);
    Status status = cache ? order_cached(order, kind, cache) : order_make(order);
    if (status != OK) order_close(order);
    return status;
}

void order_close(Order *order)
{
    npy_array_close(&order->document);
    npy_array_close(&order->sample);
    npy_array_close(&order->shuffle);
    *order = (Order){ 0 };
}

/* ---- reading ---- */

static void reader_document(OrderReader *r, int64_t offset)
{
    int64_t d = npy_array_at(&r->order->document, r->document), start = token_file_start(r->token_file, d);
    r->at  = start + offset;
    r->end = start + token_file_length(r->token_file, d);
}

OrderReader order_read(const Order *order, int64_t sample)
{
    int64_t row = npy_array_at(&order->shuffle, sample);
    OrderReader reader = { .token_file = order->token_file, .order = order,
                           .document = npy_array_at(&order->sample, 2 * row) };
    reader_document(&reader, npy_array_at(&order->sample, 2 * row + 1));
    return reader;
}

int64_t order_reader_next(OrderReader *r)
{
    while (r->at == r->end) {                              /* a loop, since documents may be empty */
        if (++r->document < r->order->plan.entries) reader_document(r, 0);
        /* Only if the index was truncated after opening and reads as zeros. Any token will do: loader_fill
         * reports it. */
        else r->at = 0, r->end = r->token_file->tokens;
    }
    return r->at++;
}
