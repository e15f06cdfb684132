#ifndef TEXT_BPE_BPE_H
#define TEXT_BPE_BPE_H
/* Byte-pair encoding of one pretoken: the neighbours whose merge has the lowest rank are joined first, of
 * equal ranks the leftmost, until no neighbours merge. For up to BPE_SHORT_SYMBOLS symbols the lowest rank is
 * searched in an array of all neighbours; longer pieces use a heap, so every input takes O(n log n). */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/bpe/vocab.h"

/* Ids that merge need 21 bits and ranks 22, so a pair fits into 42 bits and a rank, with a signature, into
 * 32. */
enum {
    MERGES_ID_BITS = 21, MERGES_RANK_BITS = 22,
    MERGES_IDS = (1 << MERGES_ID_BITS) - 1, MERGES_RANKS = 1 << MERGES_RANK_BITS,
    NO_RANK = MERGES_RANKS, NO_ID = MERGES_IDS,        /* no merge; an id that merges with none */
    BPE_SHORT_SYMBOLS = 46
};

/* The merge rules: a hash table from a pair of ids to its rank; each pair has its own rank. A slot of four
 * bytes holds the rank and the remaining hash bits as a signature, so the table of a whole vocabulary fits
 * into the L2 cache. A slot whose signature matches by chance gives a wrong rank; the lookup takes the lowest
 * rank found, so a guess is never above the true rank, and pair[] tells whether it is right. */
typedef struct {
    uint32_t *slot;                     /* signature of the pair << 22 | rank; ~0: empty. Cuckoo hashing: a
                                         * pair is in one of two buckets of two slots */
    uint64_t *pair;                     /* [rank]: left << 21 | right; ~0: no merge has this rank */
    uint32_t *byte_pair_rank;           /* [left][right], for ids below 256: the rank, or NO_RANK */
    int32_t  *result;                   /* [rank]: the id of the joined token */
    int32_t   capacity;                 /* of pair and result, in ranks */
    int32_t   result_offset;            /* result - rank where that is the same for all ranks, which saves
                                         * a memory access; INT32_MIN: it differs */
    int64_t   slots, count;             /* slots: a power of two; count: merges */
} Merges;

/* The working memory of bpe_merge, [symbol] but for the heap. It grows to the longest piece seen and never
 * shrinks. One per thread; all zero at first. */
typedef struct {
    int32_t  *id, *next, *previous;     /* a doubly linked list of symbols by index; -1: end */
    uint32_t *rank;                     /* of the symbol and its next */
    uint64_t *heap;                     /* rank << 32 | symbol; 3 * capacity entries */
    int64_t   capacity;                 /* symbols */
} BpeSpace;

/* Adds a rule; where the pair has a rank already, that one is kept. NO_MEMORY, or BAD_FILE where an id or the
 * rank is too high, or the rank belongs to another pair. */
Status  merges_add  (Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t result);
void    merges_close(Merges *m);

enum { SIGNATURE_EMPTY = (1 << (32 - MERGES_RANK_BITS)) - 1 };       /* the signature of an empty slot, and
                                                                      * of no pair */
/* one, other: first slots of the two buckets */
typedef struct { uint64_t one, other; uint32_t signature; } MergePlaces;
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
/* The lower of `rank` and the rank in the slot, which counts only where its signature matches. */
static inline uint32_t slot_rank(uint32_t slot, uint32_t signature, uint32_t rank)
{
    uint32_t slot_value = slot >> MERGES_RANK_BITS == signature ? slot & (MERGES_RANKS - 1) : NO_RANK;
    return slot_value < rank ? slot_value : rank;
}
/* The rank of two neighbours or, rarely, a lower one; NO_RANK is certain. Ids are at most NO_ID. All four
 * slots are read without a branch, because which of them matches cannot be predicted. */
static inline uint32_t merges_guess(const Merges *m, int32_t left, int32_t right)
{
    MergePlaces     at = merges_places(m, merges_pair(left, right));
    const uint32_t *a = m->slot + at.one, *b = m->slot + at.other;
    return slot_rank(a[0], at.signature,
                     slot_rank(a[1], at.signature,
                               slot_rank(b[0], at.signature, slot_rank(b[1], at.signature, NO_RANK))));
}
static inline bool merges_is_pair(const Merges *m, uint32_t rank, int32_t left, int32_t right)
{
    return m->pair[rank] == merges_pair(left, right);
}
/* The rank of two neighbours, or NO_RANK. */
uint32_t merges_rank(const Merges *m, int32_t left, int32_t right);

static inline int32_t merges_result(const Merges *m, uint32_t rank)
{
    return m->result_offset != INT32_MIN ? (int32_t)rank + m->result_offset : m->result[rank];
}

/* Merges ids[0 .. count) in place and returns how many remain; -1: no memory (fail() is left to the
 * caller). */
int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space);
void    bpe_space_close(BpeSpace *space);
#endif
