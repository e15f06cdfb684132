#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H
/* A whole run on one rank: measure, open, load, steps with saves and evaluations, until the steps are done or a signal comes. */
#include "train/trainer.h"

/* Collective over transport's ranks. *stop: 0, or the number of a signal that has come to this process; one on any rank asks for a
 * save and an end after the step at hand. INTERRUPTED then, with the state saved where --save is given. IO_FAILED where lines of
 * --metrics were lost, after all steps. */
Status loop_run(const TrainConfig *config, Transport *transport, const volatile sig_atomic_t *stop);
#endif
