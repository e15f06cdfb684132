#ifndef CORPUS_DEDUP_CONTAMINATION_H
#define CORPUS_DEDUP_CONTAMINATION_H
/* Decontamination: finds text of test sets in training documents by exact n-gram matches, as GPT-3 did
 * (Brown et al. 2020, appendix C, n = 13). Every n consecutive words of a test set (words of
 * corpus/dedup/shingle.h) are stored in a hash table and looked up for each document; the matches and their
 * surroundings can then be cut out. Opened once, then read by any number of threads. Memory: at most 192
 * bytes for each distinct n-gram of the test sets, and at most 80 bytes for each hit of a document. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { CONTAMINATION_WORDS = 13, CONTAMINATION_SIDE = 200, CONTAMINATION_PIECE = 200,
       CONTAMINATION_CUTS = 10 };

typedef struct {
    const char *const *path;  int paths;    /* [paths] test sets, files as corpus/read/source.h reads them */
    const char        *key;                 /* of the text in JSON lines */
    int                words;               /* n, from 1 to SHINGLE_WORDS_MOST */
} ContaminationPlan;

typedef struct Contamination Contamination;
/* BAD_OPTION: n is out of range. BAD_FILE: a test set cannot be read. *c is NULL after a failure. */
Status  contamination_open (Contamination **c, const ContaminationPlan *plan);
/* Test texts of fewer than n words, which are not searched. */
int64_t contamination_short(const Contamination *c);
void    contamination_close(Contamination *c);        /* NULL is allowed */

/* Where an n-gram is in the document (bytes, `end` exclusive), and where it occurred first in the test
 * sets: text number `text` of file number `file` and in it word number `word`; texts and words count from
 * 1, files from 0. */
typedef struct { int64_t from, end; int file; int64_t text, word; } ContaminationHit;
typedef struct { int64_t from, end; } ContaminationPiece;           /* bytes of the document that are kept */

/* Results for one document. Each thread has its own and reuses it; begins as { 0 }. */
typedef struct {
    ContaminationHit   *hit;    int64_t hits,   hits_capacity;      /* by contamination_find, in order */
    ContaminationPiece *piece;  int64_t pieces, pieces_capacity;    /* by contamination_cut, in order */
    int64_t             cuts;                                       /* by contamination_cut */
} ContaminationFound;

/* Finds all hits; drops the results of the document before. Fails only with NO_MEMORY. */
Status contamination_find(const Contamination *c, ContaminationFound *found, const char *text, int64_t bytes);

/* What is kept of the document after contamination_find. Each hit is cut out with `side` characters before
 * and after it, extended to whole words; overlapping cuts are one. Kept pieces of fewer than `piece`
 * characters are dropped, and with more than `cuts` cuts nothing is kept. */
typedef struct { int64_t side, piece, cuts; } ContaminationCut;
Status contamination_cut (ContaminationFound *found, ContaminationCut cut, const char *text, int64_t bytes);
void   contamination_found_free(ContaminationFound *found);
#endif
