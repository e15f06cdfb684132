#ifndef CORPUS_CLEAN_PAGE_H
#define CORPUS_CLEAN_PAGE_H
/* The report as one page with bars, which needs nothing else. */
#include "corpus/clean/judge.h"
#include "corpus/clean/tally.h"

Status page_make(Buffer *out, const Judge *judge, const Tally *tally);
#endif
