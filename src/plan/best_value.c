/* The lowest of a few losses, and the lowest point of the parabola through it and its neighbours. */
#include "plan/best_value.h"
#include <math.h>

/* Learning rates, batch sizes and weight decays are tried in ratios, so that the parabola is one of
 * ln(value). */
static bool parabola(BestValue *best, const double *value, const double *loss)
{
    double x[3], y[3];
    for (int i = 0; i < 3; i++) {
        if (!(value[best->index + i - 1] > 0) || !isfinite(loss[best->index + i - 1])) return false;
        x[i] = log(value[best->index + i - 1]), y[i] = loss[best->index + i - 1];
    }
    double left = (y[1] - y[0]) / (x[1] - x[0]), right = (y[2] - y[1]) / (x[2] - x[1]);
    double bend = (right - left) / (x[2] - x[0]);
    if (!(bend > 0)) return false;
    /* slope at x: left + bend (2 x - x0 - x1) */
    double at = 0.5 * (x[0] + x[1] - left / bend);
    best->value = exp(at);
    best->loss  = y[0] + (at - x[0]) * (left + bend * (at - x[1]));
    return true;
}

BestValue best_value(const double *value, const double *loss, int count)
{
    BestValue best = { .index = -1 };
    for (int i = 0; i < count; i++)
        if (isfinite(loss[i]) && (best.index < 0 || loss[i] < loss[best.index])) best.index = i;
    if (best.index < 0) return best;
    best.edge = count < 2 ? 0 : best.index == 0 ? -1 : best.index == count - 1;
    best.value = value[best.index];
    best.loss  = loss[best.index];
    if (!best.edge && count > 2) best.between = parabola(&best, value, loss);
    return best;
}
