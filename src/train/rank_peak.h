#ifndef TRAIN_RANK_PEAK_H
#define TRAIN_RANK_PEAK_H
/* The peak of one rank of a run: what its threads' multiply-adds and their share of the host's memory can do.
 * */
#include "train/peak_file.h"
#include "train/trainer.h"

/* host: of all threads of the run on this host; ranks: so many share it. flops: of host, that of the type
 * whose products the run computes. kept: by `jotun bench peak` */
typedef struct { Peak host; double flops; Dtype type; int threads, ranks; bool kept; } RankPeak;

/* What was kept, else a measurement of 40 ms; with `copy` also of memory, where else copy is 0. All zero
 * where the back end is not cpu. No communication. */
RankPeak rank_peak(const Trainer *trainer, bool copy);
enum { RANK_PEAK_MS = 40 };
#endif
