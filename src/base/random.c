/* Philox4x32-10 and what is derived from it: uniform and normal numbers, dropout bits and permutations.
 * The constants are those of the papers, so that other implementations can reproduce every value. */
#include "base/random.h"

#include <math.h>
#include <string.h>
#include "base/clones.h"
#include "base/exponential.h"
#include "base/sine.h"

static inline uint32_t high_word(uint64_t x) { return (uint32_t)(x >> 32); }

/* Ten rounds, each two 32 x 32 -> 64 bit products. The key is increased by
 * the same two constants after each. */
static inline Philox philox_rounds(uint64_t key, uint64_t index_low, uint64_t index_high)
{
    uint32_t c0 = (uint32_t)index_low,  c1 = high_word(index_low);
    uint32_t c2 = (uint32_t)index_high, c3 = high_word(index_high);
    uint32_t k0 = (uint32_t)key,        k1 = high_word(key);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c0, b = (uint64_t)0xCD9E8D57 * c2;
        c0 = high_word(b) ^ c1 ^ k0;
        c2 = high_word(a) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9;                     /* Weyl sequence: 2^32 (sqrt(5) - 1) / 2 */
        k1 += 0xBB67AE85;                     /* 2^32 (sqrt(3) - 1) */
    }
    return (Philox){ { c0, c1, c2, c3 } };
}

Philox philox(uint64_t key, uint64_t index_low, uint64_t index_high)
{
    return philox_rounds(key, index_low, index_high);
}

/* The finalizer of splitmix64 (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators",
 * OOPSLA'14), with the constants of Stafford's variant 13. It is a bijection, so no two inputs collide. */
static uint64_t splitmix64_finalize(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

uint64_t random_mix(uint64_t a, uint64_t b)
{
    const uint64_t golden = 0x9E3779B97F4A7C15;
    return splitmix64_finalize(splitmix64_finalize(a + golden) + b + golden);
}

/* FNV-1a, 64 bits: offset basis 0xCBF29CE484222325, prime 0x100000001B3. */
uint64_t random_key(uint64_t seed, const char *name)
{
    uint64_t hash = 0xCBF29CE484222325;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001B3;
    return random_mix(seed, hash);
}

/* The top 53 of the 64 bits are the significand of a double, so all multiples of 2^-53 in [0, 1) are
 * equally likely. Converted in two halves of 32 bits, which vectors can do; both and their sum are exact. */
static inline double unit_interval(uint32_t low, uint32_t high)
{
    uint32_t upper = high >> 11, lower = high << 21 | low >> 11;
    double lower_half = (double)(int32_t)(lower ^ 0x80000000) + 2147483648.0;
    return ((double)(int32_t)upper * 4294967296.0 + lower_half) * 0x1p-53;
}

double random_uniform(uint64_t key, uint64_t index)
{
    Philox p = philox(key, index, 0);
    return unit_interval(p.v[0], p.v[1]);
}

/* ---- normal numbers ----
 * Logarithm and cosine are those of exponential.h and sine.h: the same operations in a loop that is
 * vectorized as for one number, so that a value depends neither on the machine nor on its C library. Both are
 * within 2 units of the last place. */

/* Box-Muller: sqrt(-2 ln u) cos(2 pi v) with u in (0, 1], so that the logarithm is finite. */
static inline double normal(uint64_t key, uint64_t index)
{
    Philox p = philox_rounds(key, index, 0);
    double u = 1.0 - unit_interval(p.v[0], p.v[1]), v = unit_interval(p.v[2], p.v[3]);
    return sqrt(-2.0 * natural_log_normal(u)) * sine_cosine(6.283185307179586476925 * v).cosine;
}

double random_normal(uint64_t key, uint64_t index) { return normal(key, index); }

static CLONES void normals(double *out, uint64_t key, uint64_t index, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = normal(key, index + (uint64_t)i);
}

void random_normals(double *out, uint64_t key, uint64_t index, int64_t n) { normals(out, key, index, n); }

uint32_t random_bits(uint64_t key, uint64_t index) { return philox(key, index / 4, 0).v[index % 4]; }

/* The same rounds in words of 64 bits, whose upper halves the products ignore: a compiler then needs no
 * shuffles between two rounds. Lane l of `count` blocks from `block` on in row l. */
enum { BLOCKS = 64 };
static CLONES_PRODUCT void bits_of_blocks(uint32_t lane[4][BLOCKS], uint64_t key, uint64_t block,
                                          uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t c0 = block + i, c1 = high_word(c0), c2 = 0, c3 = 0;
        uint32_t k0 = (uint32_t)key, k1 = high_word(key);
        for (int round = 0; round < 10; round++) {
            uint64_t a = (uint64_t)0xD2511F53 * (uint32_t)c0, b = (uint64_t)0xCD9E8D57 * (uint32_t)c2;
            c0 = high_word(b) ^ c1 ^ k0;
            c2 = high_word(a) ^ c3 ^ k1;
            c1 = b;
            c3 = a;
            k0 += 0x9E3779B9;
            k1 += 0xBB67AE85;
        }
        lane[0][i] = (uint32_t)c0, lane[1][i] = (uint32_t)c1, lane[2][i] = (uint32_t)c2,
        lane[3][i] = (uint32_t)c3;
    }
}

/* out[4 i + l] = lane[l][i] */
static CLONES void bits_in_order(uint32_t *restrict out, uint32_t lane[4][BLOCKS])
{
    for (int i = 0; i < BLOCKS; i++) {
        out[4 * i]     = lane[0][i];
        out[4 * i + 1] = lane[1][i];
        out[4 * i + 2] = lane[2][i];
        out[4 * i + 3] = lane[3][i];
    }
}

void random_bits_of(uint32_t *out, uint64_t key, uint64_t index, int64_t n)
{
    uint32_t lane[4][BLOCKS] = { { 0 } }, run[4 * BLOCKS];
    while (n > 0) {
        uint64_t at = index % 4, most = 4 * BLOCKS - at, take = (uint64_t)n < most ? (uint64_t)n : most;
        bits_of_blocks(lane, key, index / 4, (at + take + 3) / 4);
        bits_in_order(run, lane);
        memcpy(out, run + at, take * sizeof *out);
        out += take, index += take, n -= (int64_t)take;
    }
}

/* A permutation of the 2 * half bit numbers: each round exchanges the halves, after one of them is xored
 * with a function of the other, which can be undone. Four rounds suffice in theory (Luby & Rackoff 1988);
 * eight also mix small domains. */
static uint64_t feistel(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t mixed = random_mix(key + round, right) & mask;
        uint64_t next  = left ^ mixed;
        left  = right;
        right = next;
    }
    return left << half | right;
}

/* Cycle walking: the network permutes the smallest power of four that is at least n, and results of n or
 * more are fed back. At least a quarter of that domain is below n, so four tries or fewer are
 * expected. It ends, because a permutation returns to its start, which is below n. */
uint64_t random_permute(uint64_t key, uint64_t n, uint64_t i)
{
    int half = 1;
    while (half < 32 && ((uint64_t)1 << 2 * half) < n) half++;
    do i = feistel(key, half, i); while (i >= n);
    return i;
}
