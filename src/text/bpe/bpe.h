#ifndef TEXT_BPE_BPE_H
#define TEXT_BPE_BPE_H
/* Merging: neighbours become one token, the pair of lowest rank first, the leftmost of equals. A piece of up to
 * BPE_SHORT symbols is searched each time, a longer one has a heap: n log n for any input.                      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/bpe/vocab.h"

enum { BPE_SHORT_SYMBOLS = 46, MERGES_ID_BITS = 21, MERGES_RANK_BITS = 22, MERGES_IDS = (1 << MERGES_ID_BITS) - 1, MERGES_RANKS = 1 << MERGES_RANK_BITS,
       NO_RANK = MERGES_RANKS, NO_ID = MERGES_IDS };

/* Each pair has a rank of its own. A slot holds a rank and a few bits of its pair's hash, so that the slots of a whole
 * vocabulary lie in a near cache; what they say is a guess, never above the truth, and `pair` knows.               */
typedef struct {
    uint32_t *slot;                     /* sign of the pair << 22 | rank; ~0: empty. A pair is in one of two times two */
    uint64_t *pair;                     /* [rank]: left << 21 | right; ~0: no merge has this rank */
    uint32_t *byte_pair_rank;                    /* [left][right], both below 256: the rank, or NO_RANK */
    int32_t  *result, capacity;               /* [rank]; room: for so many ranks */
    int32_t   result_offset;                    /* of all ranks: what is made less the rank, which spares a look; INT32_MIN: they differ */
    int64_t   slots, count;
} Merges;

/* The symbols of one piece while they merge; grows to the longest piece seen, never shrinks. One per thread. */
typedef struct { int32_t *id, *next, *previous; uint32_t *rank; uint64_t *heap; int64_t capacity; } BpeSpace;

/* Kept where the pair has a rank already. NO_MEMORY, or BAD_FILE where an id or rank is too high, or the rank another pair's */
Status  merges_add  (Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t result);
void    merges_close(Merges *m);

enum { SIGNATURE_EMPTY = (1 << (32 - MERGES_RANK_BITS)) - 1 };             /* an empty slot's, and no pair's */
typedef struct { uint64_t one, other; uint32_t signature; } MergePlaces;  /* each the first of two slots beside each other */
static inline MergePlaces merges_places(const Merges *m, uint64_t pair)
{
    uint64_t h = (pair ^ pair >> 23) * 0x9E3779B97F4A7C15u, mask = (uint64_t)m->slots - 2;
    uint32_t signature = (uint32_t)(h >> (32 + MERGES_RANK_BITS));
    return (MergePlaces){ h >> 32 & mask, h >> 10 & mask, signature - (signature == SIGNATURE_EMPTY) };
}
static inline uint64_t merges_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << MERGES_ID_BITS | (uint32_t)right;
}
static inline uint32_t slot_rank(uint32_t slot, uint32_t signature, uint32_t rank)
{
    uint32_t slot_value = slot >> MERGES_RANK_BITS == signature ? slot & (MERGES_RANKS - 1) : NO_RANK;
    return slot_value < rank ? slot_value : rank;
}
/* At most the rank of two neighbours, and nearly always the rank; NO_RANK: they do not merge. Ids up to NO_ID, which
 * merges with none. No branch depends on the pair. */
static inline uint32_t merges_guess(const Merges *m, int32_t left, int32_t right)
{
    MergePlaces     at = merges_places(m, merges_pair(left, right));
    const uint32_t *a = m->slot + at.one, *b = m->slot + at.other;
    return slot_rank(a[0], at.signature, slot_rank(a[1], at.signature, slot_rank(b[0], at.signature, slot_rank(b[1], at.signature, NO_RANK))));
}
static inline bool merges_is_pair(const Merges *m, uint32_t rank, int32_t left, int32_t right)
{
    return m->pair[rank] == merges_pair(left, right);
}
/* The rank itself */
uint32_t merges_rank(const Merges *m, int32_t left, int32_t right);

static inline int32_t merges_result(const Merges *m, uint32_t rank)
{
    return m->result_offset != INT32_MIN ? (int32_t)rank + m->result_offset : m->result[rank];
}

/* ids[0 .. count) merged in place; how many are left. -1: no memory */
int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space);
void    bpe_space_close(BpeSpace *space);
#endif
