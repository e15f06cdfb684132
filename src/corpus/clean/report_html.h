#ifndef CORPUS_CLEAN_REPORT_HTML_H
#define CORPUS_CLEAN_REPORT_HTML_H
/* The report as one page with bars, which needs nothing else. */
#include "corpus/clean/document_filter.h"
#include "corpus/clean/counts.h"

Status report_html_make(Buffer *out, const DocumentFilter *filter, const CleanCounts *counts);
#endif
