#ifndef CORPUS_QUALITY_QUALITY_INTERNAL_H
#define CORPUS_QUALITY_QUALITY_INTERNAL_H
/* What the files of the quality rules share. A document is scanned once into bit masks of its characters,
 * from these into counts (QualitySurvey) and hashes of its words, on which the n-gram rules work. */
#include <string.h>
#include "base/words.h"
#include "corpus/quality/quality.h"

/* A hash table with open addressing and linear probing, for one document at a time; a slot with count 0 is
 * free. Only as many slots as the document needs are cleared, at most half of them are used, so a short
 * document after a long one costs little. */
typedef struct { uint64_t key; int32_t first, count; } GramSlot;
typedef struct { GramSlot *slot; int64_t capacity, slots; } GramTable;
/* Empties the table for at most `keys` different keys. */
Status    gram_table_clear(GramTable *table, int64_t keys);
/* Counts the key and returns its slot; `first` is stored when the key is new. Pointers stay valid until
 * the next clear. */
GramSlot *gram_table_put  (GramTable *table, uint64_t key, int64_t first);
const GramSlot *gram_table_find(const GramTable *table, uint64_t key);    /* NULL: it is not there */

/* Stop words have at most eight bytes, so that a word is its own key; `first` numbers them from 0. */
enum { STOP_WORDS_MOST = 64, STOP_BYTES = 8 };
/* language: as in languages.def; of several, separated by commas, the first. BAD_OPTION: no stop words are
 * known for it. */
Status  stop_words_find (GramTable *words, const char *language);
/* The number of a word in any case; -1: no stop word. */
int     stop_word_number(const GramTable *words, const char *text, int64_t bytes);

/* Space, and the control characters of ASCII that C calls white space. */
static inline bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The words and phrases of a file of bad words; case and punctuation between words make no difference. */
typedef struct BadWords BadWords;
Status  bad_words_open (BadWords **words, const char *path);
void    bad_words_close(BadWords *words);
int64_t bad_words_count(const BadWords *words, const char *text, int64_t bytes);

/* XXH3 of its bytes; its length in characters. */
typedef struct { uint64_t hash; int32_t chars; } QualityWord;

/* Counts over a text, as the published rules define them: Gopher's rules differ from FineWeb's in which
 * lines they count, so there are three numbers of lines. *_chars are characters of the items counted in
 * the field before it. A repetition is an item that equals an earlier one. */
typedef struct {
    int64_t chars, new_lines;
    /* alnum_words: with a letter or a digit; alphabetic: with a letter; stops: different stop words */
    int64_t words, alnum_words, alnum_word_chars, alphabetic, stops;
    int64_t hashes, ellipses;
    int64_t lines, bullets, ellipsis_ends;                      /* of all lines */
    /* of lines with more than white space */
    int64_t nonblank, punctuated, short_lines, nonblank_repeat_chars;
    int64_t nonempty, repeats, repeat_chars;                    /* of lines with at least one byte */
    int64_t paragraphs, paragraph_repeats, paragraph_repeat_chars;
} QualitySurvey;

/* One bit for each byte of a text, 64 in a word: is it part of white space, of a letter, of a letter or
 * digit; `start` is set on the first byte of each character. After the end of the text all bits say white
 * space, so that the last word ends there. */
typedef struct {
    uint64_t *space, *start, *letter, *alnum;
    int64_t   capacity;                 /* words of each mask */
    int64_t   hashes, new_lines;        /* numbers of # and of line ends */
    /* two dots in sequence, or the first byte of U+2026, occur; false: neither does */
    bool      dots, ellipses;
} CharMasks;
/* One allocation holds all four masks and is reused for later texts. */
Status  masks_make(CharMasks *masks, const char *text, int64_t bytes);
void    masks_free(CharMasks *masks);
/* The number of bits set in [begin, end). */
int64_t mask_count(const uint64_t *mask, int64_t begin, int64_t end);

/* The number of bits set. Compilers recognise the pattern, but without -mpopcnt, which older processors
 * lack, they call a function for the builtin; this is faster. */
static inline int bits_set(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555u;
    bits  = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

/* The bits from `begin` on as one word: at most 64 of them, and 0 from `end` on. Reads one word past the
 * last, which masks_make provides. */
static inline uint64_t mask_part(const uint64_t *mask, int64_t begin, int64_t end)
{
    int      by   = (int)(begin & 63);
    int64_t  left = end - begin;
    uint64_t bits = mask[begin >> 6] >> by;
    if (by) bits |= mask[(begin >> 6) + 1] << (64 - by);
    return left >= 64 ? bits : bits & (((uint64_t)1 << left) - 1);
}

/* The position of the first bit from `at` on that equals `set`, or `bytes`. */
static inline int64_t mask_next(const uint64_t *mask, int64_t at, int64_t bytes, bool set)
{
    for (; at < bytes; at += 64 - (at & 63)) {
        uint64_t bits = (set ? mask[at >> 6] : ~mask[at >> 6]) >> (at & 63);
        if (!bits) continue;
        at += __builtin_ctzll(bits);
        return at < bytes ? at : bytes;
    }
    return bytes;
}

/* What quality_lines found on the way. sentences: counted line by line until there are `enough`. */
typedef struct { bool lorem, curly; int64_t sentences, enough; } LinesSeen;

/* From what figures are computed: `seen`, a survey that only counts words, one that also classifies and
 * hashes them, `gram_chars`, `bad_words`. */
typedef enum { FACTS_LINES, FACTS_COUNTS, FACTS_WORDS, FACTS_GRAMS, FACTS_BAD_WORDS } QualityFacts;
enum { GRAM_MOST = 10 };                /* words of the longest n-gram */

struct QualitySpace {
    CharMasks     masks;
    QualityWord  *word;
    int64_t       words, words_capacity;
    GramTable     table;                /* of lines and paragraphs, later of n-grams */
    /* Of each candidate n-gram (quality_grams.c): the number of its first word, its hash, its slot in the
     * table. */
    int32_t      *position;
    uint64_t     *gram;
    int32_t      *slot;
    int64_t       positions_capacity;
    unsigned      made;                 /* a bit for each of the facts that are those of the current text */
    QualitySurvey survey;
    LinesSeen     seen;
    int64_t       bad_words;
    double        gram_chars[GRAM_MOST + 1];    /* by the n-gram's words; NAN: the text has fewer */
};

/* All three need the masks of the text in `space`. survey_count only counts words. survey_words also
 * hashes and classifies them; after `stops_most` different stop words it stops looking for them, as a
 * verdict needs no more. survey_lines counts lines and paragraphs. */
void    survey_count(QualitySurvey *survey, QualitySpace *space, int64_t bytes);
Status survey_words(QualitySurvey *survey, QualitySpace *space, const GramTable *stops, int stops_most,
                    const char *text, int64_t bytes);
Status  survey_lines(QualitySurvey *survey, QualitySpace *space, const char *text, int64_t bytes);

/* Needs survey_words. Sets space->gram_chars. */
Status  quality_grams(QualitySpace *space);

/* Applies the LINE rules: text becomes what they leave, lines removed are counted in verdict->lines. */
void    quality_lines(const QualityPlan *plan, Buffer *text, QualityVerdict *verdict, LinesSeen *seen);
#endif
