#ifndef CORPUS_CLEAN_RESOLVE_DUPLICATES_H
#define CORPUS_CLEAN_RESOLVE_DUPLICATES_H
/* The second part of a run: which documents of the store stay when all are seen together. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/document_store.h"

typedef struct {
    int64_t documents;
    Exact  *exact;                  /* NULL: not asked for */
    MinHash   *near;                   /* the judge's */
    float  *jaccard;                /* of near duplicates with what they went for; NULL: nobody asks */
    Exact  *parts;                  /* of the documents that stay, in order; NULL: not asked for */
} DuplicateSets;

Status  clean_resolve_duplicates(DuplicateSets *duplicates, const DocumentFilter *filter, const DocumentStore *store, const char *folder);
void    duplicate_sets_close (DuplicateSets *duplicates);
int     duplicate_sets_reason  (const DuplicateSets *duplicates, int64_t document);       /* DROP_KEPT, DROP_EXACT, DROP_NEAR */
int64_t duplicate_sets_keeper(const DuplicateSets *duplicates, int64_t document);       /* which stays for it; itself where it stays */
#endif
