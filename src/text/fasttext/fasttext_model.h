#ifndef TEXT_FASTTEXT_FASTTEXT_MODEL_H
#define TEXT_FASTTEXT_FASTTEXT_MODEL_H
/* A fastText model file (.bin, .ftz) as it is read, without trusting it: sizes fit the file and each other,
 * ids are in range, every number is finite and small enough that no sum of them overflows. Words and matrices
 * stay in the mapped file, where floats have any alignment and are read by memcpy. Memory besides the mapped
 * file is at most 10 times its size: a word of at least 10 bytes has an entry of 24 and up to 4 hash slots of
 * 16, a kept bucket of 8 bytes up to 4 slots of 8. A model with a run of more than 1,000 occupied slots in a
 * hash table is refused, so reading takes linear time. */
#include <stdbool.h>
#include <string.h>
#include "base/file.h"

/* fastText's losses, by its own numbers: hierarchical softmax, negative sampling, softmax, one against
 * all. */
enum { FASTTEXT_HIERARCHICAL = 1, FASTTEXT_NEGATIVE, FASTTEXT_SOFTMAX, FASTTEXT_ONE_VS_ALL };
enum { FASTTEXT_DIM_MAX = 4096, FASTTEXT_NGRAM_MAX = 64, FASTTEXT_CENTROIDS = 256 };

/* text: zero-terminated */
typedef struct { const char *text; int64_t count; uint32_t bytes; bool label; } FasttextWord;
/* of the words' hash table; text NULL: empty */
typedef struct { const char *text; uint32_t hash; int32_t id; } FasttextSlot;
typedef struct { int32_t from, to; } FasttextKeptBucket;        /* a bucket that was not pruned, and its
                                                                 * row; from -1: empty */

/* A matrix of rows x dim, dense or product-quantized. A row of `parts` codes is the concatenation of one
 * centroid for each part, times the row's norm. All pointers are into the file. */
typedef struct {
    int64_t rows;
    int32_t dim;
    const uint8_t *dense;               /* [rows][dim] floats; NULL: quantized */
    const uint8_t *code, *norm;         /* [rows][parts] and [rows] centroid numbers; norm NULL: no norms */
    const uint8_t *centroid, *norm_centroid;        /* [parts][256][width] and [256] floats */
    int32_t parts, width, last;         /* width: dims of a part; last: of the last part */
} FasttextMatrix;

typedef struct {
    FileMap  file;
    int32_t  dim, loss;
    int32_t  word_ngram;                /* longest word n-gram, >= 1 */
    int32_t  bucket;                    /* number of hash buckets for subwords and word n-grams */
    int32_t  ngram_min, ngram_max;      /* characters of a subword; ngram_max 0: no subwords */
    int32_t  words, labels;
    FasttextWord *word;                 /* [words + labels], labels last */
    FasttextSlot *slot;                 /* [slots], linear probing */
    uint32_t slots;                     /* a power of two */
    bool     pruned;                    /* only the buckets in `kept` have a row */
    FasttextKeptBucket *kept;           /* [kept_slots], linear probing */
    uint32_t kept_slots;                /* a power of two; 0: all buckets were pruned */
    FasttextMatrix input, output;       /* input: rows of words, then of buckets; output: a row per label */
} FasttextModel;

/* BAD_FILE names the byte where the file is malformed and what was expected there. */
Status fasttext_model_open (FasttextModel *model, const char *path);
void   fasttext_model_close(FasttextModel *model);

/* fastText's hash, FNV-1a with its bug: bytes above 127 are sign-extended, and so flip all upper bits. Models
 * depend on it. */
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

/* The id of a word or label; -1: unknown. hash: fasttext_hash of the text, which has no zero byte. */
int32_t fasttext_word_find(const FasttextModel *model, const uint8_t *text, int64_t bytes, uint32_t hash);
/* Prefetches the hash slot of a word into the CPU's cache. */
void    fasttext_word_prefetch(const FasttextModel *model, uint32_t hash);
/* The row of a bucket in a pruned model, counted from the first bucket's; -1: pruned. */
int32_t fasttext_bucket_find(const FasttextModel *model, int32_t bucket);

/* sum[0 .. 16) += from[0 .. 16). Most models have a multiple of 16 dimensions. `from` may have any alignment,
 * as the floats of the file do. */
typedef float FasttextFloat4 __attribute__((vector_size(16), aligned(1), may_alias));
static inline void fasttext_add_16(float *sum, const void *from)
{
    FasttextFloat4 *to = (FasttextFloat4 *)sum;
    const FasttextFloat4 *more = from;
    to[0] += more[0], to[1] += more[1], to[2] += more[2], to[3] += more[3];
}

/* sum[0 .. dim) += each of the `rows` rows row[0], row[1], ...; in this order, because floating-point sums
 * depend on it. */
void fasttext_rows_sum(float *sum, const FasttextMatrix *matrix, const int64_t *row, int32_t rows);
#endif
