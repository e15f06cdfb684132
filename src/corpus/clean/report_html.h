#ifndef CORPUS_CLEAN_REPORT_HTML_H
#define CORPUS_CLEAN_REPORT_HTML_H
/* The report as one HTML page with bar charts. It refers to no other file, so it can be mailed or opened
 * offline. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/counts.h"

/* Appends the page to `out`. NO_MEMORY is the only failure. */
Status report_html_make(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts);
#endif
