#ifndef CORPUS_CLEAN_SCAN_H
#define CORPUS_CLEAN_SCAN_H
/* The first part of a run: files to what of their documents passes the stages, in the store. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/progress_file.h"

typedef struct {
    const CleanPlan *plan;
    const DocumentFilter     *filter;
    const char      *folder, *identity;     /* of the ledger; folder NULL: a sample, of which nothing is kept */
    DocumentStore           *store;
    ProgressFile           progress;
    CleanCounts           *counts;
} CleanScan;

/* Goes on where the ledger stands. INTERRUPTED: what is done is kept. */
Status clean_scan(CleanScan *g);
#endif
