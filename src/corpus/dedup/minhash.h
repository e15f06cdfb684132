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
#include "corpus/dedup/minhash_plan.h"

Status  minhash_open   (MinHash **near, const MinHashPlan *plan);
int     minhash_bands  (const MinHash *near);
bool    minhash_keys   (const MinHash *near, uint64_t *key, const Shingles *shingles);    /* key: one a band; all 0 if too short */
Status  minhash_add    (MinHash *near, const uint64_t *key);
Status  minhash_resolve (MinHash *near, const MinHashReading *reading);                       /* once, after the last */
int64_t minhash_keeper (const MinHash *near, int64_t document);             /* for whom it went, itself where it is kept */
MinHashCounts minhash_counts(const MinHash *near);
void    minhash_close  (MinHash *near);
#endif
