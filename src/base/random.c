#include "base/random.h"

#include <math.h>

static uint32_t high_word(uint64_t x) { return (uint32_t)(x >> 32); }

Philox philox(uint64_t key, uint64_t index_low, uint64_t index_high)
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
        k0 += 0x9E3779B9;                     /* Weyl sequence: golden ratio */
        k1 += 0xBB67AE85;                     /* sqrt(3) - 1 */
    }
    return (Philox){ { c0, c1, c2, c3 } };
}

/* Steele, Lea & Flood, OOPSLA'14, with Stafford's variant 13 */
static uint64_t finish(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

uint64_t random_mix(uint64_t a, uint64_t b)
{
    const uint64_t golden = 0x9E3779B97F4A7C15;
    return finish(finish(a + golden) + b + golden);
}

uint64_t random_key(uint64_t seed, const char *name)
{
    uint64_t hash = 0xCBF29CE484222325;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001B3;
    return random_mix(seed, hash);
}

static double unit_interval(uint32_t low, uint32_t high)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

double random_uniform(uint64_t key, uint64_t index)
{
    Philox p = philox(key, index, 0);
    return unit_interval(p.v[0], p.v[1]);
}

/* sqrt(-2 ln u) cos(2 pi v) with u in (0, 1] */
double random_normal(uint64_t key, uint64_t index)
{
    Philox p = philox(key, index, 0);
    double u = 1.0 - unit_interval(p.v[0], p.v[1]), v = unit_interval(p.v[2], p.v[3]);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

uint32_t random_bits(uint64_t key, uint64_t index) { return philox(key, index / 4, 0).v[index % 4]; }

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

uint64_t random_permute(uint64_t key, uint64_t n, uint64_t i)
{
    int half = 1;
    while (half < 32 && ((uint64_t)1 << 2 * half) < n) half++;
    do i = feistel(key, half, i); while (i >= n);      /* soon back in 0..n-1: a quarter lies there */
    return i;
}
