#ifndef PLAN_DEVICE_MEMORY_H
#define PLAN_DEVICE_MEMORY_H
/* What a run on a GPU takes besides its arenas. None of it was measured: estimates, marked so. */
#include "train/trainer.h"

/* Of a rank. nccl: 0 where messages go through the host. */
typedef struct { double driver, products, nccl; int links; } DeviceBesides;

/* trainer: a dry one that is open */
DeviceBesides device_besides(const Trainer *trainer);
/* Lines on stdout: the estimates, and with a GPU of --gpu whether it has `bytes` and them. */
void device_memory_show(const TrainConfig *config, double bytes, const DeviceBesides *besides, int world);
#endif
