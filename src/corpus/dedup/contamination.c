/* N-grams of the test sets are kept in a hash table with open addressing and linear probing, keyed by the
 * 64-bit hash of the n-gram. A document is searched with the same rolling hash, one lookup per word.
 * Cutting then walks outwards from each hit to whole words. */
#include "corpus/dedup/contamination.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "corpus/dedup/shingle.h"
#include "corpus/read/source.h"
#include "corpus/quality/charset.h"
#include "text/unicode.h"

/* An n-gram and where it occurred first: numbers of file, text and word. Words count from 1, so word 0 is a
 * free slot. */
typedef struct { uint64_t hash; int64_t text, word; int file; } NGram;

struct Contamination {
    int       words;            /* n */
    int64_t   grams, shorter;   /* distinct n-grams; texts of fewer than n words */
    NGram    *gram;
    uint64_t  slots;            /* a power of two; at most half are used */
};

/* ---- the test sets ---- */

/* The slot of the n-gram, or the free slot where it belongs. Probing ends, since half of the slots are
 * free. */
static NGram *ngram_slot(const Contamination *c, uint64_t hash)
{
    uint64_t at = hash & (c->slots - 1);
    while (c->gram[at].word && c->gram[at].hash != hash) at = (at + 1) & (c->slots - 1);
    return &c->gram[at];
}

static Status ngrams_reserve(Contamination *c)
{
    if ((uint64_t)c->grams * 2 < c->slots) return OK;
    Contamination grown = { .slots = c->slots * 2 + (c->slots == 0) * 1024 };
    grown.gram = calloc(grown.slots, sizeof *grown.gram);
    if (!grown.gram) return fail(NO_MEMORY, "no memory for %" PRId64 " n-grams of test sets", c->grams);
    for (uint64_t i = 0; i < c->slots; i++)
        if (c->gram[i].word) *ngram_slot(&grown, c->gram[i].hash) = c->gram[i];
    free(c->gram);
    c->gram  = grown.gram;
    c->slots = grown.slots;
    return OK;
}

/* Adds the n-grams of one test text that are not in the table. */
static Status ngrams_add(Contamination *c, int file, int64_t number, const Buffer *text)
{
    WordWalk    walk = { .text = text->text, .bytes = text->bytes };
    ShingleRoll roll = shingle_roll(c->words);
    WordSpan    word;
    uint64_t    hash;
    while (word_next(&walk, &word)) {
        if (!shingle_push(&roll, word.hash, &hash)) continue;
        TRY(ngrams_reserve(c));
        NGram *gram = ngram_slot(c, hash);
        if (gram->word) continue;                  /* a hit names the first occurrence */
        *gram = (NGram){ hash, number, roll.seen - c->words + 1, file };
        c->grams++;
    }
    c->shorter += roll.seen < c->words;
    return OK;
}

/* All texts of one test set, normalized as documents are, since the n-grams are compared by hash alone. */
static Status file_add(Contamination *c, NormalizedQuery *n, int file, const ContaminationPlan *plan)
{
    Source  *source;
    Document text;
    bool     more = true;
    TRY(source_open(&source, plan->path[file], plan->key, (TextRules){ 0 }));
    Status status;
    int64_t number = 0;
    while ((status = source_next(source, &text, &more)) == OK && more) {
        status = normalized_query_take(n, text.text, text.bytes);
        if (status == OK) status = ngrams_add(c, file, ++number, &n->text);
        if (status != OK) break;
    }
    source_close(source);
    return status;
}

Status contamination_open(Contamination **out, const ContaminationPlan *plan)
{
    *out = NULL;
    if (plan->words < 1 || plan->words > SHINGLE_WORDS_MOST)
        return fail(BAD_OPTION, "n-grams of %d words cannot be searched: n is from 1 to %d, usually %d",
                    plan->words, SHINGLE_WORDS_MOST, CONTAMINATION_WORDS);
    NormalizedQuery n;
    Contamination *c = calloc(1, sizeof *c);
    if (!c) return fail(NO_MEMORY, "no memory for test sets");
    c->words = plan->words;
    Status status = normalized_query_open(&n);
    if (status == OK) status = ngrams_reserve(c);
    for (int i = 0; i < plan->paths && status == OK; i++) status = file_add(c, &n, i, plan);
    normalized_query_close(&n);
    if (status == OK) *out = c;
    else              contamination_close(c);
    return status;
}

