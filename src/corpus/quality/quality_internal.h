#ifndef CORPUS_QUALITY_QUALITY_INTERNAL_H
#define CORPUS_QUALITY_QUALITY_INTERNAL_H
/* What the files of quality share: a document read once into counts, and its words as hashes. */
#include <string.h>
#include "corpus/quality/quality_rules.h"

/* An open hash table for one document at a time; count 0: free. It is cleared for as many slots as the document needs. */
typedef struct { uint64_t key; int32_t first, count; } GramSlot;
typedef struct { GramSlot *slot; int64_t room, slots; } GramTable;
Status    gram_table_clear(GramTable *table, int64_t keys);
GramSlot *gram_table_put  (GramTable *table, uint64_t key, int64_t first);      /* counted; first: kept of the first time */

/* Words of languages, of at most eight bytes, which are their own key */
enum { STOP_SLOTS = 64, STOP_BYTES = 8 };
typedef struct { uint64_t key[STOP_SLOTS]; } StopWords;
Status  stop_words_find(StopWords *words, const char *language);                /* BAD_OPTION: none for that language */
int     stop_word_slot (const StopWords *words, const char *text, int64_t bytes);   /* any case; -1: none */

/* Words and phrases of a file, of any case */
typedef struct BadWords BadWords;
Status  bad_words_open (BadWords **words, const char *path);
void    bad_words_close(BadWords *words);
int64_t bad_words_count(const BadWords *words, const char *text, int64_t bytes);

typedef struct { uint64_t hash; int32_t chars; } QualityWord;

/* Counted over a text. Lines: all; filled: not only blanks; full: not empty. Repeats: what stood there before. */
typedef struct {
    int64_t chars, new_lines;
    int64_t words, worded, worded_chars, alphabetic, stops;     /* worded: words with a letter or a digit */
    int64_t hashes, ellipses;
    int64_t lines, bullets, ellipsis_ends;
    int64_t filled, ended, shorts, filled_repeat_chars;
    int64_t full, repeats, repeat_chars;
    int64_t paragraphs, paragraph_repeats, paragraph_repeat_chars;
} QualitySurvey;

/* A bit for each byte of a text, 64 to a word; behind the text all is space. start: not the inner byte of a character */
typedef struct {
    uint64_t *space, *start, *letter, *alnum;
    int64_t   room;
    int64_t   hashes, new_lines;        /* counted on the way */
    bool      dots, ellipses;           /* .. and what begins as U+2026 does may be there */
} CharMasks;
Status  masks_make(CharMasks *masks, const char *text, int64_t bytes);
void    masks_free(CharMasks *masks);
int64_t mask_count(const uint64_t *mask, int64_t begin, int64_t end);

/* As the processor does it, where compilers may use that; they may not by default */
static inline int ones_count(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555u;
    bits  = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

/* The bits from begin on, at most 64 and none from end on */
static inline uint64_t mask_part(const uint64_t *mask, int64_t begin, int64_t end)
{
    int      by   = (int)(begin & 63);
    int64_t  left = end - begin;
    uint64_t bits = mask[begin >> 6] >> by;
    if (by) bits |= mask[(begin >> 6) + 1] << (64 - by);
    return left >= 64 ? bits : bits & (((uint64_t)1 << left) - 1);
}

/* The first bit at or behind `at` that is so; or bytes */
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

struct QualitySpace {
    CharMasks     masks;                    /* of the document */
    QualityWord     *word;                     /* those of the document */
    int64_t   words, words_room;
    GramTable table;
    int32_t  *place;                    /* of words: where an n-gram begins that came before with one word less */
    uint64_t *gram;                     /* and its hash */
    int32_t  *slot;
    int64_t   places_room;
    QualitySurvey    survey;
    bool      surveyed;
};

/* All three want the text's masks. stops_most: no more of them are looked for. survey_count: words alone */
void    survey_count(QualitySurvey *survey, QualitySpace *space, int64_t bytes);
Status  survey_words(QualitySurvey *survey, QualitySpace *space, const StopWords *stops, int stops_most, const char *text, int64_t bytes);
Status  survey_lines(QualitySurvey *survey, QualitySpace *space, const char *text, int64_t bytes);

/* After survey_words: figure[TOP_2 .. GRAM_10] as characters, not shares; NAN where the text has fewer words */
Status  quality_grams(QualitySpace *space, double *figure);

/* sentences: counted line by line until there are so many as are enough */
typedef struct { bool lorem, curly; int64_t sentences, enough; } LinesSeen;
/* text becomes what LINE rules leave of it */
void    quality_lines(const QualityPlan *plan, Buffer *text, QualityVerdict *verdict, LinesSeen *seen);
#endif
