#ifndef CORPUS_NEAR_LISTS_H
#define CORPUS_NEAR_LISTS_H
/* What settling reads of a part of the documents, by document, and the kept documents of large buckets. */
#include "corpus/near_inside.h"

/* A document with candidates: who stands before it in small buckets and large, and the large buckets it is in */
typedef struct { uint32_t document; const uint32_t *before, *bucket; int64_t befores, buckets; } NearAsked;
typedef struct { NearAsked *asked; int64_t askeds; uint32_t *before, *bucket; } NearPart;
Status near_part_read(NearPart *part, Near *near, int number);          /* takes it from the spills */
void   near_part_free(NearPart *part);

/* last: the place of the one listed last, 0 where there is none, and from there `before` to before */
typedef struct { uint32_t last, count; } NearList;
typedef struct { uint32_t document, before; } NearPlace;
typedef struct { NearList *bucket; NearPlace *place; int64_t places, places_room, unlisted; } NearLists;
Status near_lists_open(NearLists *lists, int64_t buckets);
Status near_lists_add (NearLists *lists, uint32_t bucket, uint32_t document);      /* while it has a place */
void   near_lists_free(NearLists *lists);
#endif
