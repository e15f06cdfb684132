/* Models by depth, and the learning rate and batch of their training. */
#include "plan/size_rule.h"
#include <math.h>

ModelShape size_rule_shape(int64_t depth, int64_t aspect)
{
    return (ModelShape){ .layers = depth, .width = aspect * depth, .heads = depth };
}

double size_rule_lr(double parameters) { return fmax(0.003239 - 0.0001395 * log(parameters), 1e-4); }

double size_rule_batch(ModelShape shape, int64_t sequence, double tokens)
{
    double layers = (double)shape.layers, width = (double)shape.width;
    double compute = (72 * layers * width * width + 12 * layers * width * (double)sequence) * tokens;
    return fmin(0.2920 * pow(compute, 0.3271), tokens / 512);
}

/* The largest power of two that is at most n. */
static int64_t power_below(int64_t n)
{
    int64_t power = 1;
    while (power * 2 <= n) power *= 2;
    return power;
}

int64_t size_rule_samples(double tokens, int64_t sequence)
{
    int64_t samples = (int64_t)fmax(1, tokens / (double)sequence + 0.5);
    int64_t unit = power_below(samples) / 4 > 0 ? power_below(samples) / 4 : 1;
    return (samples + unit / 2) / unit * unit;
}

int64_t size_rule_micro(int64_t samples, int64_t ranks, int64_t sequence)
{
    int64_t micro = 1, most = power_below(2048 / sequence > 1 ? 2048 / sequence : 1);
    while (micro < most && samples % (2 * micro * ranks) == 0) micro *= 2;
    return micro;
}
