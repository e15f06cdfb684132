#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H
/* Counter-based random numbers: a value is f(key, index), never a state. Philox4x32-10 (Salmon et al., SC'11). */
#include <stdint.h>

typedef struct { uint32_t v[4]; } Philox;
Philox   philox(uint64_t key, uint64_t index_low, uint64_t index_high);

uint64_t random_key(uint64_t seed, const char *name);              /* the stream of a named thing: FNV-1a of name mixed with seed */
uint64_t random_mix(uint64_t a, uint64_t b);                       /* splitmix64 finaliser of the pair */
double   random_uniform(uint64_t key, uint64_t index);             /* [0, 1), 53 bits */
double   random_normal (uint64_t key, uint64_t index);             /* Box-Muller, one value an index */
/* 32 random bits of element `index`: lane index % 4 of philox(key, index / 4, 0); dropout keeps where bits >= p * 2^32 */
uint32_t random_bits   (uint64_t key, uint64_t index);
/* Position i of a pseudo-random permutation of 0..n-1 (Feistel network with cycle walking): no memory, any order of asking */
uint64_t random_permute(uint64_t key, uint64_t n, uint64_t i);
#endif
