#ifndef CORPUS_DEDUP_MINHASH_INTERNAL_H
#define CORPUS_DEDUP_MINHASH_INTERNAL_H
/* What the files of near-duplicate detection share. Band keys (minhash.c) are joined to candidate pairs
 * (minhash_join.c), and the pairs are resolved in the order of documents (minhash_resolve.c) by comparing
 * shingle sets, which are held while memory lasts (minhash_sets.c). */
#include "corpus/dedup/minhash_plan.h"
#include "corpus/dedup/minhash_signature.h"
#include "corpus/dedup/spill.h"

/* Records of the spills. Documents have 32 bits, so that billions of records stay small. */
typedef struct { uint32_t low, high, document; } MinHashEntry;  /* the two halves of a band's key: 12 bytes */
typedef struct { uint32_t document, earlier; } MinHashPair;     /* a document and an earlier candidate */
typedef struct { uint32_t document, bucket; } MinHashMember;    /* of a large bucket, numbered from 0 */

struct MinHash {
    MinHashPlan    plan;
    MinHashSigner  sign;
    Spill         *keys, *pairs, *members;
    int            parts;   /* of pairs and members; each part is a range of documents */
    uint32_t      *keeper;  /* [documents]; NULL before minhash_resolve */
    MinHashCounts  counts;
};

/* The part that has a document's pairs and buckets. It is monotonic in the document, so that parts are read
 * in order. */
static inline int minhash_part(const MinHash *minhash, int64_t document)
{
    return (int)(document * minhash->parts / minhash->counts.documents);
}

Status minhash_join(MinHash *minhash, const MinHashReading *reading);

/* ---- a cache of shingle sets: requested by one thread, filled by all threads of the team, read by any
 * ---- */
/* used: the last round that requested it */
typedef struct { uint32_t document; int64_t used; Shingles set; } MinHashSet;
typedef struct {
    MinHashSet *set;   int64_t sets, sets_capacity;
    uint32_t   *slot;  uint64_t slots;  /* hash table from document to index in set, plus 1; 0: free */
    int64_t     filled;                 /* sets before this index are filled */
    int64_t     bytes;          /* of all sets */
    int64_t     round_bytes;    /* of those that the last round requested */
    int64_t     bytes_most;     /* limit */
    int64_t     round;
    int64_t     read;                   /* sets filled in all */
} MinHashSets;
Status minhash_sets_request(MinHashSets *s, uint32_t document);           /* requests it for this round */
/* Reads what was requested and is missing. */
Status minhash_sets_fill(MinHashSets *s, const MinHashReading *reading);
/* Must be requested and filled. */
const Shingles *minhash_sets_find(const MinHashSets *s, uint32_t document);
Status minhash_sets_end_round(MinHashSets *s);                            /* ends the round; may drop sets */
void   minhash_sets_free(MinHashSets *s);
#endif
