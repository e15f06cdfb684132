#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H
#include "train/trainer.h"

/* The arena sizes of a rank, from a dry trainer that runs one step and one evaluation. Not collective. Fails
 * as trainer_open does where the transport is dry: BAD_OPTION, NO_MEMORY. */
Status trainer_measure(ArenaSizes *sizes, const TrainConfig *config, int rank, int world);
/* The same for a trainer that is opened for other work than steps and evaluations, which work(trainer,
 * context) does; NULL: as trainer_measure. trainer_start_work begins such a run. */
Status trainer_measure_work(ArenaSizes *sizes, const TrainConfig *config, int rank, int world,
                            TrainerWork *work, void *context);
/* Like trainer_measure, but counts only the work that this trainer has done (Trainer.work), and all the slots
 * that it has. */
Status trainer_measure_done(ArenaSizes *sizes, const Trainer *trainer);
/* The same for a dry trainer that is open; its arenas, queue and communicators keep the details. Of a step
 * with many micro-batches only few are run, and the rest is extrapolated. */
void   trainer_count(Trainer *dry, ArenaSizes *sizes);
/* Of a dry trainer that has run: BAD_OPTION where the device has no kernel for an operation. */
Status trainer_computable(const Trainer *dry);
/* The schedule that a dry trainer is opened with instead: its micro-batches do not grow with those of
 * `whole`. */
ScheduleShape trainer_dry_schedule(const ScheduleShape *whole);
#endif
