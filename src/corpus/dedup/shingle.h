#ifndef CORPUS_DEDUP_SHINGLE_H
#define CORPUS_DEDUP_SHINGLE_H
/* Words and shingles of a text. A word is a run of letters, marks and numbers, in lower case; everything
 * else only separates words, invalid bytes too. A shingle is the hash of n consecutive words. The text must
 * be in NFC, which corpus/quality/charset.h produces. A text of fewer than n words has no shingles, so only
 * exact duplicates are found among such texts. Hashes have 64 bits, and all results are exact up to their
 * collisions. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { SHINGLE_WORDS = 5, SHINGLE_WORDS_MOST = 64 };

/* at: begins as 0; digits: each counts as 0 */
typedef struct { const char *text; int64_t bytes, at; bool digits; } WordWalk;
typedef struct { uint64_t hash; int64_t from, end; } WordSpan;  /* from, end: bytes of the text */
bool word_next(WordWalk *walk, WordSpan *word);                 /* the next word; false: no more */

/* A rolling polynomial hash over the last `words` words: O(1) per word whatever n is. */
typedef struct {
    uint64_t power, sum;                /* base^words; the hash before the final mixing */
    uint64_t word[SHINGLE_WORDS_MOST];  /* ring of the last `words` words, the oldest at `at` */
    int      words, at;
    int64_t  seen;                      /* words pushed */
} ShingleRoll;
ShingleRoll shingle_roll(int words);
/* True once `words` words were pushed. */
bool     shingle_push(ShingleRoll *roll, uint64_t word, uint64_t *hash);

/* hash: [count], owned; capacity: in hashes, never shrinks. Begins as { 0 }; each thread has its own. */
typedef struct { uint64_t *hash; int64_t count, capacity; } Shingles;
/* Replaces them, in the order of the text. */
Status shingles_of  (Shingles *s, int words, const char *text, int64_t bytes);
Status shingles_set (Shingles *s);                              /* sorts, removes duplicates; linear time */
double shingles_jaccard(const Shingles *a, const Shingles *b);  /* of two sets; 0 where both are empty */
void   shingles_free(Shingles *s);
#endif
