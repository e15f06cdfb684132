#ifndef CORPUS_NEAR_SIGN_H
#define CORPUS_NEAR_SIGN_H
/* MinHash: value j of a signature is the least a[j] x + b[j] mod 2^32 over the lower halves x of all shingles. Shingles
 * are well mixed already, so each is equally likely to be the least, and two sets agree in a value with the probability of
 * their Jaccard index. The targets give the same values.                                                           */
#include "corpus/shingle.h"

enum { SIGN_LANES = 64 };                     /* values are rounded up to these: a multiple of what any target does at a time */

typedef void SignBody(uint32_t *least, const uint32_t *a, const uint32_t *b, int64_t values, const Shingles *shingles);
typedef struct { uint32_t *a, *b; int64_t values; SignBody *body; } Sign;           /* values: rounded up */

Status sign_open(Sign *sign, int values);
void   sign_of  (const Sign *sign, uint32_t *least, const Shingles *shingles);      /* `values` of them */
void   sign_close(Sign *sign);
SignBody *sign_body(int target);              /* 0 plain; NULL where this machine has no such one, from 1 on: tests */
#endif
