#ifndef TRAIN_TRAINER_COMMS_H
#define TRAIN_TRAINER_COMMS_H
/* The communicators of a rank, and sums of few numbers over all ranks. */
#include "train/trainer.h"

/* What carries tensors between ranks, before the world is opened; trainer_comms_close closes it. Collective;
 * the same failure on all ranks. */
Status       trainer_data_open  (Trainer *trainer, Transport *transport);
/* Resolves an `auto` of config, with TrainConfig.device_transport as DeviceTransport has it. Collective over
 * the world; BAD_OPTION, the same on all ranks. */
Status       trainer_choose_transport(DeviceTransport *chosen, const TrainConfig *config,
                                      Transport *transport);
int          trainer_device_number(const Transport *transport);      /* of this rank */
/* The communicators of the mesh. Collective; BAD_OPTION, on all ranks, where groups do not divide them. */
Status       trainer_comms_open (Trainer *trainer);
void         trainer_comms_close(Trainer *trainer);                  /* and world */
/* x = its sum over all ranks: up to WORLD_NUMBERS numbers in F64, the same on all ranks afterwards. Over the
 * axes one after another, since a message over the world would grow with its ranks; the order of additions
 * follows from the mesh and --sum-group-size. Windows lie in RankComms.window, which has the bytes of
 * trainer_world_window. <-> tp, dp+cp, pp: all-reduces */
enum { WORLD_NUMBERS = 16 };
void         trainer_world_sum   (Trainer *trainer, Tensor x);
/* The same of numbers in host memory, or their maximum. */
void         trainer_numbers_sum (Trainer *trainer, double *x, int64_t count);
void         trainer_numbers_max (Trainer *trainer, double *x, int64_t count);
size_t       trainer_world_window(const Trainer *trainer);
#endif
