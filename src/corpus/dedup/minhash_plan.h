#ifndef CORPUS_NEAR_PLAN_H
#define CORPUS_NEAR_PLAN_H
/* What a search for near duplicates is given and what it counts: see corpus/dedup/minhash.h. */
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
#endif
