#ifndef CLEAN_PAGE_H
#define CLEAN_PAGE_H
/* The report as one page with bars, which needs nothing else. */
#include "clean/judge.h"
#include "clean/tally.h"

Status page_make(Buffer *out, const Judge *judge, const Tally *tally);
#endif
