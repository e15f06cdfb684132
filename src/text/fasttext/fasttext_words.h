#ifndef TEXT_FASTTEXT_FASTTEXT_WORDS_H
#define TEXT_FASTTEXT_FASTTEXT_WORDS_H
/* A cache of word vectors: for each word seen, the sum of the input rows of the word and its subwords, which
 * is costly to compute and needed each time the word occurs. Sets have two ways, and the older entry is
 * replaced. A word of up to 23 bytes is its own key; a set is one cache line with both keys, followed by both
 * sums, so a hit with 16 dimensions reads two cache lines. One per thread. */
#include <string.h>
#include "text/fasttext/fasttext_model.h"

enum { FASTTEXT_KEY_BYTES_MAX = 23, FASTTEXT_LABEL_ROWS = -1 };

typedef struct { uint64_t part[3]; } FasttextKey;       /* the word, zeros, and its length in the last byte */
typedef struct {
    FasttextKey key;
    int32_t  rows;                      /* number of rows in the sum; FASTTEXT_LABEL_ROWS: the word is a
                                         * label, not text */
    uint32_t hash;                      /* fasttext_hash of the word */
} FasttextWordSum;
/* sum: [2][fasttext_lanes], zero-padded */
typedef struct { FasttextWordSum entry[2]; float sum[]; } FasttextSet;

typedef struct {
    const FasttextModel *model;         /* borrowed */
    uint8_t  *table;                    /* sets, in mapped memory */
    size_t    bytes, stride;            /* of the table; from one set to the next */
    int       shift;                    /* 64 - log2(sets) */
    FasttextSet *longer;                /* for the last word that was longer than a key */
} FasttextWords;

Status fasttext_words_open (FasttextWords *words, const FasttextModel *model);      /* NO_MEMORY */
void   fasttext_words_close(FasttextWords *words);

/* Floats of a sum: dim, rounded up to a multiple of 16 */
static inline int32_t fasttext_lanes(const FasttextModel *model) { return (model->dim + 15) / 16 * 16; }

extern const uint8_t fasttext_key_mask[48];  /* 24 times 255, 24 times 0 */

/* text: 24 bytes may be read, of which `bytes` <= FASTTEXT_KEY_BYTES_MAX are the word. */
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
    uint64_t set = ((h ^ h >> 32) * 0x9E3779B97F4A7C15u) >> w->shift;
    return (FasttextSet *)(void *)(w->table + set * w->stride);
}

static inline bool fasttext_key_equal(FasttextKey a, FasttextKey b)
{
    return !((a.part[0] ^ b.part[0]) | (a.part[1] ^ b.part[1]) | (a.part[2] ^ b.part[2]));
}

/* Computes the sum of a word that is not in its set and returns its index in the set; -1: the word is `</s>`,
 * which ends a text. */
int fasttext_set_insert(FasttextWords *words, FasttextSet *set, FasttextKey key, const uint8_t *text,
                        int64_t bytes);

/* The sum of the end of a text, the word `</s>` without subwords, as the first entry of a set. */
void fasttext_end_sum(FasttextSet *set, const FasttextModel *model);

/* ---- a queue of rows: each is prefetched when it is queued and added when the queue is full, so that many
 * memory accesses are in flight at once ---- */

enum { FASTTEXT_QUEUE_ROWS = 32 };
typedef struct { int32_t count; int64_t row[FASTTEXT_QUEUE_ROWS]; } FasttextRowQueue;

/* Adds the queued rows to sum, in the order in which they were queued. */
void    fasttext_queue_flush(FasttextRowQueue *rows, float *sum, const FasttextModel *model);
/* Queues the row of a subword or word n-gram by its hash. Returns the number of rows: 1, or 0 where it was
 * pruned. */
int32_t fasttext_ngram_add(FasttextRowQueue *rows, float *sum, const FasttextModel *model, uint64_t hash);
#endif
