#ifndef CORPUS_CLEAN_RESOLVE_DUPLICATES_H
#define CORPUS_CLEAN_RESOLVE_DUPLICATES_H
/* The second stage of a run: deduplication over all documents of the store. Of each set of duplicates the
 * first document in input order is kept. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/document_store.h"

typedef struct {
    int64_t  documents;
    Exact   *exact;                 /* NULL: no exact deduplication */
    MinHash *minhash;               /* owned by the DocumentFilter; NULL: no near-duplicate detection */
    /* [documents], of a near-duplicate with the document kept for it; NULL: no --pairs */
    float   *jaccard;
    /* Lines or paragraphs of the kept documents, in order; NULL: not asked for. */
    Exact   *parts;
} DuplicateSets;

/* folder: where sorting spills beyond plan->memory. INTERRUPTED: *plan->stop was set. On failure
 * `duplicates` is in a state that duplicate_sets_close accepts. */
Status  clean_resolve_duplicates(DuplicateSets *duplicates, const DocumentFilter *filter,
                                 const DocumentStore *store, const char *folder);
void    duplicate_sets_close (DuplicateSets *duplicates);
/* Whether and why the document is dropped: DROP_KEPT, DROP_EXACT or DROP_NEAR. */
int     duplicate_sets_reason(const DuplicateSets *duplicates, int64_t document);
/* The document that is kept for this one: itself where it is kept. Exact keepers exist only with
 * --dropped, --clusters or --pairs. */
int64_t duplicate_sets_keeper(const DuplicateSets *duplicates, int64_t document);
#endif
