#ifndef CORPUS_CLEAN_WRITE_H
#define CORPUS_CLEAN_WRITE_H
/* The last part of a run: what stays, in the order of the inputs, to files that come whole or not at all; and what is told
 * of the rest. tally gets what duplicates are, what is kept and what is written.                                      */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/resolve_duplicates.h"
#include "corpus/clean/document_store.h"

typedef struct { int64_t clusters, largest, files; } CleanWritten;
/* Of the output the file of that number; where it is not cut, the only one: "sv.jsonl.zst" is "sv-00007.jsonl.zst" */
Status write_path(char *out, size_t size, const CleanPlan *plan, int64_t number);
Status write_all(CleanWritten *written, CleanCounts *counts, const DocumentFilter *filter, const DocumentStore *store, const DuplicateSets *duplicates);
#endif
