#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H
#include "train/trainer.h"

/* fill writes micro-batch `micro` of global batch `step` of an evaluation into `batch`. */
typedef void TrainerFill(void *context, Batch *batch, int64_t step, int micro);
/* Mean loss over `steps` global batches, which `fill` provides, with dropout off; NAN where a signal arrived
 * before the last one (`signal` has its number). <-> all axes */
double     trainer_evaluate(Trainer *trainer, int64_t steps, TrainerFill *fill, void *context);
/* The same over eval_iters batches of a data set (data/split.h). As in Megatron-LM each evaluation reads on
 * where the one before it ended, so its samples follow from the step alone; with full_validation each reads
 * every sample of the set once. <-> all axes */
double     trainer_evaluate_split(Trainer *trainer, int set);
#endif
