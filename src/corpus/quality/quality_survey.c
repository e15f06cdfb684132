/* Counts over a text for the rules, from its bit masks: words with hashes, then lines and paragraphs with
 * repetitions. Items with equal 64-bit hashes count as equal. */
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/array.h"
#include "corpus/quality/quality_internal.h"

/* ---- hash table ---- */

Status gram_table_clear(GramTable *t, int64_t keys)
{
    t->slots = 64;
    while (t->slots < 2 * keys) t->slots *= 2;
    if (t->slots > t->capacity) {
        free(t->slot);
        t->slot = malloc((size_t)t->slots * sizeof *t->slot);
        t->capacity = t->slot ? t->slots : 0;
        if (!t->slot)
            return fail(NO_MEMORY, "no memory to check a document of %lld words or lines", (long long)keys);
    }
    memset(t->slot, 0, (size_t)t->slots * sizeof *t->slot);
    return OK;
}

/* The slot of the key, or the free slot where it belongs. Fibonacci hashing, and the high bits mixed in: keys
 * are hashes already, but sums of them are not evenly spread. */
static inline GramSlot *gram_slot(const GramTable *t, uint64_t key)
{
    uint64_t at = key * 0x9E3779B97F4A7C15u, mask = (uint64_t)t->slots - 1;
    for (at ^= at >> 29; t->slot[at & mask].count && t->slot[at & mask].key != key; ) at++;
    return &t->slot[at & mask];
}

const GramSlot *gram_table_find(const GramTable *t, uint64_t key)
{
    const GramSlot *slot = gram_slot(t, key);
    return slot->count ? slot : NULL;
}

GramSlot *gram_table_put(GramTable *t, uint64_t key, int64_t first)
{
    GramSlot *s = gram_slot(t, key);
    if (!s->count) s->key = key, s->first = (int32_t)first;
    s->count++;
    return s;
}

/* ---- words ---- */

/* The part of a word from its first to its last letter or digit, as offsets in the text; empty where it
 * has none. */
typedef struct { int64_t begin, end; } WordCore;

static WordCore word_core(const CharMasks *m, const char *text, int64_t begin, int64_t end)
{
    uint64_t alnum = mask_part(m->alnum, begin, end);
    if (!alnum) return (WordCore){ 0 };
    WordCore core = { begin + __builtin_ctzll(alnum), begin + 64 - __builtin_clzll(alnum) };
    while (core.end < end && (text[core.end] & 0xC0) == 0x80) core.end++;
    return core;
}

/* The bit of a stop word among all; 0: it is none. A word above 64 bytes is none, so one mask word covers
 * it. */
static uint64_t stop_bit(const GramTable *stops, const CharMasks *m, const char *text, int64_t begin,
                         int64_t end)
{
    if (end - begin > 64) return 0;
    WordCore core = word_core(m, text, begin, end);
    if (core.end == core.begin || core.end - core.begin > STOP_BYTES) return 0;
    int number = stop_word_number(stops, text + core.begin, core.end - core.begin);
    return number < 0 ? 0 : (uint64_t)1 << number;
}

/* A word may be longer than 64 bytes, hence the loop. */
static void word_survey(QualitySurvey *s, const CharMasks *m, int64_t begin, int64_t end, int64_t chars)
{
    bool letter = false, alnum = false;
    for (int64_t at = begin; at < end; at += 64) {
        letter |= mask_part(m->letter, at, end) != 0;
        alnum |= mask_part(m->alnum, at, end) != 0;
    }
    s->alphabetic   += letter;
    s->alnum_words       += alnum;
    s->alnum_word_chars += alnum ? chars : 0;
}

static int64_t occurrences(const char *text, int64_t bytes, const char *part)
{
    int64_t count = 0;
    size_t  length = strlen(part);
    for (const char *at = text, *stop = text + bytes; (at = memmem(at, (size_t)(stop - at), part, length));
         at += length)
        count++;
    return count;
}

Status survey_words(QualitySurvey *s, QualitySpace *space, const GramTable *stops, int stops_most,
                    const char *text, int64_t bytes)
{
    const CharMasks *m = &space->masks;
    uint64_t seen = 0;
    space->words = 0;
    for (int64_t begin, end = 0; (begin = mask_next(m->space, end, bytes, false)) < bytes; ) {
        end = mask_next(m->space, begin, bytes, true);
        TRY(ARRAY_RESERVE(space->word, space->words_capacity, space->words + 1));
        int64_t chars = mask_count(m->start, begin, end);
        space->word[space->words++] = (QualityWord){ XXH3_64bits(text + begin, (size_t)(end - begin)),
                                                     (int32_t)chars };
        word_survey(s, m, begin, end, chars);
        if (!stops) continue;
        seen |= stop_bit(stops, m, text, begin, end);
        if (bits_set(seen) >= stops_most) stops = NULL;
    }
    s->words    = space->words;
    s->stops    = bits_set(seen);
    s->hashes   = m->hashes;
    s->ellipses = (m->dots ? occurrences(text, bytes, "...") : 0) +
                  (m->ellipses ? occurrences(text, bytes, "\u2026") : 0);
    return OK;
}

