#ifndef CORPUS_CLEAN_GATHER_H
#define CORPUS_CLEAN_GATHER_H
/* The first part of a run: files to what of their documents passes the stages, in the stash. */
#include "corpus/clean/judge.h"
#include "corpus/clean/ledger.h"

typedef struct {
    const CleanPlan *plan;
    const Judge     *judge;
    const char      *folder, *identity;     /* of the ledger; folder NULL: a sample, of which nothing is kept */
    Stash           *stash;
    Ledger           ledger;
    Tally           *tally;
} Gather;

/* Goes on where the ledger stands. INTERRUPTED: what is done is kept. */
Status gather(Gather *g);
#endif
