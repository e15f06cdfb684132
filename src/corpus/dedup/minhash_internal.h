#ifndef CORPUS_DEDUP_MINHASH_INTERNAL_H
#define CORPUS_DEDUP_MINHASH_INTERNAL_H
/* What the files of near-duplicate detection share. Band keys (minhash.c) are joined to candidate pairs
 * (minhash_join.c), and the pairs are resolved in the order of documents (minhash_resolve.c) by comparing
 * shingle sets (minhash_sets.c). */
#include "corpus/dedup/minhash.h"
#include "corpus/dedup/spill.h"

/* ---- signatures ---- */

/* MinHash signatures: value j is the least a[j] x + b[j] mod 2^32 over the lower halves x of all shingles.
 * Shingles are well mixed already, so each is equally likely to be the least, and two sets agree in a value
 * with a probability equal to their Jaccard index (Broder 1997). */
typedef struct { uint32_t a[MINHASH_PERMUTATIONS_MOST], b[MINHASH_PERMUTATIONS_MOST]; } MinHashSigner;
/* The number of values is rounded up to MINHASH_LANES. */
enum { MINHASH_LANES = 64 };
void minhash_signer_make(MinHashSigner *sign);
void minhash_sign(uint32_t *least, const MinHashSigner *sign, int values, const Shingles *shingles);

/* ---- what is collected ---- */

/* Records of the spills. Documents have 32 bits, so that billions of records stay small. */
typedef struct { uint32_t low, high, document; } MinHashEntry;  /* the two halves of a band's key: 12 bytes */
/* A document and, in partitions from 0 on, an earlier candidate; in those from `parts` on a large bucket that
 * it is in, numbered from 0. */
typedef struct { uint32_t document, value; } MinHashLink;

struct MinHash {
    MinHashPlan    plan;
    MinHashSigner  sign;
    Spill         *keys, *links;
    int            parts;   /* of the links of each kind; each part is a range of documents */
    /* [documents]; NULL before minhash_resolve. Until the sets are written: not 0 with candidates. */
    uint32_t      *keeper;
    const char    *sets;    /* the mapped file of shingle sets, and its bytes */
    int64_t        sets_bytes;
    MinHashCounts  counts;
};

/* The part that has a document's pairs and buckets. It is monotonic in the document, so that parts are read
 * in order. */
static inline int minhash_part(const MinHash *minhash, int64_t document)
{
    return (int)(document * minhash->parts / minhash->counts.documents);
}

Status minhash_join(MinHash *minhash, const MinHashReading *reading);

/* ---- shingle sets, in a file without a name (minhash_sets.c) ---- */

typedef struct { int64_t at, count; } MinHashSet;   /* the first byte in the file; hashes */
/* Writes the sets of all documents that have candidates. */
Status   minhash_sets_open (MinHash *minhash, const MinHashReading *reading);
void     minhash_sets_close(MinHash *minhash);
Shingles minhash_set(const MinHash *minhash, uint32_t document);    /* of such a document; read-only */
#endif
