#ifndef REPORT_RUN_POINTS_H
#define REPORT_RUN_POINTS_H
/* The points of a run's curves: at most RUN_POINTS_MOST, of which older ones are joined where there are too
 * many. The newest RUN_POINTS_APART lines stay as they are until all are read, so that what a resume takes
 * again is taken away line by line. */
#include <stdint.h>

/* The rows of run_numbers, in this order. */
typedef enum { RUN_LOSS, RUN_LR, RUN_NORM, RUN_SECONDS, RUN_WAITED, RUN_SPEED, RUN_MFU, RUN_MEMORY, RUN_SCALE,
               RUN_EXPERT_LOAD, RUN_DROPPED, RUN_BALANCE, RUN_Z,
               RUN_NUMBERS } RunNumber;
/* key: in lines of the journal and of metrics; title: for people */
typedef struct { const char *key, *title; } RunNumberRow;
extern const RunNumberRow run_numbers[RUN_NUMBERS];

enum { RUN_POINTS_MOST = 16384, RUN_POINTS_APART = 4096 };

/* The mean of `steps` steps up to `step`; NAN: not known. hours: that the run has run by then; low, high: the
 * range over these steps; low_at, high_at: the steps of the two, the first where several have the value. */
typedef struct {
    int64_t step, steps;
    double  hours, tokens, flops;
    double  value[RUN_NUMBERS], low[RUN_NUMBERS], high[RUN_NUMBERS];
    double  low_at[RUN_NUMBERS], high_at[RUN_NUMBERS];
} RunPoint;
/* width: steps of a joined point, at most; 0: none is joined. point: owned */
typedef struct { RunPoint *point; int points; int64_t width; } RunCurve;
/* What was taken away. seconds: of these steps */
typedef struct { int64_t steps; double seconds; } RunDropped;

/* The mean over points of what is known of a number: by steps, of speed and MFU by seconds. Where no seconds
 * are known it is by steps for these too. NAN: nothing is known. count above 0. */
double     run_points_mean  (const RunPoint *point, int count, RunNumber n);
/* One point of two, of which b is the later one, with means as above. */
RunPoint   run_points_joined(const RunPoint *a, const RunPoint *b);
/* The point's step is later than all others'. */
void       run_points_add (RunCurve *c, const RunPoint *point);
/* Takes the steps after `to` away. Of a point that has steps of both sides the earlier ones stay, with the
 * means of the whole point: this is exact but for the differences between the steps of one point. */
RunDropped run_points_drop(RunCurve *c, int64_t to);
/* The end of the file: the newest points become as long as those before them. */
void       run_points_even(RunCurve *c);
#endif
