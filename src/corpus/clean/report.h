#ifndef CORPUS_CLEAN_REPORT_H
#define CORPUS_CLEAN_REPORT_H
/* What a run did: a table for a person, JSON for a program, a page with bars. The same input gives the same bytes. */
#include <stdio.h>
#include "corpus/clean/document_filter.h"
#include "corpus/clean/counts.h"

void   report_print(FILE *out, const CleanPlan *plan, const CleanCounts *counts);
Status report_write(const DocumentFilter *filter, const CleanCounts *counts, const MinHashCounts *near);    /* plan->report and .html beside it */
void   report_page_path(char *out, size_t size, const char *path);
#endif
