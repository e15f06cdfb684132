#ifndef CORPUS_DEDUP_EXACT_H
#define CORPUS_DEDUP_EXACT_H
/* Exact deduplication: of items with equal hashes all but the first are removed. Items are documents, or
 * lines or paragraphs of documents, numbered from 0 in the order in which they are added. Time is linear.
 * Hashes beyond `memory` bytes are written to a file of the work folder.
 *
 *     exact_open(&exact, &(ExactPlan){ .folder = work, .memory = 1 << 30 });
 *     ...    exact_hash(&hash, normalization, &space, text, bytes)      by any thread
 *     ...    exact_add(exact, hash)                                     by one thread, in order
 *     exact_resolve(exact, team);
 *     ...    exact_removed(exact, number)                               by any thread
 */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/team.h"
#include "corpus/dedup/shingle.h"
#include "text/pretokenize/normalizer.h"

typedef struct { uint64_t low, high; } Hash128;                      /* XXH3, 128 bits */

/* What is ignored when texts are compared. */
typedef struct { const char *name; bool words, digits, spaces; } ExactNormalization;
/* none, spaces, words or digits; NULL: no such row */
const ExactNormalization *exact_normalization_find(const char *name);

/* Buffers of exact_hash. Each thread has its own; begins as { 0 }. */
typedef struct { Shingles words; NormalizerBuffers text; } ExactSpace;
/* Hash of a text after normalization. A text of which normalization leaves nothing is hashed as it is, so
 * that texts of punctuation alone are not all equal. Fails only with NO_MEMORY. */
Status exact_hash(Hash128 *hash, const ExactNormalization *n, ExactSpace *space, const char *text,
                  int64_t bytes);
void   exact_space_free(ExactSpace *space);

/* Walks over the parts of a document that are compared: the document itself, its lines, or its paragraphs
 * (consecutive lines that are not blank). at: bytes already walked over; begins as 0. */
typedef enum { EXACT_DOCUMENTS, EXACT_LINES, EXACT_PARAGRAPHS } ExactUnit;
typedef struct { ExactUnit unit; const char *text; int64_t bytes, at; } ExactWalk;
/* Without its last newline; false: the end. */
bool exact_part(ExactWalk *walk, const char **text, int64_t *bytes);

typedef struct {
    const char *folder;     /* work folder for hashes beyond memory */
    int64_t     memory;     /* bytes */
    bool        narrow;     /* for lines: keeps 64 bits of each hash, 16 bytes per item instead of 24 */
    /* Also remember the first equal item of each: 4 bytes each, at most 2^32 - 2 items. */
    bool        keepers;
} ExactPlan;

typedef struct Exact Exact;
/* exact_open, exact_add and exact_resolve fail with NO_MEMORY, or IO_FAILED where the work folder is full;
 * exact_add with BAD_OPTION where `keepers` allows no more items. */
Status  exact_open    (Exact **exact, const ExactPlan *plan);           /* *exact is NULL after a failure */
Status  exact_add     (Exact *exact, Hash128 hash);
Status  exact_resolve (Exact *exact, Team *team);  /* once, after the last item */
/* After exact_resolve: */
bool    exact_removed (const Exact *exact, int64_t number);
int64_t exact_keeper  (const Exact *exact, int64_t number);  /* the first equal item, itself if it is that */
void    exact_close   (Exact *exact);                        /* NULL is allowed */
#endif
