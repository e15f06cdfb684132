#ifndef TRAIN_HARDWARE_FLOPS_H
#define TRAIN_HARDWARE_FLOPS_H
/* What a run computes of a token. */
#include "train/train_config.h"

/* model_flops and those of the forward passes, or parts of them, that backward repeats (--recompute-...), as
 * Korthikanti et al. 2022 (arXiv 2205.05198) have them in HFU. What a kernel computes again within itself, as
 * attention does its scores, is not counted. */
double hardware_flops(const TrainConfig *config, bool causal);
#endif
