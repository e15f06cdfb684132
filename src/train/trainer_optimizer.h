#ifndef TRAIN_TRAINER_OPTIMIZER_H
#define TRAIN_TRAINER_OPTIMIZER_H
#include "train/trainer.h"

/* The pieces that the optimizer updates, and their states, which trainer_optimizer_init sets to those of a
 * new run with the present weights. */
void trainer_optimizer_open (Trainer *trainer);
void trainer_optimizer_init (Trainer *trainer);
/* Where the optimizer averages weights: the parameters of all ranks become those that are trained, or with
 * `average` the weights. Else nothing. <-> shard: all-gather under ZeRO 1 and 2 */
void trainer_parameters(Trainer *trainer, bool average);
void trainer_optimizer_close(Trainer *trainer);
/* The ranks whose momenta are summed with this one's; NULL: none. */
Comm *trainer_workers(const Trainer *trainer, ParamFamily family);
/* NULL: this rank updates no element of it. */
const OptimizerPiece *trainer_piece(const Trainer *trainer, int bucket, int param);
#endif
