#ifndef TEXT_FASTTEXT_WORDS_H
#define TEXT_FASTTEXT_WORDS_H
/* What words are worth: the sum of the rows of a word and its subwords, found once and remembered. Sets of two, the older
 * gives way; a word of up to 31 bytes is its own key, so a hit is a compare and dim additions. One per thread.          */
#include "text/fasttext_model.h"

enum { FASTTEXT_WORD_MOST = 31, FASTTEXT_LABEL_ROWS = -1 };

typedef struct { uint64_t part[4]; } FasttextKey;                    /* the word, zeros, its length in the last byte */
typedef struct {
    FasttextKey key;
    int32_t  rows;                      /* how many were added; FASTTEXT_LABEL_ROWS: the word is a label, not text */
    uint32_t hash;
    float    sum[];                     /* dim, and zeros up to a multiple of 16 */
} FasttextSum;

typedef struct {
    const FasttextModel *model;
    uint8_t  *table;
    size_t    stride;                   /* bytes from one FasttextSum to the next */
    int       shift;                    /* 64 - log2(sets) */
    FasttextSum *longer;                /* the last word that was too long to be kept */
} FasttextWords;

Status fasttext_words_open (FasttextWords *words, const FasttextModel *model);
void   fasttext_words_close(FasttextWords *words);

static inline int32_t fasttext_lanes(const FasttextModel *model) { return (model->dim + 15) / 16 * 16; }

/* text: 32 bytes may be read */
FasttextKey fasttext_key(const uint8_t *text, int64_t bytes);
static inline FasttextSum *fasttext_set(const FasttextWords *w, FasttextKey key)
{
    uint64_t h = key.part[0] * 0x9E3779B97F4A7C15u ^ (key.part[1] + (key.part[1] >> 31)) * 0xC2B2AE3D27D4EB4Fu;
    h ^= (key.part[2] + (key.part[2] >> 29)) * 0x165667B19E3779F9u ^ (key.part[3] + (key.part[3] >> 27)) * 0x27D4EB2F165667C5u;
    return (FasttextSum *)(void *)(w->table + (((h ^ h >> 32) * 0x9E3779B97F4A7C15u) >> w->shift) * 2 * w->stride);
}

/* The word's sum, from its set or made; NULL: it is `</s>`, which ends a text. set NULL: a word too long to be kept. The
 * sum is good until the next call. */
const FasttextSum *fasttext_sum(FasttextWords *words, FasttextSum *set, FasttextKey key, const uint8_t *text, int64_t bytes);

/* What the end of a text is worth */
void fasttext_end_sum(FasttextSum *sum, const FasttextModel *model);

/* ---- rows that wait: fetched into the cache when named, added when there are many ---- */

enum { FASTTEXT_WAIT = 32 };
typedef struct { int32_t count; int64_t row[FASTTEXT_WAIT]; } FasttextRows;

void    fasttext_rows_add (FasttextRows *rows, float *sum, const FasttextModel *model);      /* and none waits any more */
/* A subword's or word n-gram's row, where it was not pruned; says how many rows that is, 0 or 1 */
int32_t fasttext_gram_meet(FasttextRows *rows, float *sum, const FasttextModel *model, uint64_t hash);
#endif
