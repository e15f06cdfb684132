#ifndef CORPUS_CLEAN_RUN_H
#define CORPUS_CLEAN_RUN_H
/* A run of `clean`, which its stages share. */
#include <stdio.h>
#include "corpus/clean/document_filter.h"
#include "corpus/clean/progress_file.h"

/* What the second stage finds. */
typedef struct {
    int64_t  documents;
    Exact   *exact;                 /* NULL: no exact deduplication */
    MinHash *minhash;               /* owned by the DocumentFilter; NULL: no near-duplicate detection */
    /* [documents], of a near-duplicate with the document kept for it; NULL: no --pairs */
    float   *jaccard;
    /* Lines or paragraphs of the kept documents, in order; NULL: not asked for. */
    Exact   *parts;
} DuplicateSets;

typedef struct {
    const CleanPlan *plan;
    char             folder[1024];          /* the work directory, where sorting spills as well */
    Buffer           identity;              /* text: all that the result depends on */
    DocumentFilter   filter;
    CleanCounts     *counts;                /* every stage adds to them */
    ProgressFile     progress;              /* where reading resumes; then where it has come */
    DocumentStore   *store;
    DuplicateSets    duplicates;
    int              lock;                  /* descriptor of the lock file; -1: not open */
    bool             claimed;               /* this process alone uses the directory */
} CleanRun;

/* The first stage: reads the inputs with several threads, passes each document through the filter, and
 * appends those that pass to the document store, in the order of the inputs. Resumes at run->progress and
 * saves progress every plan->part_bytes bytes; that of a sample is not saved. INTERRUPTED: *plan->stop was
 * set and progress is saved. A damaged record or file is counted, logged and skipped. */
Status clean_scan(CleanRun *run);
/* The second: deduplication over all documents of the store. Of each set of duplicates the first document in
 * input order is kept. INTERRUPTED: *plan->stop was set. */
Status clean_resolve_duplicates(CleanRun *run);
/* The last: writes the documents that are kept, in input order, and on request what was dropped, the clusters
 * and the pairs of duplicates. Every file appears complete or not at all (sink.h). Counts duplicates, kept
 * and written documents; of a sample that is all. INTERRUPTED: *plan->stop was set; the file being written is
 * discarded, and the resumed run repeats this stage from its beginning. */
Status clean_write(CleanRun *run);
/* The path of output file `number`: with shards "sv.jsonl.zst" gives "sv-00007.jsonl.zst"; without, the
 * output itself. BAD_OPTION: the path is too long. */
Status write_path(char *out, size_t size, const CleanPlan *plan, int64_t number);
/* Whether and why the document is dropped: DROP_KEPT, DROP_EXACT or DROP_NEAR. */
int     duplicate_sets_reason(const DuplicateSets *duplicates, int64_t document);
/* The document that is kept for this one: itself where it is kept. Exact keepers exist only with
 * --dropped, --clusters or --pairs. */
int64_t duplicate_sets_keeper(const DuplicateSets *duplicates, int64_t document);

/* The result as a table for the terminal and, with plan->report, as JSON, from which a page is made. Neither
 * contains times or the number of workers, so the same input gives the same bytes. */
void   report_print(FILE *out, const CleanPlan *plan, const CleanCounts *counts);
Status report_write(const CleanRun *run);
#endif
