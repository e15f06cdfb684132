#ifndef CORPUS_DEDUP_MINHASH_H
#define CORPUS_DEDUP_MINHASH_H
/* Near-duplicate detection by MinHash signatures and banding (locality-sensitive hashing: Broder 1997;
 * Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3), with every candidate pair
 * verified by the exact Jaccard index of the shingle sets. So the bands only choose which documents are
 * compared, and a false-positive pair costs time, not a document. A document is removed if an earlier
 * document that is kept has a Jaccard index of at least `threshold` with it, and only then; removed
 * documents remove no others, so there are no chains. The result depends neither on the number of threads
 * nor on memory.
 *
 *     minhash_open(&minhash, &(MinHashPlan){ .folder = work, .memory = 1 << 30, .bands = 18,
 *                                        .rows = 7, .threshold = 0.8 });
 *     ...    minhash_keys(minhash, key, &shingles)            by any thread
 *     ...    minhash_add(minhash, key)                        by one thread: documents are numbered from 0
 *     minhash_resolve(minhash, &(MinHashReading){ .team = team, .exact = exact, .read = ... });
 *     ...    minhash_keeper(minhash, document) == document    the document is kept
 *
 * A bucket is the documents with an equal band. In a bucket of up to five documents all are compared. From
 * the fifth on, a document is compared with the first MINHASH_LISTED documents that were kept in the bucket
 * and with the last two before it, so time is linear in the size of a bucket. A candidate that was removed
 * is replaced by the document that was kept for it. So a cluster of near-duplicates takes one entry in the
 * list of a bucket that many clusters share, and is found there even after the list is full. */
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
    /* Work folder for what exceeds memory, and for a file of the shingle sets of documents with candidates: 8
     * bytes a shingle and 16 a document. */
    const char *folder;
    /* Bytes of keys and pairs held at one time. In addition: 4 bytes per document, 8 per bucket of five and
     * more documents and 8 per kept document listed in one. */
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
    int64_t compared, read;         /* set comparisons made; sets read */
    int64_t removed, clusters;      /* clusters: kept documents for which others were removed */
    int64_t disk;                   /* bytes written to the work folder */
} MinHashCounts;

typedef struct MinHash MinHash;

/* minhash_open, minhash_add and minhash_resolve fail with NO_MEMORY, with IO_FAILED where the work folder
 * is full, and with BAD_OPTION where the plan is out of range or there are 2^32 - 2 documents. */
Status  minhash_open   (MinHash **minhash, const MinHashPlan *plan);  /* *minhash is NULL after a failure */
int     minhash_bands  (const MinHash *minhash);
/* key: [bands], one per band. Shingles: a set. False and all keys 0: the document has no shingles, so only
 * exact deduplication applies; it must be added all the same, since documents are numbered by minhash_add. */
bool    minhash_keys   (const MinHash *minhash, uint64_t *key, const Shingles *shingles);
Status  minhash_add    (MinHash *minhash, const uint64_t *key);
Status  minhash_resolve(MinHash *minhash, const MinHashReading *reading);  /* once, after the last document */
/* The document kept for it; itself if it is kept. */
int64_t minhash_keeper (const MinHash *minhash, int64_t document);
MinHashCounts minhash_counts(const MinHash *minhash);                   /* complete after minhash_resolve */
void    minhash_close  (MinHash *minhash);                              /* NULL is allowed */
#endif
