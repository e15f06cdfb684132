#ifndef CORPUS_CLEAN_SCAN_H
#define CORPUS_CLEAN_SCAN_H
/* The first stage of a run: reads the inputs with several threads, passes each document through the
 * filter, and appends those that pass to the document store, in the order of the inputs. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/progress_file.h"

typedef struct {
    const CleanPlan      *plan;
    const DocumentFilter *filter;
    /* Of the progress file; NULL: a sample, whose progress is not saved. */
    const char           *folder;
    const char           *identity;     /* of the progress file */
    DocumentStore        *store;
    ProgressFile          progress;     /* in: where to resume; out: the end */
    CleanCounts          *counts;       /* added to */
} CleanScan;

/* Resumes at scan->progress and saves progress every plan->part_bytes bytes. INTERRUPTED: *plan->stop was
 * set and progress is saved. A damaged record or file is counted, logged and skipped. */
Status clean_scan(CleanScan *scan);
#endif
