#ifndef CORPUS_DEDUP_MINHASH_SIGNATURE_H
#define CORPUS_DEDUP_MINHASH_SIGNATURE_H
/* MinHash signatures: value j is the least a[j] x + b[j] mod 2^32 over the lower halves x of all shingles.
 * Shingles are well mixed already, so each is equally likely to be the least, and two sets agree in a value
 * with a probability equal to their Jaccard index (Broder 1997). All instruction sets give the
 * same values. */
#include "corpus/dedup/shingle.h"

/* The number of values is rounded up to this, a multiple of what any instruction set computes at a time. */
enum { MINHASH_LANES = 64 };

typedef void MinHashKernel(uint32_t *least, const uint32_t *a, const uint32_t *b, int64_t values,
                           const Shingles *shingles);
/* a, b: [values], rounded up */
typedef struct { uint32_t *a, *b; int64_t values; MinHashKernel *body; } MinHashSigner;

/* NO_MEMORY: minhash_signer_close is still needed */
Status minhash_signer_open(MinHashSigner *sign, int values);
/* least: [sign->values], which is rounded up */
void   minhash_signature  (const MinHashSigner *sign, uint32_t *least, const Shingles *shingles);
void   minhash_signer_close(MinHashSigner *sign);
/* 0: portable, 1: AVX2, 2: AVX-512; NULL where this machine has it not. Tests compare them. */
MinHashKernel *minhash_kernel(int target);
#endif
