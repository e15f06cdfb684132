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
#include "corpus/dedup/minhash_plan.h"

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
