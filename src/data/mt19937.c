/* MT19937 as published by M. Matsumoto and T. Nishimura, ACM Transactions on Modeling and Computer
 * Simulation 8 (1998), pages 3 to 30. Bounded draws and the shuffle are those of numpy's RandomState. */
#include <string.h>
#include "base/status.h"
#include "data/mt19937.h"

/* The paper's m, upper mask and a. */
enum { MIDDLE = 397 };
static const uint32_t TOP = 0x80000000u, TWIST = 0x9908b0dfu;

void mt19937_seed(Mt19937 *t, uint32_t seed)
{
    t->word[0] = seed;
    for (uint32_t i = 1; i < MT19937_WORDS; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ (t->word[i - 1] >> 30)) + i;
    t->at = MT19937_WORDS;
}

static uint32_t twist(uint32_t top, uint32_t rest, uint32_t far)
{
    uint32_t y = (top & TOP) | (rest & ~TOP);
    return far ^ (y >> 1) ^ (y & 1 ? TWIST : 0);
}

/* Replaces the whole state in place. Three loops, because the indices i + 1 and i + MIDDLE wrap around at
 * its end. */
static void mt19937_refill(Mt19937 *t)
{
    uint32_t *w = t->word;
    int ahead = MT19937_WORDS - MIDDLE, last = MT19937_WORDS - 1;
    for (int i = 0; i < ahead; i++)        w[i] = twist(w[i], w[i + 1], w[i + MIDDLE]);
    for (int i = ahead; i < last; i++)     w[i] = twist(w[i], w[i + 1], w[i - ahead]);
    w[last] = twist(w[last], w[0], w[MIDDLE - 1]);
    t->at = 0;
}

uint32_t mt19937_next(Mt19937 *t)
{
    if (t->at == MT19937_WORDS) mt19937_refill(t);
    uint32_t y = t->word[t->at++];
    y ^= y >> 11;
    y ^= y << 7  & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* numpy's rule (rejection sampling): draws are masked to the next power of two and repeated until one is
 * in range. Above 32 bits a draw is two words, the high one first. */
uint64_t mt19937_interval(Mt19937 *t, uint64_t most)
{
    uint64_t mask = most, draw;
    if (most == 0) return 0;
    for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
    do {
        draw = mt19937_next(t);
        if (most > UINT32_MAX) draw = draw << 32 | mt19937_next(t);
        draw &= mask;
    } while (draw > most);
    return draw;
}

/* Fisher-Yates from the end, as numpy does it. */
static inline void shuffle(Mt19937 *t, char *x, size_t width, int64_t count)
{
    char swap[8];
    for (int64_t i = count - 1; i > 0; i--) {
        char *at = x + (size_t)i * width, *other = x + mt19937_interval(t, (uint64_t)i) * width;
        memcpy(swap, other, width);
        memcpy(other, at, width);
        memcpy(at, swap, width);
    }
}

void mt19937_shuffle(Mt19937 *t, void *x, int width, int64_t count)
{
    CHECK(width == 4 || width == 8, "shuffle of elements of %d bytes", width);
    if (width == 4) shuffle(t, x, 4, count);
    else            shuffle(t, x, 8, count);
}
