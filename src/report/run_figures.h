#ifndef REPORT_RUN_FIGURES_H
#define REPORT_RUN_FIGURES_H
/* The charts of one run on a page. */
#include "report/run_columns.h"

/* number: of the run on the page, which makes the figures' names unique */
void run_figures_put(FILE *out, const RunRecord *run, int number);
#endif
