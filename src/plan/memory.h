#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* The report of `train --dry-run`: what a run needs on each rank. The numbers are those of the trainer itself
 * in a dry run, opened for some ranks of each pipeline stage or for every rank; so they are the bytes that a
 * run allocates. */
#include "train/trainer.h"

/* Prints to stdout: parameters, FLOPs, and a table of bytes by purpose with a column for each stage, that of
 * its rank with the most memory, at most 24 lines of 80 columns. verbose: instead of the table, every
 * allocation of every rank; ranks in succession that need the same are printed together. A configuration that
 * cannot be laid out over `world` ranks fails with the same message as a run. Takes the time of a dry run for
 * each candidate of a stage (plan/largest.h), mostly one or two, or for each rank with verbose; with verbose
 * only two ranks are in memory at once. */
Status memory_show(const TrainConfig *config, int world, bool verbose);
/* Bytes of all ranks together, each taken for as large as the largest of its stage. Fails as memory_show. */
Status memory_bytes(double *bytes, const TrainConfig *config, int world);
#endif
