#ifndef TRAIN_REPLAY_H
#define TRAIN_REPLAY_H
/* Finds where a NaN or an infinity came from: after a step that was skipped because loss or gradients were
 * not finite, the weights are as they were before it, so that the same step, run again, has the same numbers
 * to the bit. Every operation's result is then looked at, and the first one that is not finite is named:
 * rank, layer, operation, tensor. It costs a slow step. */
#include "train/trainer.h"

/* Runs the last step again and logs what it finds, on rank 0. Weights, states and the position of the run are
 * as before. true: it found a result, whose description is in fail_text() on all ranks. <-> all axes */
bool replay_step(Trainer *trainer);
#endif
