/* Encoding: a text is split at added tokens, normalized, pretokenized, and each pretoken is looked up in a
 * cache or merged. The cost of a lookup is the cache miss, so pretokens are processed in batches whose cache
 * lines are prefetched. */
#include <string.h>
#include "text/pretokenize/letters.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/piece_models.h"
#include "text/pretokenize/pretoken_gpt2.h"
#include "text/unicode.h"

/* One call of encode */
typedef struct {
    const BpeTokenizer *bpe;
    PieceCache *cache;                   /* of this thread, for the duration of the call */
    int32_t *ids;                        /* of the caller; count: ids written. NULL: the bytes of all pieces
                                          * are counted, which is never less */
    int64_t  count;
    bool     specials;                   /* special tokens become their ids */
    bool     failed;                     /* a short piece failed, after fail() */
    int      step;                       /* of the pretokenizer */
} EncodeState;

/* set NULL: a long piece */
typedef struct { PieceKey key; ShortPiece *set; const uint8_t *text; } PieceLookup;

/* text: 16 bytes may be read */
static inline PieceLookup short_lookup(const PieceCache *w, const uint8_t *text, int64_t bytes)
{
    PieceKey key = piece_key(text, bytes);
    return (PieceLookup){ key, piece_cache_set(w, key), text };
}

/* After a miss of piece_cache_find. ids has capacity for PIECE_IDS_WRITTEN more than there are bytes. Where
 * the model fails it writes none, and w->failed says so: the hot loop does not look. */
static int64_t short_piece_encode(EncodeState *w, const PieceLookup *piece, int64_t bytes, int32_t *ids)
{
    PieceCache *cache = w->cache;
    const ShortPiece *cached = piece_cache_find_second(piece->set, piece->key);
    if (cached) return piece_ids(cache, cached, ids);
    int64_t known = bytes > (cache->narrow ? PIECE_IDS_NARROW : PIECE_IDS_WIDE)
        ? piece_cache_find_long(cache, piece->text, bytes, ids) : 0;
    if (known) return known;
    cache->misses++;
    known = piece_model_encode(w->bpe, cache, ids, piece->text, bytes);
    if (known < 0) {
        w->failed = true;
        return 0;
    }
    memset(ids + known, 0, PIECE_IDS_WRITTEN * sizeof *ids);
    if (!piece_cache_put(cache, piece->set, piece->key, ids, known))
        piece_cache_put_long(cache, piece->text, bytes, ids, known);
    return known;
}

/* -1: as piece_model_encode */
static int64_t long_piece_encode(EncodeState *w, const uint8_t *text, int64_t bytes, int32_t *ids)
{
    int64_t known = bytes <= PIECE_LONG_BYTES ? piece_cache_find_long(w->cache, text, bytes, ids) : 0;
    if (known) return known;
    w->cache->misses++;
    known = piece_model_encode(w->bpe, w->cache, ids, text, bytes);
    if (known > 0) piece_cache_put_long(w->cache, text, bytes, ids, known);
    return known;
}

/* Encodes any piece. Reads no byte after it and writes no id after its own, so it is also right at the end of
 * the text. */
static Status piece_encode(EncodeState *w, const uint8_t *text, int64_t bytes)
{
    int32_t made[PIECE_SHORT_BYTES + PIECE_IDS_WRITTEN];
    uint8_t raw[16] = { 0 };
    int64_t count;
    if (bytes <= PIECE_SHORT_BYTES) {
        memcpy(raw, text, (size_t)bytes);
        PieceLookup piece = short_lookup(w->cache, raw, bytes);
        const ShortPiece *cached = piece_cache_find(piece.set, piece.key);
        count = cached ? piece_ids(w->cache, cached, made) : short_piece_encode(w, &piece, bytes, made);
        memcpy(w->ids + w->count, made, (size_t)count * sizeof *made);
    } else {
        count = long_piece_encode(w, text, bytes, w->ids + w->count);
    }
    if (count < 0) return BAD_FILE;                         /* after fail() */
    w->count += count;
    w->cache->pieces++;
    return OK;
}

/* Pretokens whose cache lines are being prefetched. A piece ends where the next begins; the one after the
 * last only marks that end. A block may exceed BATCH_PIECES, hence the extra capacity. */
enum { BATCH_PIECES = 128, PREFETCH_AHEAD = 4 };
typedef struct { PieceLookup piece[BATCH_PIECES + GPT2_BLOCK_BYTES + 1]; int count; } PieceBatch;

