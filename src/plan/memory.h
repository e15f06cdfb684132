#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* What a run needs, said beforehand: the trainer itself run dry, once for each pipeline stage. */
#include "train/trainer.h"

Status memory_show(const TrainConfig *config, int world);       /* parameters, bytes by arena and purpose and rank, flops: to stdout */
#endif
