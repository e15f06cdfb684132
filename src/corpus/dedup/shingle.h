#ifndef CORPUS_DEDUP_SHINGLE_H
#define CORPUS_DEDUP_SHINGLE_H
/* A text as words, and as hashes of every n words that follow each other (shingles). A word is a run of letters, marks
 * and numbers, in lower case; all else only parts words, and so do broken bytes. The text is taken as it is composed: NFC
 * comes before (corpus/quality/charset.h does it). A text of fewer words than n has no shingles: exact duplicates alone are found
 * among such. Hashes are of 64 bits; what is said of them is as exact as that.                                       */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { SHINGLE_WORDS = 5, SHINGLE_WORDS_MOST = 64 };

typedef struct { const char *text; int64_t bytes, at; bool digits; } WordWalk;      /* digits: each counts as a 0 */
typedef struct { uint64_t hash; int64_t from, end; } WordSeen;                      /* bytes of the text */
bool word_seen(WordWalk *walk, WordSeen *word);                                     /* the next word; false: no more */

typedef struct { uint64_t power, sum; uint64_t word[SHINGLE_WORDS_MOST]; int words, at; int64_t seen; } ShingleRoll;
ShingleRoll shingle_roll(int words);
bool     shingle_push(ShingleRoll *roll, uint64_t word, uint64_t *hash);            /* true once `words` were pushed */

typedef struct { uint64_t *hash; int64_t count, room; } Shingles;                   /* begins as { 0 }; never shrinks */
Status shingles_of  (Shingles *s, int words, const char *text, int64_t bytes);      /* of this text alone, in its order */
Status shingles_set (Shingles *s);                                                  /* sorted, each once; linear time */
double shingles_jaccard(const Shingles *a, const Shingles *b);                      /* of two sets; of nothing: 0 */
void   shingles_free(Shingles *s);
#endif
