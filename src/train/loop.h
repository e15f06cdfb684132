#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H
/* A whole training run on one rank: opens the trainer, loads a checkpoint, and repeats steps with
 * evaluations and checkpoints between them, until all steps are done or a signal asks for the end. */
#include "train/trainer.h"

/* Collective over the transport's ranks. *stop is 0, or the number of a signal that this process has
 * received; a signal handler writes it. A signal on any rank ends the run after the present step, with a
 * checkpoint where --save is given, and the result is INTERRUPTED. IO_FAILED where records of a log
 * were lost, after all steps; any other failure is the same on all ranks. `config` and `transport` must
 * outlive the call. */
Status loop_run(const TrainConfig *config, Transport *transport, const volatile sig_atomic_t *stop);
#endif
