#include "chart/curve_bins.h"
#include <math.h>

void curve_bins_begin(CurveBins *b) { *b = (CurveBins){ .width = 1 }; }

static void bin_join(CurveBin *b, const CurveBin *other)
{
    if (other->points == 0) return;
    b->low   = b->points == 0 || other->low  < b->low  ? other->low  : b->low;
    b->high  = b->points == 0 || other->high > b->high ? other->high : b->high;
    b->sum    += other->sum;
    b->points += other->points;
}

/* Two neighbours become one, so that twice as many steps fit. */
static void bins_halve(CurveBins *b)
{
    for (int i = 0; i < CURVE_BINS; i++) {
        CurveBin joined = { .points = 0 };
        if (2 * i + 1 < CURVE_BINS) bin_join(&joined, &b->bin[2 * i]), bin_join(&joined, &b->bin[2 * i + 1]);
        b->bin[i] = joined;
    }
    b->width *= 2;
    b->band = true;
}

void curve_bins_add(CurveBins *b, CurvePoint point)
{
    if (!isfinite(point.step) || !isfinite(point.value)) return;
    bool     band = isfinite(point.low) && isfinite(point.high);
    CurveBin one  = { point.value, band ? point.low : point.value, band ? point.high : point.value, 1 };
    if (b->count++ == 0) b->first = point.step;
    double at = point.step > b->first ? point.step - b->first : 0;
    while (at / b->width >= CURVE_BINS) bins_halve(b);
    bin_join(&b->bin[(int)(at / b->width)], &one);
    b->band  |= band;
    b->ranks |= band;
}

int curve_bins_read(const CurveBins *b, double x[CURVE_BINS], double y[CURVE_BINS], double low[CURVE_BINS],
                    double high[CURVE_BINS])
{
    int count = 0;
    for (int i = 0; i < CURVE_BINS; i++) {
        const CurveBin *bin = &b->bin[i];
        if (bin->points == 0) continue;
        x[count]    = b->first + i * b->width;
        y[count]    = bin->sum / (double)bin->points;
        low[count]  = bin->low;
        high[count] = bin->high;
        count++;
    }
    return count;
}
