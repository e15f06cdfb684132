#ifndef PLAN_LARGEST_H
#define PLAN_LARGEST_H
/* Which ranks of a pipeline stage may need the most memory. Ranks of a stage differ in what they own where
 * ZeRO shards parameters, and under Muon in the matrices that they iterate. Both follow by arithmetic from
 * the boundaries of the shards, which every rank of the stage knows, so that few ranks are opened however
 * many there are. */
#include "train/trainer.h"

enum { LARGEST_MOST = 32 };

/* ranks [LARGEST_MOST]: ranks of the stage of `dry`, an open dry trainer, of which one needs the most memory
 * of all ranks of the stage; returns how many. Where more than LARGEST_MOST remain, the last are left out and
 * the answer may be low. Takes time in proportion to the ranks of the stage times its
 * buckets, and no communication. */
int largest_ranks(int ranks[LARGEST_MOST], const Trainer *dry);
#endif
