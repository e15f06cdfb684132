#ifndef CORPUS_DEDUP_MINHASH_INTERNAL_H
#define CORPUS_DEDUP_MINHASH_INTERNAL_H
/* What the files of near-duplicate detection share. Band keys (minhash.c) are joined to candidate pairs
 * (minhash_join.c), and the pairs are resolved in the order of documents (minhash_resolve.c) by comparing
 * shingle sets, which are held while memory lasts (minhash_sets.c). */
#include "corpus/dedup/minhash.h"
#include "corpus/dedup/spill.h"

/* ---- signatures ---- */

/* The number of values is rounded up to this, a multiple of what any instruction set computes at a time. */
enum { MINHASH_LANES = 64 };

/* MinHash signatures: value j is the least a[j] x + b[j] mod 2^32 over the lower halves x of all shingles.
 * Shingles are well mixed already, so each is equally likely to be the least, and two sets agree in a value
 * with a probability equal to their Jaccard index (Broder 1997). All instruction sets give the
 * same values. */
typedef void MinHashKernel(uint32_t *least, const uint32_t *a, const uint32_t *b, int64_t values,
                           const Shingles *shingles);
/* a, b: [values], rounded up */
typedef struct { uint32_t *a, *b; int64_t values; MinHashKernel *body; } MinHashSigner;

/* NO_MEMORY: minhash_signer_close is still needed */
Status minhash_signer_open(MinHashSigner *sign, int values);
void   minhash_signer_close(MinHashSigner *sign);
/* 0: portable, 1: AVX2, 2: AVX-512; NULL where this machine has it not. Tests compare them. */
MinHashKernel *minhash_kernel(int target);

/* ---- what is collected ---- */

/* Records of the spills. Documents have 32 bits, so that billions of records stay small. */
typedef struct { uint32_t low, high, document; } MinHashEntry;  /* the two halves of a band's key: 12 bytes */
/* A document and, among `pairs`, an earlier candidate; among `members` a large bucket that it is in, numbered
 * from 0. */
typedef struct { uint32_t document, value; } MinHashLink;

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
