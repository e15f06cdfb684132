#ifndef CORPUS_DEDUP_MINHASH_PLAN_H
#define CORPUS_DEDUP_MINHASH_PLAN_H
/* Parameters, callbacks and counts of near-duplicate detection: see corpus/dedup/minhash.h. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/team.h"
#include "corpus/dedup/exact.h"
#include "corpus/dedup/shingle.h"

/* With b bands of r rows, documents of Jaccard index s become candidates with probability 1 - (1 - s^r)^b:
 * at 18 x 7 that is 0.986 for s = 0.8 and 0.132 for s = 0.5. MINHASH_LISTED: kept documents that a large
 * bucket lists. */
enum { MINHASH_BANDS = 18, MINHASH_ROWS = 7, MINHASH_PERMUTATIONS_MOST = 1024, MINHASH_LISTED = 32 };

typedef struct {
    const char *folder;     /* work folder for what exceeds memory */
    /* Bytes of keys, pairs and shingle sets held at one time. In addition: 4 bytes per document, 8 per
     * bucket of five and more documents and 8 per kept document listed in one. */
    int64_t     memory;
    int         bands, rows;
    double      threshold;  /* Jaccard index, above 0, up to 1 */
} MinHashPlan;

/* Reads the shingles of a document that was added, by shingles_of; duplicates among them are removed by the
 * caller. Called by many threads at the same time, no two with the same `worker`, which is below the size
 * of the team. */
typedef Status MinHashRead(void *context, int worker, int64_t document, Shingles *shingles);
typedef void   MinHashRemoved(void *context, int64_t removed, int64_t kept, double jaccard);

typedef struct {
    Team           *team;
    /* Resolved, of the same documents: what it removes takes no part. NULL: all documents take part. */
    const Exact    *exact;
    MinHashRead    *read;
    /* Called for each removed document, in order, on one thread; NULL: no call. */
    MinHashRemoved *on_removed;
    void           *context;
} MinHashReading;

typedef struct {
    int64_t documents, too_short;   /* too_short: without shingles */
    int64_t keys, buckets;          /* buckets: of two documents and more */
    int64_t large, largest;         /* buckets of five documents and more; documents of the largest */
    /* Kept documents that a full list could not take, counted once per bucket. */
    int64_t unlisted;
    /* Distinct candidate pairs of small buckets and of neighbours in large ones. */
    int64_t pairs;
    /* Set comparisons made; sets read. Both depend on memory, the result does not. */
    int64_t compared, read;
    int64_t removed, clusters;      /* clusters: kept documents for which others were removed */
    int64_t disk;                   /* bytes written to the work folder */
} MinHashCounts;

typedef struct MinHash MinHash;
#endif