/* A word begins where a byte is no white space and the one before it is. */
void survey_count(QualitySurvey *s, QualitySpace *space, int64_t bytes)
{
    const uint64_t *blank = space->masks.space;
    uint64_t before = 1;
    for (int64_t i = 0; i * 64 < bytes; i++) {    /* all is white space after the text */
        s->words += bits_set(~blank[i] & (blank[i] << 1 | before));
        before = blank[i] >> 63;
    }
}

/* ---- lines ---- */

/* The sentence-ending punctuation of FineWeb's code, which includes full-width and doubled marks. */
static bool ends_sentence(const char *text, int64_t bytes)
{
    static const char *const wide[] = { "\u203C", "\u203D", "\u2047", "\u2048", "\u2049",
                                       "\u3002", "\uFF01", "\uFF0E", "\uFF1F" };
    if (!bytes) return false;
    char last = text[bytes - 1];
    for (size_t i = 0; (last & 0x80) && i < COUNT(wide); i++)
        if (has_ending(text, bytes, wide[i])) return true;
    return last == '.' || last == '!' || last == '?';
}

enum { SHORT_LINE = 30 };               /* characters; the limit of FineWeb */

/* Each published rule has its own idea of a line: Gopher's bullets and ellipses look at lines without the
 * white space around them, its repetitions at lines that are not empty, FineWeb at lines that are not
 * blank. */
static void line_survey(QualitySurvey *s, QualitySpace *space, const char *text, int64_t bytes, int64_t chars,
                        uint64_t hash)
{
    int64_t from = 0, to = bytes;
    while (from < to && is_blank(text[from]))   from++;
    while (to > from && is_blank(text[to - 1])) to--;
    bool repeated = bytes && gram_table_put(&space->table, hash, 0)->count > 1;
    s->bullets += has_beginning(text + from, to - from, "\u2022") ||
                  has_beginning(text + from, to - from, "-");
    s->ellipsis_ends += has_ending(text, to, "...") || has_ending(text, to, "\u2026");
    s->nonempty      += bytes > 0;
    s->repeats       += repeated;
    s->repeat_chars  += repeated ? chars : 0;
    if (from == to) return;
    s->nonblank++;
    s->punctuated +=  ends_sentence(text, bytes);
    s->short_lines += chars <= SHORT_LINE;
    s->nonblank_repeat_chars += repeated ? chars : 0;
}

typedef struct { uint64_t hash; int64_t chars, lines; } ParagraphHash;

/* At an empty line or the end of the text. Hashes of paragraphs get a constant of their own, so that a
 * paragraph of one line is not a repetition of that line. */
static void paragraph_end(QualitySurvey *s, QualitySpace *space, ParagraphHash *p)
{
    if (p->lines) {
        int64_t chars = p->chars + p->lines - 1;
        bool repeated = gram_table_put(&space->table, p->hash ^ 0x5851F42D4C957F2Du, 0)->count > 1;
        s->paragraphs++;
        s->paragraph_repeats      += repeated;
        s->paragraph_repeat_chars += repeated ? chars : 0;
    }
    *p = (ParagraphHash){ 0 };
}

Status survey_lines(QualitySurvey *s, QualitySpace *space, const char *text, int64_t bytes)
{
    ParagraphHash p = { 0 };
    /* enough slots: a paragraph needs the one of the empty line that ends it */
    s->new_lines = space->masks.new_lines;
    TRY(gram_table_clear(&space->table, s->new_lines + 2));
    s->chars = s->new_lines;
    for (int64_t at = 0, end; at < bytes; at = end + 1) {
        const char *found = memchr(text + at, '\n', (size_t)(bytes - at));
        end = found ? found - text : bytes;
        int64_t  chars = mask_count(space->masks.start, at, end);
        uint64_t hash  = XXH3_64bits(text + at, (size_t)(end - at));
        s->lines++;
        s->chars += chars;
        line_survey(s, space, text + at, end - at, chars, hash);
        if (end == at) paragraph_end(s, space, &p);
        else p = (ParagraphHash){ p.hash * 0x9E3779B97F4A7C15u + hash, p.chars + chars, p.lines + 1 };
    }
    paragraph_end(s, space, &p);
    return OK;
}
