#ifndef CORPUS_CLEAN_SETTLE_H
#define CORPUS_CLEAN_SETTLE_H
/* The second part of a run: which documents of the stash stay when all are seen together. */
#include "corpus/clean/judge.h"
#include "corpus/clean/stash.h"

typedef struct {
    int64_t documents;
    Exact  *exact;                  /* NULL: not asked for */
    Near   *near;                   /* the judge's */
    float  *jaccard;                /* of near duplicates with what they went for; NULL: nobody asks */
    Exact  *parts;                  /* of the documents that stay, in order; NULL: not asked for */
} Settled;

Status  settle(Settled *settled, const Judge *judge, const Stash *stash, const char *folder);
void    settled_close (Settled *settled);
int     settled_rule  (const Settled *settled, int64_t document);       /* RULE_KEPT, RULE_EXACT, RULE_NEAR */
int64_t settled_keeper(const Settled *settled, int64_t document);       /* which stays for it; itself where it stays */
#endif
