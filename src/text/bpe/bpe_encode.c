/* Text to ids: cut into pieces, each piece looked up among the words known, or merged. */
#include <inttypes.h>
#include <string.h>
#include "text/pretokenize/letters.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/pretokenize/pretoken_gpt2.h"
#include "text/unicode.h"

typedef struct { const BpeTokenizer *bpe; PieceCache *words; int32_t *ids; int64_t count; bool specials, begun; int step; } Work;

/* A character that is no token: its bytes, else the unknown token, once for a row of them */
static int64_t spell(const BpeTokenizer *m, int32_t *ids, int64_t count, const uint8_t *p, int bytes)
{
    bool good = m->byte_fallback;
    for (int i = 0; i < bytes; i++) good = good && m->byte_id[p[i]] >= 0;
    for (int i = 0; i < bytes && good; i++) ids[count++] = m->byte_id[p[i]];
    if (good || m->unknown < 0 || (m->fuse_unknown && count && ids[count - 1] == m->unknown)) return count;
    ids[count++] = m->unknown;
    return count;
}

static int64_t symbols(const BpeTokenizer *m, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    if (m->byte_level) {
        for (; count < bytes; count++) ids[count] = m->byte_id[text[count]];
        return count;
    }
    for (int64_t at = 0; at < bytes; ) {
        Rune    r  = rune_at(text + at, bytes - at);
        int32_t id = r.point == RUNE_BROKEN ? VOCAB_NONE : model_find(m, text + at, r.bytes);
        if (id >= 0) ids[count++] = id;
        else         count = spell(m, ids, count, text + at, r.bytes);
        at += r.bytes;
    }
    return count;
}

static int64_t piece_make(const BpeTokenizer *m, PieceCache *words, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    int32_t id = m->whole ? model_find(m, text, bytes) : VOCAB_NONE;
    if (id >= 0) {
        *ids = id;
        return 1;
    }
    return bpe_merge(&m->merges, ids, symbols(m, ids, text, bytes), &words->space);
}

typedef struct { PieceKey key; SmallPiece *set; const uint8_t *text; } PieceLookup;      /* set NULL: longer than a small word */

static inline PieceLookup piece_small(const PieceCache *w, const uint8_t *text, int64_t bytes)      /* 16 bytes may be read */
{
    PieceKey key = piece_key(text, bytes);
    return (PieceLookup){ key, piece_cache_set(w, key), text };
}

/* Beyond the first look, by which most are known. ids has room for PIECE_IDS_ROOM more than there are bytes. */
static int64_t small_encode(Work *w, const PieceLookup *piece, int64_t bytes, int32_t *ids)
{
    PieceCache *words = w->words;
    const SmallPiece *word = piece_cache_find_again(piece->set, piece->key);
    if (word) return piece_ids(words, word, ids);
    int64_t known = bytes > (words->narrow ? PIECE_IDS : PIECE_IDS_WIDE) ? piece_cache_find_large(words, piece->text, bytes, ids) : 0;
    if (known) return known;
    words->misses++;
    known = piece_make(w->bpe, words, ids, piece->text, bytes);
    memset(ids + known, 0, PIECE_IDS_ROOM * sizeof *ids);
    if (!piece_cache_keep(words, piece->set, piece->key, ids, known)) piece_cache_keep_large(words, piece->text, bytes, ids, known);
    return known;
}

static int64_t large_encode(Work *w, const uint8_t *text, int64_t bytes, int32_t *ids)
{
    int64_t known = bytes <= PIECE_LARGE ? piece_cache_find_large(w->words, text, bytes, ids) : 0;
    if (known) return known;
    w->words->misses++;
    known = piece_make(w->bpe, w->words, ids, text, bytes);
    if (known > 0) piece_cache_keep_large(w->words, text, bytes, ids, known);
    return known;
}

