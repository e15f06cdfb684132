#ifndef CORPUS_DEDUP_MINHASH_SIGNATURE_H
#define CORPUS_DEDUP_MINHASH_SIGNATURE_H
/* MinHash: value j of a signature is the least a[j] x + b[j] mod 2^32 over the lower halves x of all shingles. Shingles
 * are well mixed already, so each is equally likely to be the least, and two sets agree in a value with the probability of
 * their Jaccard index. The targets give the same values.                                                           */
#include "corpus/dedup/shingle.h"

enum { MINHASH_LANES = 64 };                     /* values are rounded up to these: a multiple of what any target does at a time */

typedef void MinHashKernel(uint32_t *least, const uint32_t *a, const uint32_t *b, int64_t values, const Shingles *shingles);
typedef struct { uint32_t *a, *b; int64_t values; MinHashKernel *body; } MinHashSigner;           /* values: rounded up */

Status minhash_signer_open(MinHashSigner *sign, int values);
void   minhash_signature  (const MinHashSigner *sign, uint32_t *least, const Shingles *shingles);      /* `values` of them */
void   minhash_signer_close(MinHashSigner *sign);
MinHashKernel *minhash_kernel(int target);              /* 0 plain; NULL where this machine has no such one, from 1 on: tests */
#endif
