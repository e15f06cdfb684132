#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* What a run will need: the trainer itself in a dry run, once for each pipeline stage or each rank. */
#include "train/trainer.h"

/* To stdout: parameters, flops and a table of bytes by purpose, a column a stage, of its first rank: at most 24 lines of 80 columns.
 * verbose: instead of the table every rank with every push on its arenas; neighbouring ranks that need the same are printed together. A config that
 * cannot be laid out over `world` ranks fails as it would in a run. */
Status memory_show(const TrainConfig *config, int world, bool verbose);
#endif
