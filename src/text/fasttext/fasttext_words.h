#ifndef TEXT_FASTTEXT_FASTTEXT_WORDS_H
#define TEXT_FASTTEXT_FASTTEXT_WORDS_H
/* What words are worth: the sum of the rows of a word and its subwords, found once and remembered. Sets of two, the older
 * gives way. A word of up to 23 bytes is its own key, and a set is the line of its two keys and then the two sums: so a hit
 * of 16 dimensions is two lines of cache read, and additions. One per thread.                                           */
#include <string.h>
#include "text/fasttext/fasttext_model.h"

enum { FASTTEXT_KEY_BYTES_MAX = 23, FASTTEXT_LABEL_ROWS = -1 };

typedef struct { uint64_t part[3]; } FasttextKey;                    /* the word, zeros, its length in the last byte */
typedef struct {
    FasttextKey key;
    int32_t  rows;                      /* how many were added; FASTTEXT_LABEL_ROWS: the word is a label, not text */
    uint32_t hash;
} FasttextWordSum;
typedef struct { FasttextWordSum entry[2]; float sum[]; } FasttextSet; /* sums: dim each, and zeros up to a multiple of 16 */

typedef struct {
    const FasttextModel *model;
    uint8_t  *table;
    size_t    bytes, stride;            /* of the table; from one set to the next */
    int       shift;                    /* 64 - log2(sets) */
    FasttextSet *longer;                /* of the last word that was too long to be kept */
} FasttextWords;

Status fasttext_words_open (FasttextWords *words, const FasttextModel *model);
void   fasttext_words_close(FasttextWords *words);

static inline int32_t fasttext_lanes(const FasttextModel *model) { return (model->dim + 15) / 16 * 16; }

extern const uint8_t fasttext_key_mask[48];  /* 24 times 255, 24 times 0 */

/* text: 24 bytes may be read */
static inline FasttextKey fasttext_key(const uint8_t *text, int64_t bytes)
{
    FasttextKey key, mask;
    memcpy(&key, text, sizeof key);
    memcpy(&mask, fasttext_key_mask + 24 - bytes, sizeof mask);
    for (int i = 0; i < 3; i++) key.part[i] &= mask.part[i];
    key.part[2] |= (uint64_t)bytes << 56;
    return key;
}

static inline FasttextSet *fasttext_set(const FasttextWords *w, FasttextKey key)
{
    uint64_t h = key.part[0] * 0x9E3779B97F4A7C15u ^ (key.part[1] + (key.part[1] >> 31)) * 0xC2B2AE3D27D4EB4Fu
               ^ (key.part[2] + (key.part[2] >> 29)) * 0x165667B19E3779F9u;
    return (FasttextSet *)(void *)(w->table + (((h ^ h >> 32) * 0x9E3779B97F4A7C15u) >> w->shift) * w->stride);
}

static inline bool fasttext_key_equal(FasttextKey a, FasttextKey b)
{
    return !((a.part[0] ^ b.part[0]) | (a.part[1] ^ b.part[1]) | (a.part[2] ^ b.part[2]));
}

/* The place in its set of a word that is not there, made; -1: it is `</s>`, which ends a text */
int fasttext_set_insert(FasttextWords *words, FasttextSet *set, FasttextKey key, const uint8_t *text, int64_t bytes);

/* What the end of a text is worth */
void fasttext_end_sum(FasttextSet *set, const FasttextModel *model);

/* ---- rows that wait: fetched into the cache when named, added when there are many ---- */

enum { FASTTEXT_QUEUE_ROWS = 32 };
typedef struct { int32_t count; int64_t row[FASTTEXT_QUEUE_ROWS]; } FasttextRowQueue;

void    fasttext_queue_flush (FasttextRowQueue *rows, float *sum, const FasttextModel *model);      /* and none waits any more */
/* A subword's or word n-gram's row, where it was not pruned; says how many rows that is, 0 or 1 */
int32_t fasttext_ngram_add(FasttextRowQueue *rows, float *sum, const FasttextModel *model, uint64_t hash);
#endif
