#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H
/* A whole run on one rank: measure, open, load, steps with saves and evaluations, until the steps are done or a signal comes. */
#include "train/trainer.h"

/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 ask for a save and an end after the step at hand; a second one of a kind ends at once. Call
 * once, before ranks start; speaks: whether this process says so. */
void loop_catch_signals(bool speaks);
int  loop_signal(void);                                   /* the signal that came, 0: none */

/* Collective over transport's ranks. INTERRUPTED after a signal, with the state saved where --save is given. */
Status loop_run(const TrainConfig *config, Transport *transport);
#endif
