#ifndef CORPUS_DEDUP_CONTAMINATION_H
#define CORPUS_DEDUP_CONTAMINATION_H
/* Text of test sets within training documents: every n words that follow each other in a test set (n-grams, of the words
 * of corpus/dedup/shingle.h), looked up in a document. Opened once, then read by any number of threads. Memory: at most 192
 * bytes for each different n-gram of the test sets; a document adds at most 80 bytes for each hit.                      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { CONTAMINATION_WORDS = 13, CONTAMINATION_SIDE = 200, CONTAMINATION_PIECE = 200, CONTAMINATION_CUTS = 10 };

typedef struct {
    const char *const *path;  int paths;          /* files as corpus/read/source.h reads them */
    const char *key;                              /* of JSON lines */
    int words;                                    /* n */
} ContaminationPlan;

typedef struct Contamination Contamination;
Status  contamination_open (Contamination **c, const ContaminationPlan *plan);
int64_t contamination_grams(const Contamination *c);                /* different ones */
int64_t contamination_short(const Contamination *c);                /* texts of test sets with fewer than n words: not looked for */
void    contamination_close(Contamination *c);

/* Where an n-gram stands in the document, and where it stood first in the test sets: the text is the text-th of that file
 * and the word the word-th of it, both from 1 */
typedef struct { int64_t from, end; int file; int64_t text, word; } ContaminationHit;
typedef struct { int64_t from, end; } ContaminationPiece;
typedef struct {                                  /* one per thread; begins as { 0 } */
    ContaminationHit   *hit;    int64_t hits,   hits_room;
    ContaminationPiece *piece;  int64_t pieces, pieces_room;
    int64_t             cuts;
} ContaminationFound;

/* All hits, in order */
Status contamination_find(const Contamination *c, ContaminationFound *found, const char *text, int64_t bytes);
/* What stays of the document when each hit goes with `side` characters before and behind it, and the word that would be
 * cut through there; pieces of fewer than `piece` characters go as well. More than `cuts` cuts: no piece stays. */
typedef struct { int64_t side, piece, cuts; } ContaminationCut;
Status contamination_cut (ContaminationFound *found, ContaminationCut cut, const char *text, int64_t bytes);
void   contamination_found_free(ContaminationFound *found);
#endif
