#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* The report of `train --dry-run`: what a run needs on each rank. The numbers are those of the trainer itself
 * in a dry run, opened once per pipeline stage or once per rank; so they are the bytes that a run
 * allocates. */
#include "train/trainer.h"

/* Prints to stdout: parameters, FLOPs, and a table of bytes by purpose with a column for the first rank of
 * each stage, at most 24 lines of 80 columns. verbose: instead of the table, every allocation of every rank;
 * ranks in succession that need the same are printed together. A configuration that cannot be laid out over
 * `world` ranks fails with the same message as a run. Takes the time of one dry run per stage, or per rank
 * with verbose; only two ranks are in memory at once with verbose. */
Status memory_show(const TrainConfig *config, int world, bool verbose);
#endif
