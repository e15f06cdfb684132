#ifndef CORPUS_DEDUP_MINHASH_LISTS_H
#define CORPUS_DEDUP_MINHASH_LISTS_H
/* What settling reads of a part of the documents, by document, and the kept documents of large buckets. */
#include "corpus/dedup/minhash_internal.h"

/* A document with candidates: who stands before it in small buckets and large, and the large buckets it is in */
typedef struct { uint32_t document; const uint32_t *before, *bucket; int64_t befores, buckets; } MinHashAsked;
typedef struct { MinHashAsked *asked; int64_t askeds; uint32_t *before, *bucket; } MinHashPart;
Status minhash_part_read(MinHashPart *part, MinHash *near, int number);          /* takes it from the spills */
void   minhash_part_free(MinHashPart *part);

/* last: the place of the one listed last, 0 where there is none, and from there `before` to before */
typedef struct { uint32_t last, count; } MinHashList;
typedef struct { uint32_t document, before; } MinHashPlace;
typedef struct { MinHashList *bucket; MinHashPlace *place; int64_t places, places_room, unlisted; } MinHashLists;
Status minhash_lists_open(MinHashLists *lists, int64_t buckets);
Status minhash_lists_add (MinHashLists *lists, uint32_t bucket, uint32_t document);      /* while it has a place */
void   minhash_lists_free(MinHashLists *lists);
#endif
