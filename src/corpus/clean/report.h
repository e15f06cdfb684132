#ifndef CORPUS_CLEAN_REPORT_H
#define CORPUS_CLEAN_REPORT_H
/* The result of a run as a table for the terminal and as JSON, from which a page is made. Neither
 * contains times or the number of workers, so the same input gives the same bytes. */
#include <stdio.h>
#include "corpus/clean/document_filter.h"
#include "corpus/clean/counts.h"

void   report_print(FILE *out, const CleanPlan *plan, const CleanCounts *counts);
/* Writes plan->report (JSON); OK without plan->report.
 * minhash NULL: near-duplicate detection was off. */
Status report_write(const DocumentFilter *filter, const CleanCounts *counts, const MinHashCounts *minhash);
/* The path of its page, which is written by who has the command: "a/report.json" gives "a/report.html". */
void   report_page_path(char *out, size_t size, const char *path);
#endif