int64_t contamination_short(const Contamination *c) { return c->shorter; }

void contamination_close(Contamination *c)
{
    if (!c) return;
    free(c->gram);
    free(c);
}

/* ---- a document ---- */

Status contamination_find(const Contamination *c, ContaminationFound *found, const char *text, int64_t bytes)
{
    int64_t     from[SHINGLE_WORDS_MOST];              /* ring: where the last n words begin */
    WordWalk    walk = { .text = text, .bytes = bytes };
    ShingleRoll roll = shingle_roll(c->words);
    WordSpan    word;
    uint64_t    hash;
    found->hits = found->pieces = found->cuts = 0;
    for (int64_t seen = 0; word_next(&walk, &word); seen++) {
        from[seen % c->words] = word.from;
        if (!shingle_push(&roll, word.hash, &hash)) continue;
        const NGram *gram = ngram_slot(c, hash);
        if (!gram->word) continue;
        TRY(ARRAY_RESERVE(found->hit, found->hits_capacity, found->hits + 1));
        found->hit[found->hits++] = (ContaminationHit){ from[(seen + 1) % c->words], word.end,
                                                          gram->file, gram->text, gram->word };
    }
    return OK;
}

/* ---- cutting ---- */

/* A continuation byte of UTF-8, 10xxxxxx: characters are counted by the other bytes. */
static bool is_continuation(const char *text, int64_t at) { return ((uint8_t)text[at] & 0xC0) == 0x80; }

static bool is_space_at(const char *text, int64_t at)
{
    return (uint8_t)text[at] < 0x80 && (unicode_row[0][(uint8_t)text[at]] & SPACE);
}

/* Moves `characters` characters back, and on to the space before that word, but not below `least`. */
static int64_t extend_back(const char *text, int64_t at, int64_t characters, int64_t least)
{
    for (; at > least && characters > 0; characters--)
        for (at--; at > least && is_continuation(text, at); ) at--;
    while (at > least && !is_space_at(text, at - 1)) at--;
    return at > least ? at : least;
}

/* Moves `characters` characters forward, and on to the next space. The result is no less than `least`,
 * which is already before a space. */
static int64_t extend_forward(const char *text, int64_t bytes, int64_t at, int64_t characters, int64_t least)
{
    for (; at < bytes && characters > 0; characters--)
        for (at++; at < bytes && is_continuation(text, at); ) at++;
    if (at <= least) return least;
    while (at < bytes && !is_space_at(text, at)) at++;
    return at;
}

static Status piece_keep(ContaminationFound *f, const char *text, int64_t from, int64_t end, int64_t least)
{
    int64_t characters = 0;
    for (int64_t i = from; i < end; i++) characters += !is_continuation(text, i);
    if (from >= end || characters < least) return OK;
    TRY(ARRAY_RESERVE(f->piece, f->pieces_capacity, f->pieces + 1));
    f->piece[f->pieces++] = (ContaminationPiece){ from, end };
    return OK;
}

/* Overlapping cuts become one. The end of the last cut bounds every walk back and forward, so no byte is
 * walked over twice, however long its words are, and time is linear. */
Status contamination_cut(ContaminationFound *f, ContaminationCut cut, const char *text, int64_t bytes)
{
    int64_t end = 0;                                   /* of the last cut */
    f->pieces = f->cuts = 0;
    for (int64_t i = 0; i < f->hits; i++) {
        int64_t from = extend_back(text, f->hit[i].from, cut.side, end);
        if (from > end || !f->cuts) {
            TRY(piece_keep(f, text, end, from, cut.piece));
            f->cuts++;
        }
        end = extend_forward(text, bytes, f->hit[i].end, cut.side, end);
    }
    TRY(piece_keep(f, text, end, bytes, cut.piece));
    if (f->cuts > cut.cuts) f->pieces = 0;
    return OK;
}

void contamination_found_free(ContaminationFound *found)
{
    free(found->hit);
    free(found->piece);
    *found = (ContaminationFound){ 0 };
}
