#ifndef CORPUS_DEDUP_MINHASH_INTERNAL_H
#define CORPUS_DEDUP_MINHASH_INTERNAL_H
/* What the files of near duplicates share: keys (near.c) become candidate pairs (near_join.c), pairs are settled in the
 * order of documents (near_settle.c) by sets that are held for a while (near_sets.c).                               */
#include "corpus/dedup/minhash_plan.h"
#include "corpus/dedup/minhash_signature.h"
#include "corpus/dedup/spill.h"

typedef struct { uint32_t low, high, document; } MinHashEntry;          /* the two halves of a band's key: 12 bytes */
typedef struct { uint32_t document, before; } MinHashPair;              /* a candidate stands before it */
typedef struct { uint32_t document, bucket; } MinHashMember;            /* of a large bucket, numbered from 0 */

struct MinHash {
    MinHashPlan   plan;
    MinHashSigner       sign;
    Spill     *keys, *pairs, *members;
    int        parts;                  /* of pairs and members, by document */
    uint32_t  *keeper;
    MinHashCounts counts;
};

/* The part that a document's pairs and buckets are in: in order */
static inline int minhash_part(const MinHash *near, int64_t document)
{
    return (int)(document * near->parts / near->counts.documents);
}

Status minhash_join(MinHash *near, const MinHashReading *reading);

/* ---- sets of shingles, asked for ahead by one thread, filled by all, found by any ---- */
typedef struct { uint32_t document; int64_t used; Shingles set; } MinHashSet;
typedef struct {
    MinHashSet  *set;   int64_t sets, sets_room;
    uint32_t *slot;  uint64_t slots;
    int64_t   filled;                         /* sets before this one are filled */
    int64_t   bytes, here, most;              /* held; of the last round; that may be held */
    int64_t   round;
    int64_t   read;
} MinHashSets;
Status minhash_sets_want(MinHashSets *s, uint32_t document);                     /* in this round */
Status minhash_sets_fill(MinHashSets *s, const MinHashReading *reading);
const Shingles *minhash_sets_find(const MinHashSets *s, uint32_t document);      /* wanted and filled */
Status minhash_sets_turn(MinHashSets *s);                                        /* the round ends */
void   minhash_sets_free(MinHashSets *s);
#endif
