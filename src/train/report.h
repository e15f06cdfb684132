#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
/* Words and figures of a run: one line that stays on a terminal, plain lines in a file, JSON lines in --metrics. Rank 0 alone speaks. */
#include "train/trainer.h"

typedef struct {
    const TrainConfig *config;
    int     metrics;                  /* file descriptor, -1: none */
    int64_t lost;                     /* lines that did not get into it, */
    int     why;                      /* and errno of the first */
    bool    speaks;
    int64_t started_at, step_at;      /* seam clock, ns */
    int64_t first_step;
    double  losses;                   /* sum over the `averaged` steps since the last line for a person */
    int64_t averaged;
} Report;

Status report_open (Report *report, const TrainConfig *config, bool speaks, int64_t first_step);
/* status as it is given; IO_FAILED where that is OK and lines of --metrics were lost. */
Status report_close(Report *report, Status status);
/* samples: that the training has taken so far. The line for a person has the mean loss of the steps since the one before it. */
void   report_step (Report *report, int64_t step, int64_t samples, double lr, StepReport r);
void   report_pause(Report *report);                     /* what was done since the last step is not the next one's time */
void   report_evaluation(Report *report, int64_t step, SplitKind kind, double loss);
#endif
