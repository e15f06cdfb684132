#ifndef TRAIN_SPIKE_H
#define TRAIN_SPIKE_H
/* The guard against loss spikes: a step whose loss is far above the running mean of the losses before it
 * changes no weights. The limit is known before the step, so that the operation clip_and_skip decides on the
 * device, and every rank alike; it follows from losses alone, which checkpoints keep. */
#include "store/checkpoint_contents.h"

/* factor, deviations: a loss above factor x mean, or above mean + deviations x standard deviation, is a
 * spike; 0: not asked for. window: the losses that the mean is over, about; the guard waits until there are
 * so many. rewinds: the run also goes back to its last checkpoint and leaves out the samples taken since. */
typedef struct { double factor, deviations; int64_t window; bool rewinds; } SpikeGuard;

/* The loss above which the next step is a spike; 0: none is. */
double spike_limit(const SpikeGuard *guard, const LossStatistics *losses);
/* mean and variance with weights that fall by 1 - 1 / window for each step: after n of fewer losses the
 * plain ones */
void   spike_add  (const SpikeGuard *guard, LossStatistics *losses, double loss);
#endif
