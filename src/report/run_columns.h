#ifndef REPORT_RUN_COLUMNS_H
#define REPORT_RUN_COLUMNS_H
/* The points of a run as columns for charts, in at most COLUMNS_MOST rows, which are means of neighbours. */
#include "chart/chart.h"
#include "report/run_record.h"

enum { COLUMNS_MOST = 512 };
/* Over what a curve is drawn. */
typedef enum { OVER_STEPS, OVER_TOKENS, OVER_FLOPS, OVER_HOURS, OVERS } RunOver;
extern const char *const run_over_names[OVERS];

/* joined: rows are of several steps, so that low and high, at the steps low_at and high_at,
 * tell more than value */
typedef struct {
    int    count;
    bool   joined;
    double over[OVERS][COLUMNS_MOST];
    double value[RUN_NUMBERS][COLUMNS_MOST], low[RUN_NUMBERS][COLUMNS_MOST], high[RUN_NUMBERS][COLUMNS_MOST];
    double low_at[RUN_NUMBERS][COLUMNS_MOST], high_at[RUN_NUMBERS][COLUMNS_MOST];
    double smooth[RUN_NUMBERS][COLUMNS_MOST];
} RunColumns;

/* most: rows, up to COLUMNS_MOST. The caller frees it with free(). */
RunColumns *run_columns_make(const RunRecord *run, int most);
/* The evaluations of a split; returns how many rows there are, the last ones where they are more than most.
 */
int run_columns_evaluations(double over[OVERS][COLUMNS_MOST], double loss[COLUMNS_MOST],
                            double bits[COLUMNS_MOST], const RunRecord *run, const char *split, int most);
/* Names of the splits that were evaluated, in the order of their first evaluation; returns how many. A run
 * has at most 32 validation sets, a test set, and a name that an earlier start gave. */
enum { SPLITS_MOST = 34 };
int         run_columns_splits(const char *name[SPLITS_MOST], const RunRecord *run);
/* Whether a logarithmic axis shows a column better: all values are above 0, and the largest is `times` the
 * least one. */
bool        run_columns_log(const double *value, int count, double times);
bool        run_columns_has(const double *value, int count);              /* one that is finite */
#endif