static inline void lookup_start(const PieceCache *w, PieceLookup *piece, const uint8_t *text, int64_t bytes)
{
    *piece = bytes <= PIECE_SHORT_BYTES ? short_lookup(w, text, bytes) : (PieceLookup){ .text = text };
    __builtin_prefetch(piece->set);
}

/* The length of the piece at p: of a word whose end is within 16 bytes, by letters_of; otherwise by
 * pretoken_next. */
static inline int64_t piece_bytes(const EncodeState *w, PretokenKind kind, const uint8_t *p,
                                  const uint8_t *end)
{
    int      led = w->bpe->word_prefix[*p];
    uint32_t run = (uint32_t)__builtin_ctz(~(letters_of(p) >> led));
    int64_t  n   = led + run;
    return !run || n >= PIECE_SHORT_BYTES || p[n] >= 0x80 || !pretoken_has_plain_words(kind)
        ? pretoken_next(kind, p, end - p) : n;
}

/* Adds the pieces of a block that begin at the bits of `starts`, and returns the beginning of the last one,
 * whose end is not known: the next block begins there. */
static inline const uint8_t *batch_add_block(const PieceCache *w, PieceBatch *batch, const uint8_t *block,
                                             uint64_t starts)
{
    const uint8_t *p = block;
    PieceLookup *piece = batch->piece + batch->count;
    for (starts &= ~1ull; starts; starts &= starts - 1) {
        const uint8_t *next = block + __builtin_ctzll(starts);
        lookup_start(w, piece++, p, next - p);
        p = next;
    }
    batch->count = (int)(piece - batch->piece);
    return p;
}

/* Splits the text from p on while GPT2_READ_BYTES remain, until the batch is full; returns the position
 * reached. */
static const uint8_t *batch_fill(const EncodeState *w, PieceBatch *batch, PretokenKind kind, const uint8_t *p,
                                 const uint8_t *end)
{
    batch->count = 0;
    while (batch->count < BATCH_PIECES && end - p >= GPT2_READ_BYTES) {
        const uint8_t *from = p;
        if (kind == PRETOKEN_GPT2) p = batch_add_block(w->cache, batch, p, pretoken_gpt2_starts(p, end - p));
        if (p > from) continue;
        p += piece_bytes(w, kind, p, end);
        lookup_start(w->cache, &batch->piece[batch->count++], from, p - from);
    }
    batch->piece[batch->count].text = p;
    return p;
}

/* The hot loop: a batch is split before its first piece is looked up, so that its cache misses overlap. While
 * GPT2_READ_BYTES of text remain, ids has capacity for as many more, so piece_ids may write more ids than are
 * valid. */
static Status scan_encode(EncodeState *w, PretokenKind kind, const uint8_t *text, int64_t bytes)
{
    const uint8_t *p = text, *end = text + bytes;
    PieceBatch batch;
    while (end - p >= GPT2_READ_BYTES) {
        p = batch_fill(w, &batch, kind, p, end);
        w->cache->pieces += batch.count;
        for (int i = 0; i < batch.count; i++) {
            const PieceLookup     *piece = &batch.piece[i];
            const ShortPiece *cached  = piece->set ? piece_cache_find(piece->set, piece->key) : NULL;
            if (cached) {
                w->count += piece_ids(w->cache, cached, w->ids + w->count);
                continue;
            }
            /* so that the misses of rare pieces overlap too */
            int later = i + PREFETCH_AHEAD < batch.count ? i + PREFETCH_AHEAD : i;
            if (batch.piece[later].set) __builtin_prefetch(batch.piece[later].set + 2);
            int64_t length = piece[1].text - piece->text;
            if (piece->set) w->count += short_piece_encode(w, piece, length, w->ids + w->count);
            else            TRY(piece_encode(w, piece->text, length));
            w->cache->pieces -= !piece->set;        /* piece_encode counted it */
        }
    }
    while (p < end) {
        int64_t n = pretoken_next(kind, p, end - p);
        TRY(piece_encode(w, p, n));
        p += n;
    }
    return OK;
}

static Status piece_take(EncodeState *w, Chars piece)
{
    if (w->ids) return piece_encode(w, piece.text, piece.bytes);
    w->count += piece.bytes;
    return OK;
}

