/* Running mean and variance of losses. */
#include "train/spike.h"
#include <math.h>

double spike_limit(const SpikeGuard *guard, const LossStatistics *l)
{
    double limit = INFINITY;
    if (l->count < guard->window) return 0;
    if (guard->factor > 0)     limit = fmin(limit, guard->factor * l->mean);
    if (guard->deviations > 0) limit = fmin(limit, l->mean + guard->deviations * sqrt(l->variance));
    return isfinite(limit) ? limit : 0;
}

/* mean += a (x - mean),   variance = (1 - a) (variance + a (x - mean)^2),   a = 1 / min(count, window) */
void spike_add(const SpikeGuard *guard, LossStatistics *l, double loss)
{
    if (guard->window == 0) return;
    l->count++;
    double a = 1 / (double)(l->count < guard->window ? l->count : guard->window), off = loss - l->mean;
    l->mean    += a * off;
    l->variance = (1 - a) * (l->variance + a * off * off);
}
