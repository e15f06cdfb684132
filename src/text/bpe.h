#ifndef TEXT_BPE_H
#define TEXT_BPE_H
/* Merging: neighbours become one token, the pair of lowest rank first, the leftmost of equals. A piece of up to
 * BPE_SHORT symbols is searched each time, a longer one has a heap: n log n for any input.                      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/vocab.h"

enum { BPE_SHORT = 48, MERGES_ID_BITS = 21, MERGES_RANK_BITS = 22, MERGES_IDS = (1 << MERGES_ID_BITS) - 1, MERGES_RANKS = 1 << MERGES_RANK_BITS };
#define NO_RANK UINT32_MAX

/* A pair of ids and its rank are one number, so that what is asked for and what is answered is one line of memory. */
typedef struct {
    uint64_t *slot;                     /* left, right, rank; ~0: empty */
    uint64_t *maybe;                    /* 8 bits a slot, one set for each pair: most pairs do not merge, and their bit is nearer than the slots */
    uint32_t *first;                    /* [left][right], both below 256: the rank, or NO_RANK */
    int32_t  *made, made_room;          /* [rank] */
    int64_t   slots, count;
} Merges;

/* The symbols of one piece while they merge; grows to the longest piece seen, never shrinks. One per thread. */
typedef struct { int32_t *id, *next, *before; uint32_t *rank; uint64_t *heap; int64_t room; } BpeSpace;

/* Kept where the pair has a rank already: add them in their order. Pairs of one rank make the same. NO_MEMORY, or BAD_FILE
 * where an id or rank is too high */
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
/* The rank of two neighbours; NO_RANK: they do not merge. Ids are those of a vocabulary that has merges. */
static inline uint32_t merges_rank(const Merges *m, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << MERGES_ID_BITS | (uint32_t)right;
    uint64_t bit  = merges_bit(m, pair);
    if (!(m->maybe[bit / 64] >> bit % 64 & 1)) return NO_RANK;
    for (uint64_t at = merges_place(m, pair);; at = (at + 1) & (uint64_t)(m->slots - 1)) {
        if (m->slot[at] >> MERGES_RANK_BITS == pair) return (uint32_t)m->slot[at] & (MERGES_RANKS - 1);
        if (m->slot[at] == ~0ull)                    return NO_RANK;
    }
}

/* ids[0 .. count) merged in place; how many are left. -1: no memory */
int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space);
void    bpe_space_close(BpeSpace *space);
#endif