/* Applies one pretokenizer step, and itself to each resulting piece; the last step may use the fast loop. */
static Status pretokens_encode(void *context, Chars piece)
{
    EncodeState *w = context;
    const Pretokenizer *steps = &w->bpe->pretokenizer;
    if (w->step == steps->steps) return piece_take(w, piece);
    const PretokenizerStep *step = &steps->step[w->step++];
    bool   last   = w->step == steps->steps && w->ids;
    Status                  status =
        last && step->kind == SPLIT_SCAN
                             ? scan_encode(w, step->scan, piece.text, piece.bytes)
                             : pretokenizer_step(steps, w->step - 1, &w->cache->pretokenizer, piece,
                                                 pretokens_encode, w);
    w->step--;
    return status;
}

typedef Status SegmentEncode(EncodeState *w, Chars text);

/* Writes the ids of added tokens, and passes the segments between them to `segment`. */
static Status added_encode(EncodeState *w, bool normalized, Chars text, SegmentEncode *segment)
{
    AddedTokensKind  kind  = { normalized, w->specials };
    AddedMatch match = { 0 };
    const AddedToken *token;
    for (int64_t at = 0; ; at = match.to) {
        token = added_next(&w->bpe->added, kind, text.text, text.bytes, &match);
        int64_t end = token ? match.from : text.bytes, first = text.first - at;
        first = first < 0 ? 0 : first < end - at ? first : end - at;
        if (end > at) TRY(segment(w, (Chars){ text.text + at, end - at, first }));
        if (!token) return OK;
        if (match.from >= match.to) continue;
        if (w->ids) w->ids[w->count] = token->id;
        w->count++;
    }
}

static Status segment_encode(EncodeState *w, Chars text)
{
    TRY(normalizer_apply(&w->bpe->segment_normalizer, &text, &w->cache->segment));
    return pretokens_encode(w, text);
}

static bool looks_for_added(const EncodeState *w)
{
    return w->bpe->added.count > (w->specials ? 0 : w->bpe->added.specials);
}

static Status normalized_encode(EncodeState *w, Chars text)
{
    if (w->bpe->normalizer.steps) TRY(normalizer_apply(&w->bpe->normalizer, &text, &w->cache->normalizer));
    if (text.bytes == 0) return OK;
    return looks_for_added(w) ? added_encode(w, true, text, segment_encode) : segment_encode(w, text);
}

/* Threads encode at the same time, each with a cache of its own. A cache is exchanged atomically, so no lock
 * is needed; the default, sequentially consistent order makes the previous user's writes visible. */
static Status cache_acquire(BpeTokenizer *m, PieceCache **cache)
{
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++)
        if ((*cache = atomic_exchange(&m->cache[i], NULL))) return OK;
    return piece_cache_open(cache, m->vocabulary);
}

static void cache_release(BpeTokenizer *m, PieceCache *cache)
{
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++) {
        PieceCache *none = NULL;
        if (atomic_compare_exchange_strong(&m->cache[i], &none, cache)) return;
    }
    piece_cache_close(cache);
}

void bpe_tokenizer_pieces(const Tokenizer *t, int64_t *pieces, int64_t *misses)
{
    BpeTokenizer *m = t->state;
    *pieces = *misses = 0;
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++) {
        PieceCache *cache = m->cache[i];
        if (!cache) continue;
        *pieces += cache->pieces;
        *misses += cache->misses;
    }
}

static void template_add(EncodeState *w, const TemplateIds *ids)
{
    for (int i = 0; i < ids->count && w->ids; i++) w->ids[w->count + i] = ids->id[i];
    w->count += ids->count;
}

/* The ids, or with ids NULL a bound of their number; -1 after fail() */
static int64_t text_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    BpeTokenizer *m = t->state;
    EncodeState   w = { .bpe = m, .ids = ids, .specials = t->parse_special };
    Chars  chars = { (const uint8_t *)text, bytes, 0 };
    Status status = OK;
    template_add(&w, &m->before);
    if (bytes) {
        chars.first = rune_at(chars.text, bytes).bytes;
        if (cache_acquire(m, &w.cache) != OK) return -1;
        status = looks_for_added(&w) ? added_encode(&w, false, chars, normalized_encode)
            : normalized_encode(&w, chars);
        cache_release(m, w.cache);
    }
    template_add(&w, &m->after);
    return status == OK && !w.failed ? w.count : -1;
}

int64_t bpe_tokenizer_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    return text_encode(t, ids, text, bytes);
}

int64_t bpe_tokenizer_count(const Tokenizer *t, const char *text, int64_t bytes)
{
    int64_t count = text_encode(t, NULL, text, bytes);
    return count < 0 ? 0 : count;
}
