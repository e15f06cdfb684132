#ifndef TEXT_FASTTEXT_FASTTEXT_MODEL_H
#define TEXT_FASTTEXT_FASTTEXT_MODEL_H
/* A fastText model file as it is read: nothing in it is believed. Sizes fit the file and each other, ids
 * stay in range, every number is finite and small enough that no sum of them overflows. Words and matrices
 * stay in the mapped file, at any address: floats there are read by memcpy. Memory besides the mapped file
 * is at most 10 times its size: a word of 10 bytes has an entry of 24 and up to 4 slots of 16, a kept
 * bucket of 8 bytes up to 4 slots of 8. A model of which more than 1,000 words or buckets follow each
 * other in a table is refused, so that reading is linear. */
#include <stdbool.h>
#include <string.h>
#include "base/file.h"

enum { FASTTEXT_HIERARCHICAL = 1, FASTTEXT_NEGATIVE, FASTTEXT_SOFTMAX, FASTTEXT_ONE_VS_ALL };
enum { FASTTEXT_DIM_MAX = 4096, FASTTEXT_NGRAM_MAX = 64, FASTTEXT_CENTROIDS = 256 };

typedef struct { const char *text; int64_t count; uint32_t bytes; bool label; } FasttextWord;   /* text ends in a zero */
typedef struct { const char *text; uint32_t hash; int32_t id; } FasttextSlot;    /* of a word's hash table; text NULL: empty */
typedef struct { int32_t from, to; } FasttextKeptBucket;                   /* a bucket that was not pruned, and its new number */

typedef struct {
    int64_t rows;
    int32_t dim;
    const uint8_t *dense;               /* rows x dim floats; NULL: quantised */
    const uint8_t *code, *norm;         /* rows x parts; a byte a row, NULL where there are no norms */
    const uint8_t *centroid, *norm_centroid;
    int32_t parts, width, last;         /* dims of a part, and of the last one */
} FasttextMatrix;

typedef struct {
    FileMap  file;
    int32_t  dim, word_ngram, loss, bucket, ngram_min, ngram_max;     /* characters of a subword; gram_most 0: none */
    int32_t  words, labels;             /* labels stand behind the words */
    FasttextWord *word;
    FasttextSlot *slot;
    uint32_t slots;                     /* a power of two */
    bool     pruned;
    FasttextKeptBucket *kept;                 /* hash table; from -1: empty */
    uint32_t kept_slots;                /* a power of two; 0: everything was pruned */
    FasttextMatrix input, output;
} FasttextModel;

Status fasttext_model_open (FasttextModel *model, const char *path);
void   fasttext_model_close(FasttextModel *model);

/* fastText's own hash: bytes above 127 count as negative characters, and so flip all upper bits */
#define FASTTEXT_HASH_START 2166136261u
static inline uint32_t fasttext_hash_step(uint32_t hash, uint8_t byte)
{
    return (hash ^ (uint32_t)(int8_t)byte) * 16777619u;
}
static inline uint32_t fasttext_hash(const uint8_t *text, int64_t bytes)
{
    uint32_t hash = FASTTEXT_HASH_START;
    for (int64_t i = 0; i < bytes; i++) hash = fasttext_hash_step(hash, text[i]);
    return hash;
}

int32_t fasttext_word_find(const FasttextModel *model, const uint8_t *text, int64_t bytes, uint32_t hash);   /* -1: unknown */
void    fasttext_word_prefetch(const FasttextModel *model, uint32_t hash);            /* soon to be looked for */
int32_t fasttext_bucket_find(const FasttextModel *model, int32_t bucket);                                    /* -1: pruned */

/* Most models have 16 dimensions, or some sixteens. from: any address, as floats of the file have */
typedef float FasttextFloat4 __attribute__((vector_size(16), aligned(1), may_alias));
static inline void fasttext_add_16(float *sum, const void *from)
{
    FasttextFloat4 *to = (FasttextFloat4 *)sum;
    const FasttextFloat4 *more = from;
    to[0] += more[0], to[1] += more[1], to[2] += more[2], to[3] += more[3];
}

/* sum += each of the rows, over dim floats */
void fasttext_rows_sum(float *sum, const FasttextMatrix *matrix, const int64_t *row, int32_t rows);
#endif
