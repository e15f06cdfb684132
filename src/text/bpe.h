#ifndef TEXT_BPE_H
#define TEXT_BPE_H
/* Merging: neighbours become one token, the pair of lowest rank first, the leftmost of equals. A piece of up to
 * BPE_SHORT symbols is searched each time, a longer one has a heap: n log n for any input.                      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/vocab.h"

enum { BPE_SHORT = 48 };

typedef struct { uint64_t pair; uint32_t rank; int32_t made; } Merge;   /* pair: left << 32 | right; made -1: empty */
/* maybe: 8 bits a slot, one set for each pair. Most pairs do not merge, and their bit lies in a nearer cache than the slots. */
typedef struct { Merge *at; uint64_t *maybe; int64_t slots, count; } Merges;

/* The symbols of one piece while they merge; grows to the longest piece seen, never shrinks. One per thread. */
typedef struct { int32_t *id, *next, *before; uint32_t *rank; uint64_t *heap; int64_t room; } BpeSpace;

/* Kept where the pair has a lower rank already. NO_MEMORY */
Status  merges_add  (Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t made);
void    merges_close(Merges *m);
static inline uint64_t merges_place(const Merges *m, uint64_t pair)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 32) & (uint64_t)(m->slots - 1);
}
static inline uint64_t merges_bit(const Merges *m, uint64_t pair)
{
    uint64_t h = (pair ^ pair >> 29) * 0xC2B2AE3D27D4EB4Fu;
    return (h ^ h >> 31) & (uint64_t)(8 * m->slots - 1);
}
/* NULL: these two do not merge */
static inline const Merge *merges_find(const Merges *m, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t bit  = merges_bit(m, pair);
    if (!(m->maybe[bit / 64] >> bit % 64 & 1)) return 0;
    for (uint64_t at = merges_place(m, pair);; at = (at + 1) & (uint64_t)(m->slots - 1)) {
        if (m->at[at].made < 0)      return 0;
        if (m->at[at].pair == pair)  return &m->at[at];
    }
}

/* ids[0 .. count) merged in place; how many are left. -1: no memory */
int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space);
void    bpe_space_close(BpeSpace *space);
#endif
