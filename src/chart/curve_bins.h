#ifndef CHART_CURVE_BINS_H
#define CHART_CURVE_BINS_H
/* The points of a curve in at most CURVE_BINS bins of neighbouring steps, so that its memory is bounded
 * however many there are. */
#include <stdbool.h>
#include <stdint.h>

enum { CURVE_BINS = 512 };
/* step, value; low and high: the band, NAN where there is none */
typedef struct { double step, value, low, high; } CurvePoint;
/* Bin i has the points of the steps from first + i width on. sum: of `points` values that are finite */
typedef struct { double sum, low, high; int64_t points; } CurveBin;
typedef struct {
    double  first, width;
    int64_t count;                           /* points that were added */
    bool    ranks, band;                     /* a point had a band; or a bin has several points */
    CurveBin bin[CURVE_BINS];
} CurveBins;

void curve_bins_begin(CurveBins *bins);
/* Values that are not finite are left out. A step before the first one belongs to the first bin. */
void curve_bins_add  (CurveBins *bins, CurvePoint point);
/* The bins that have points as arrays: first step, mean, least and largest value. Returns how many. */
int  curve_bins_read (const CurveBins *bins, double x[CURVE_BINS], double y[CURVE_BINS],
                      double low[CURVE_BINS], double high[CURVE_BINS]);
#endif
