#ifndef TEXT_BPE_H
#define TEXT_BPE_H
/* Merging: neighbours become one token, the pair of lowest rank first, the leftmost of equals. A piece of up to
 * BPE_SHORT symbols is searched each time, a longer one has a heap: n log n for any input.                      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/vocab.h"

enum { BPE_SHORT = 46, MERGES_ID_BITS = 21, MERGES_RANK_BITS = 22, MERGES_IDS = (1 << MERGES_ID_BITS) - 1, MERGES_RANKS = 1 << MERGES_RANK_BITS,
       NO_RANK = MERGES_RANKS, NO_ID = MERGES_IDS };

/* A pair of ids and its rank are one number, so that what is asked for and what is answered is one line of memory. */
typedef struct {
    uint64_t *slot;                     /* left, right, rank; ~0: empty. A pair is in one of two places, so that no branch depends on it */
    uint32_t *first;                    /* [left][right], both below 256: the rank, or NO_RANK */
    int32_t  *made, made_room;          /* [rank] */
    int32_t   ahead;                    /* of all ranks: what is made less the rank, which spares a look; INT32_MIN: they differ */
    int64_t   slots, count;
} Merges;

/* The symbols of one piece while they merge; grows to the longest piece seen, never shrinks. One per thread. */
typedef struct { int32_t *id, *next, *before; uint32_t *rank; uint64_t *heap; int64_t room; } BpeSpace;

/* Kept where the pair has a rank already: add them in their order. Pairs of one rank make the same. NO_MEMORY, or BAD_FILE
 * where an id or rank is too high */
Status  merges_add  (Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t made);
void    merges_close(Merges *m);

typedef struct { uint64_t one, other; } MergePlaces;
static inline MergePlaces merges_places(const Merges *m, uint64_t pair)
{
    uint64_t h = (pair ^ pair >> 23) * 0x9E3779B97F4A7C15u, mask = (uint64_t)m->slots - 1;
    return (MergePlaces){ h >> 40 & mask, h >> 16 & mask };
}
/* The rank of two neighbours; NO_RANK: they do not merge. Ids up to NO_ID, which merges with none */
static inline uint32_t merges_rank(const Merges *m, int32_t left, int32_t right)
{
    uint64_t    pair = (uint64_t)(uint32_t)left << MERGES_ID_BITS | (uint32_t)right;
    MergePlaces at   = merges_places(m, pair);
    uint64_t    a = m->slot[at.one], b = m->slot[at.other];
    uint32_t    rank = a >> MERGES_RANK_BITS == pair ? (uint32_t)a & (MERGES_RANKS - 1) : NO_RANK;
    return b >> MERGES_RANK_BITS == pair ? (uint32_t)b & (MERGES_RANKS - 1) : rank;
}

static inline int32_t merges_made(const Merges *m, uint32_t rank)
{
    return m->ahead != INT32_MIN ? (int32_t)rank + m->ahead : m->made[rank];
}

/* ids[0 .. count) merged in place; how many are left. -1: no memory */
int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space);
void    bpe_space_close(BpeSpace *space);
#endif
