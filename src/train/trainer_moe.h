#ifndef TRAIN_TRAINER_MOE_H
#define TRAIN_TRAINER_MOE_H
#include "train/trainer.h"

/* Of the layers of experts in a step, means over them: the largest load of an expert over the mean load, the
 * share of copies of tokens that a capacity dropped, and both auxiliary losses without their coefficients,
 * which the loss does not contain. All 0 where no layer has experts. */
typedef struct { double load, dropped, balance, z; } MoeReport;

/* The state of a mixture of experts; all do nothing without one. */
void    trainer_moe_open (Trainer *trainer);
void    trainer_moe_close(Trainer *trainer);
void    trainer_moe_init (Trainer *trainer);                        /* biases 0 */
void    trainer_moe_begin(Trainer *trainer);                        /* a step */
/* Biases of the next step, and the step's summary. <-> tp+cp+dp, pp: all-reduce of counts */
void    trainer_moe_end  (Trainer *trainer);
MoeReport trainer_moe_report(Trainer *trainer);                     /* of the last step */
/* The biases of a layer in a checkpoint: the logical tensor, and this rank's view of it, with count 0 where
 * it has none. */
LogicalTensor trainer_moe_tensor(const Trainer *trainer, int64_t layer);
TensorShard   trainer_moe_shard (const Trainer *trainer, int64_t layer);
#endif
