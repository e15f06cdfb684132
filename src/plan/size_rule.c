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
