#ifndef CORPUS_DEDUP_MINHASH_LISTS_H
#define CORPUS_DEDUP_MINHASH_LISTS_H
/* The inputs of resolving, document by document: candidates from small buckets, and the lists of kept
 * documents of large buckets. */
#include "corpus/dedup/minhash_internal.h"

/* A document with candidates: earlier[earliers], the earlier documents that share a small bucket with it or
 * precede it in a large one, and bucket[buckets], the large buckets that it is in. `earlier` is
 * sorted and has no duplicates; both point into the part. */
typedef struct {
    uint32_t        document;
    const uint32_t *earlier, *bucket;
    int64_t         earliers, buckets;
} MinHashQuery;
typedef struct { MinHashQuery *query; int64_t queries; uint32_t *earlier, *bucket; } MinHashPart;
/* Reads part `number` and drops it from the spills; frees what the part held before. */
Status minhash_part_read(MinHashPart *part, MinHash *minhash, int number);
void   minhash_part_free(MinHashPart *part);

/* The kept documents of all large buckets, as singly linked lists in one array. `last` is the newest node
 * of a bucket, and `previous` leads to older ones; 0 ends a list. */
typedef struct { uint32_t last, count; } MinHashList;
typedef struct { uint32_t document, previous; } MinHashNode;
typedef struct {
    MinHashList *bucket;                            /* [large buckets] */
    MinHashNode *node;                              /* [nodes]; node 0 is unused */
    int64_t      nodes, nodes_capacity, unlisted;   /* unlisted: documents that a full list did not take */
} MinHashLists;
Status minhash_lists_open(MinHashLists *lists, int64_t buckets);
/* A full list counts it only. */
Status minhash_lists_add (MinHashLists *lists, uint32_t bucket, uint32_t document);
void   minhash_lists_free(MinHashLists *lists);
#endif
