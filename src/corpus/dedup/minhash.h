#ifndef CORPUS_DEDUP_MINHASH_H
#define CORPUS_DEDUP_MINHASH_H
/* MinHash duplicates by MinHash and bands (LSH), held against their texts. A document is removed where an earlier document
 * that is kept has a Jaccard index of their shingle sets of at least `threshold`, and nothing is removed otherwise, so
 * there are no chains. Bands only say which documents are held against each other. The result depends neither on the
 * number of threads nor on memory.
 *
 *     minhash_open(&near, &(MinHashPlan){ .folder = work, .memory = 1 << 30, .bands = 18, .rows = 7, .threshold = 0.8 });
 *     ...    minhash_keys(near, key, &shingles)            by any thread; false: too short, exact only, but add it all the same
 *     ...    minhash_add(near, key)                        by one, in order: documents are numbered from 0
 *     minhash_resolve(near, &(MinHashReading){ .team = team, .exact = exact, .read = ..., .context = ... });
 *     ...    minhash_keeper(near, document) == document    it is kept
 *
 * Of a bucket (documents with one equal band) of up to five all are held against each other. From the fifth on a document
 * is held against the first MINHASH_LISTED that were kept there and against the last two before it, so time is linear in
 * buckets of any size. A candidate that was removed stands for the document that it was removed for. So a cluster takes
 * one place of a bucket that many clusters share, and is found there even after the places are taken.                */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/team.h"
#include "corpus/dedup/exact.h"
#include "corpus/dedup/shingle.h"

enum { MINHASH_BANDS = 18, MINHASH_ROWS = 7, MINHASH_PERMUTATIONS_MOST = 1024, MINHASH_LISTED = 32 };

typedef struct {
    const char *folder;           /* for what goes beyond memory */
    int64_t     memory;           /* bytes of keys, pairs and shingle sets held at one time. Beside them: 4 bytes a document,
                                     8 a bucket of five and more and 8 for each place taken there */
    int         bands, rows;
    double      threshold;        /* above 0, up to 1 */
} MinHashPlan;

/* Fills the shingles of a document that was added (shingles_of; near makes the set). Many threads call at the same time,
 * no two with the same worker, which is below the size of the team. */
typedef Status MinHashRead(void *context, int worker, int64_t document, Shingles *shingles);
typedef void   MinHashTold(void *context, int64_t removed, int64_t kept, double jaccard);

typedef struct {
    Team        *team;
    const Exact *exact;           /* settled, of the same documents: who goes there has no part in this; NULL: all take part */
    MinHashRead    *read;
    MinHashTold    *told;            /* each removed document in order, by one thread; NULL: nobody asks */
    void        *context;
} MinHashReading;

typedef struct {
    int64_t documents, too_short;
    int64_t keys, buckets;        /* buckets of two documents and more */
    int64_t large, largest;       /* those of five and more; documents of the largest */
    int64_t unlisted;             /* kept documents that found no place in a bucket, a count for each bucket */
    int64_t pairs;                /* candidate pairs, each once */
    int64_t compared, read;       /* pairs of sets held against each other, sets asked for: these depend on memory */
    int64_t removed, clusters;    /* clusters: kept documents for which others went */
    int64_t disk;                 /* bytes that went to disk */
} MinHashCounts;

typedef struct MinHash MinHash;
Status  minhash_open   (MinHash **near, const MinHashPlan *plan);
int     minhash_bands  (const MinHash *near);
bool    minhash_keys   (const MinHash *near, uint64_t *key, const Shingles *shingles);    /* key: one a band; all 0 if too short */
Status  minhash_add    (MinHash *near, const uint64_t *key);
Status  minhash_resolve (MinHash *near, const MinHashReading *reading);                       /* once, after the last */
int64_t minhash_keeper (const MinHash *near, int64_t document);             /* for whom it went, itself where it is kept */
MinHashCounts minhash_counts(const MinHash *near);
void    minhash_close  (MinHash *near);
#endif
