#ifndef CORPUS_CLEAN_WRITE_H
#define CORPUS_CLEAN_WRITE_H
/* The last stage of a run: writes the documents that are kept, in input order, and on request what was
 * dropped, the clusters and the pairs of duplicates. Every file appears complete or not at all (sink.h). */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/resolve_duplicates.h"
#include "corpus/clean/document_store.h"

/* The path of output file `number`: with shards "sv.jsonl.zst" gives "sv-00007.jsonl.zst"; without, the
 * output itself. BAD_OPTION: the path is too long. */
Status write_path(char *out, size_t size, const CleanPlan *plan, int64_t number);
/* Adds duplicates, kept and written documents to `counts`. A sample is only counted. INTERRUPTED:
 * *plan->stop was set; the file being written is discarded, and the resumed run repeats this stage from
 * its beginning. */
Status write_all(CleanCounts *counts, const DocumentFilter *filter,
                 const DocumentStore *store, const DuplicateSets *duplicates);
#endif
