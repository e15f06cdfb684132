#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
/* Words and figures of a run: one line that stays on a terminal, plain lines in a file, JSON lines in --metrics. Rank 0 alone speaks. */
#include "train/trainer.h"

typedef struct {
    const TrainConfig *config;
    int     metrics;                  /* file descriptor, -1: none */
    bool    speaks;
    int64_t started_at, step_at;      /* seam clock, ns */
    int64_t first_step;
    double  lr;
} Report;

Status report_open (Report *report, const TrainConfig *config, bool speaks, int64_t first_step);
void   report_close(Report *report);
void   report_step (Report *report, int64_t step, double lr, StepReport r);
void   report_pause(Report *report);                     /* what was done since the last step is not the next one's time */
void   report_evaluation(Report *report, int64_t step, SplitKind kind, double loss);
#endif
