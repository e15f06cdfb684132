#ifndef CORPUS_NEAR_INSIDE_H
#define CORPUS_NEAR_INSIDE_H
/* What the files of near duplicates share: keys (near.c) become candidate pairs (near_join.c), pairs are settled in the
 * order of documents (near_settle.c) by sets that are held for a while (near_sets.c).                               */
#include "corpus/near.h"
#include "corpus/near_sign.h"
#include "corpus/spill.h"

typedef struct { uint32_t low, high, document; } NearEntry;          /* the two halves of a band's key: 12 bytes */
typedef struct { uint32_t document, before; } NearPair;              /* a candidate stands before it */
typedef struct { uint32_t document, bucket; } NearMember;            /* of a large bucket, numbered from 0 */

struct Near {
    NearPlan   plan;
    Sign       sign;
    Spill     *keys, *pairs, *members;
    int        parts;                  /* of pairs and members, by document */
    uint32_t  *keeper;
    NearCounts counts;
};

/* The part that a document's pairs and buckets are in: in order */
static inline int near_part(const Near *near, int64_t document)
{
    return (int)(document * near->parts / near->counts.documents);
}

Status near_join(Near *near, const NearReading *reading);

/* ---- sets of shingles, asked for ahead by one thread, filled by all, found by any ---- */
typedef struct { uint32_t document; int64_t used; Shingles set; } NearSet;
typedef struct {
    NearSet  *set;   int64_t sets, sets_room;
    uint32_t *slot;  uint64_t slots;
    int64_t   filled;                         /* sets before this one are filled */
    int64_t   bytes, here, most;              /* held; of the last round; that may be held */
    int64_t   round;
    int64_t   read;
} NearSets;
Status near_sets_want(NearSets *s, uint32_t document);                     /* in this round */
Status near_sets_fill(NearSets *s, const NearReading *reading);
const Shingles *near_sets_find(const NearSets *s, uint32_t document);      /* wanted and filled */
Status near_sets_turn(NearSets *s);                                        /* the round ends */
void   near_sets_free(NearSets *s);
#endif