/* A piece wherever it stands, known or not */
static Status piece_encode(Work *w, const uint8_t *text, int64_t bytes)
{
    int32_t *ids = w->ids + w->count, made[PIECE_SMALL + PIECE_IDS_ROOM];
    uint8_t  raw[16] = { 0 };
    int64_t  count;
    if (bytes <= PIECE_SMALL) {
        memcpy(raw, text, (size_t)bytes);
        PieceLookup piece = piece_small(w->words, raw, bytes);
        const SmallPiece *word = piece_cache_find(piece.set, piece.key);
        count = word ? piece_ids(w->words, word, made) : small_encode(w, &piece, bytes, made);
        memcpy(ids, made, (size_t)count * sizeof *ids);
    } else {
        count = large_encode(w, text, bytes, ids);
        if (count < 0) return fail(NO_MEMORY, "no memory to merge a piece of %" PRId64 " bytes", bytes);
    }
    w->count += count;
    w->words->pieces++;
    return OK;
}

/* Pieces cut, each with what may be known of it on its way from memory; one behind them says where the last one ends */
enum { ROW = 128, UNKNOWN_AHEAD = 4 };
typedef struct { PieceLookup piece[ROW + STARTS_BLOCK + 1]; int count; } PieceRow;

static inline void row_add(const PieceCache *w, PieceLookup *piece, const uint8_t *text, int64_t bytes)
{
    *piece = bytes <= PIECE_SMALL ? piece_small(w, text, bytes) : (PieceLookup){ .text = text };
    __builtin_prefetch(piece->set);
}

/* The piece at p: a word whose end is seen in 16 bytes, else what pretoken_next says */
static inline int64_t piece_bytes(const Work *w, PretokenKind kind, const uint8_t *p, const uint8_t *end)
{
    int      led = w->bpe->lead[*p];
    uint32_t run = (uint32_t)__builtin_ctz(~(letters_of(p) >> led));
    int64_t  n   = led + run;
    return !run || n >= PIECE_SMALL || p[n] >= 0x80 || !pretoken_takes_words(kind) ? pretoken_next(kind, p, end - p) : n;
}

/* The pieces of a block whose starts are bits; where the last one begins, which is the next block's */
static inline const uint8_t *block_add(const PieceCache *w, PieceRow *row, const uint8_t *block, uint64_t starts)
{
    const uint8_t *p = block;
    PieceLookup *piece = row->piece + row->count;
    for (starts &= ~1ull; starts; starts &= starts - 1) {
        const uint8_t *next = block + __builtin_ctzll(starts);
        row_add(w, piece++, p, next - p);
        p = next;
    }
    row->count = (int)(piece - row->piece);
    return p;
}

/* Cuts from p on as long as STARTS_READ bytes are left; where it came to */
static const uint8_t *row_fill(const Work *w, PieceRow *row, PretokenKind kind, const uint8_t *p, const uint8_t *end)
{
    row->count = 0;
    while (row->count < ROW && end - p >= STARTS_READ) {
        const uint8_t *from = p;
        if (kind == PRETOKEN_GPT2) p = block_add(w->words, row, p, pretoken_gpt2_starts(p, end - p));
        if (p > from) continue;
        p += piece_bytes(w, kind, p, end);
        row_add(w->words, &row->piece[row->count++], from, p - from);
    }
    row->piece[row->count].text = p;
    return p;
}

/* The hot loop: a row of pieces is cut before the first is looked up, so that their lines of memory come together. While
 * STARTS_READ bytes of text are left there is room for as many ids, so piece_ids may write more than count. */
static Status words_encode(Work *w, PretokenKind kind, const uint8_t *text, int64_t bytes)
{
    const uint8_t *p = text, *end = text + bytes;
    PieceRow row;
    while (end - p >= STARTS_READ) {
        p = row_fill(w, &row, kind, p, end);
        w->words->pieces += row.count;
        for (int i = 0; i < row.count; i++) {
            const PieceLookup     *piece = &row.piece[i];
            const SmallPiece *word  = piece->set ? piece_cache_find(piece->set, piece->key) : NULL;
            if (word) {
                w->count += piece_ids(w->words, word, w->ids + w->count);
                continue;
            }
            int later = i + UNKNOWN_AHEAD < row.count ? i + UNKNOWN_AHEAD : i;      /* strange words come together */
            if (row.piece[later].set) __builtin_prefetch(row.piece[later].set + 2);
            int64_t length = piece[1].text - piece->text;
            if (piece->set) w->count += small_encode(w, piece, length, w->ids + w->count);
            else            TRY(piece_encode(w, piece->text, length));
            w->words->pieces -= !piece->set;        /* which piece_encode counted */
        }
    }
    while (p < end) {
        int64_t n = pretoken_next(kind, p, end - p);
        TRY(piece_encode(w, p, n));
        p += n;
    }
    return OK;
}

