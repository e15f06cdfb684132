#ifndef PARALLEL_SCHEDULE_PROOF_H
#define PARALLEL_SCHEDULE_PROOF_H
/* What schedule_check.c and schedule_replay.c share. No other file includes this header. */
#include "parallel/schedule.h"

/* BAD_OPTION with schedule, stage and row, and why; row == rows: the end. */
__attribute__((format(printf, 3, 4)))
Status schedule_error(const Schedule *schedule, int row, const char *format, ...);
#endif
