#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
/* Counter-based random numbers: a value is a pure function of (key, index) and there is no generator
 * state. So every rank computes the value of an element from its global index, and results do not depend
 * on the parallel layout, on the number of threads or on the order of evaluation. The generator is
 * Philox4x32-10 (Salmon, Moraes, Dror & Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11). */
#include <stdint.h>

typedef struct { uint32_t v[4]; } Philox;
/* One block of 128 random bits. The 128-bit counter is index_high : index_low. */
Philox   philox(uint64_t key, uint64_t index_low, uint64_t index_high);

/* The key of the stream called `name`: the name's FNV-1a hash mixed with the seed. */
uint64_t random_key(uint64_t seed, const char *name);
/* Mixes two values into one with the finalizer of splitmix64; every bit of either changes about half of
 * the result. */
uint64_t random_mix(uint64_t a, uint64_t b);
/* Uniform in [0, 1), with 53 random bits. */
double   random_uniform(uint64_t key, uint64_t index);
/* Standard normal by the Box-Muller transform. Only the cosine is used, so that each index has one value. */
double   random_normal (uint64_t key, uint64_t index);
/* out[i] = random_normal(key, index + i) for n numbers, to the bit, in vectors. */
void     random_normals(double *out, uint64_t key, uint64_t index, int64_t n);
/* 32 random bits of element `index`: lane index % 4 of philox(key, index / 4, 0), so that four consecutive
 * elements share one block. Dropout keeps an element where bits >= p * 2^32. */
uint32_t random_bits   (uint64_t key, uint64_t index);
/* out[i] = random_bits(key, index + i) for n elements, in vectors. */
void     random_bits_of(uint32_t *out, uint64_t key, uint64_t index, int64_t n);
/* Element i of a pseudo-random permutation of 0..n-1, in constant memory and for any i first. It is a
 * Feistel network with cycle walking (Black & Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
 * 2002). i < n. */
uint64_t random_permute(uint64_t key, uint64_t n, uint64_t i);
#endif
