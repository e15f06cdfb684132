#ifndef CORPUS_DEDUP_EXACT_H
#define CORPUS_DEDUP_EXACT_H
/* Exact duplicates: of things with equal hashes all but the first are marked. Things are documents, or lines or paragraphs
 * of them, numbered from 0 in the order they are added. Time is linear; beyond `memory` hashes wait on disk.
 *
 *     exact_open(&exact, &(ExactPlan){ .folder = work, .memory = 1 << 30 });
 *     ...    exact_add(exact, exact_hash(normalization, &space, text, bytes));      hashes by any thread, adding by one
 *     exact_resolve(exact, team);
 *     ...    exact_removed(exact, number)                                                                            */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/team.h"
#include "corpus/dedup/shingle.h"

typedef struct { uint64_t low, high; } Hash128;
typedef struct { const char *name, *help; bool words, digits, spaces; } ExactNormalization;

const ExactNormalization *exact_normalization(int row);              /* NULL behind the last: none, spaces, words, digits */
const ExactNormalization *exact_normalization_find(const char *name);          /* NULL: no such row */

/* Of a text in its normalization; a text of which nothing would be left is hashed as it is. space: one per thread */
typedef struct { Shingles words; struct { uint8_t *data; int64_t room; } text[2]; } ExactSpace;
Status exact_hash(Hash128 *hash, const ExactNormalization *n, ExactSpace *space, const char *text, int64_t bytes);
void   exact_space_free(ExactSpace *space);

/* The next stretch of a document that is to be held against others: a line, or a paragraph (up to blank lines). */
typedef enum { EXACT_DOCUMENTS, EXACT_LINES, EXACT_PARAGRAPHS } ExactUnit;
typedef struct { ExactUnit unit; const char *text; int64_t bytes, at; } ExactWalk;
bool exact_part(ExactWalk *walk, const char **text, int64_t *bytes);           /* without the line ends at its end */

typedef struct {
    const char *folder;           /* for what goes beyond memory */
    int64_t     memory;           /* bytes */
    bool        narrow;           /* lines: only the lower 64 bits are kept, 16 bytes a line; else 24 a document */
    bool        keepers;          /* remember for each thing which one is its first: 4 bytes each, up to 2^32 - 2 things */
} ExactPlan;

typedef struct Exact Exact;
Status  exact_open   (Exact **exact, const ExactPlan *plan);
Status  exact_add    (Exact *exact, Hash128 hash);
int64_t exact_count  (const Exact *exact);                              /* things added: the next one's number */
Status  exact_resolve (Exact *exact, Team *team);                        /* once, after the last */
bool    exact_removed(const Exact *exact, int64_t number);
int64_t exact_keeper (const Exact *exact, int64_t number);              /* the first equal one, itself where it is that */
int64_t exact_removals(const Exact *exact);
int64_t exact_disk   (const Exact *exact);                              /* bytes that went to disk */
void    exact_close  (Exact *exact);
#endif