static Status cut_encode(void *context, const uint8_t *text, int64_t bytes)
{
    Work        *w = context;
    const Pretokenizer   *cut = &w->bpe->pretokenizer;
    if (w->step == cut->steps) return piece_encode(w, text, bytes);
    const PretokenizerStep *step = &cut->step[w->step++];
    bool   last   = w->step == cut->steps;
    Status status = last && step->kind == SPLIT_SCAN ? words_encode(w, step->scan, text, bytes)
                                                   : pretokenizer_step(step, &w->words->regex, text, bytes, cut_encode, w);
    w->step--;
    return status;
}

typedef Status Between(Work *w, Chars text);

/* What lies between added tokens goes on, the tokens are ids already */
static Status added_encode(Work *w, bool normalized, Chars text, Between *between)
{
    AddedTokensKind  kind  = { normalized, w->specials };
    AddedMatch match = { 0 };
    const AddedToken *token;
    for (int64_t at = 0; ; at = match.to, w->begun = true) {
        token = added_next(&w->bpe->added, kind, text.text, text.bytes, &match);
        int64_t end = token ? match.from : text.bytes;
        if (end > at) TRY(between(w, (Chars){ text.text + at, end - at }));
        if (!token) return OK;
        w->ids[w->count++] = token->id;
    }
}

static Status spaced_encode(Work *w, Chars text)
{
    TRY(normalizer_apply(&w->bpe->spaced, &text, !w->begun, w->words));
    return cut_encode(w, text.text, text.bytes);
}

static bool looks_for_added(const Work *w) { return w->bpe->added.count > (w->specials ? 0 : w->bpe->added.specials); }

static Status normal_encode(Work *w, Chars text)
{
    if (w->bpe->normalizer.steps) TRY(normalizer_apply(&w->bpe->normalizer, &text, !w->begun, w->words));
    return looks_for_added(w) ? added_encode(w, true, text, spaced_encode) : spaced_encode(w, text);
}

/* Threads encode at the same time, each with words of its own. */
static Status words_take(BpeTokenizer *m, PieceCache **words)
{
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++)
        if ((*words = atomic_exchange(&m->words[i], NULL))) return OK;
    return piece_cache_open(words, m->vocabulary);
}

static void words_give(BpeTokenizer *m, PieceCache *words)
{
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++) {
        PieceCache *none = NULL;
        if (atomic_compare_exchange_strong(&m->words[i], &none, words)) return;
    }
    piece_cache_close(words);
}

void bpe_tokenizer_pieces(const Tokenizer *t, int64_t *pieces, int64_t *misses)
{
    BpeTokenizer *m = t->state;
    *pieces = *misses = 0;
    for (int i = 0; i < BPE_TOKENIZER_THREADS; i++) {
        PieceCache *words = m->words[i];
        if (!words) continue;
        *pieces += words->pieces;
        *misses += words->misses;
    }
}

static void template_put(Work *w, const TemplateIds *ids)
{
    for (int i = 0; i < ids->count; i++) w->ids[w->count++] = ids->id[i];
}

int64_t bpe_tokenizer_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    BpeTokenizer *m = t->state;
    Work   w = { .bpe = m, .ids = ids, .specials = t->parse_special };
    Chars  chars = { (const uint8_t *)text, bytes };
    Status status = OK;
    template_put(&w, &m->before);
    if (bytes) {
        if (words_take(m, &w.words) != OK) return -1;
        status = looks_for_added(&w) ? added_encode(&w, false, chars, normal_encode) : normal_encode(&w, chars);
        words_give(m, w.words);
    }
    template_put(&w, &m->after);
    return status == OK ? w.count : -1;
}
