#ifndef LOGS_PLOT_H
#define LOGS_PLOT_H
/* A curve over the steps of a run, with a band between the least and the largest value, as a picture and in
 * letters. Points are joined in at most PLOT_BINS bins of neighbouring steps, so that its memory is bounded
 * however long the run is. */
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { PLOT_BINS = 512 };
/* step, value; low and high: the band, NAN where there is none */
typedef struct { double step, value, low, high; } PlotPoint;
/* Bin i has the points of the steps from first + i width on. sum: of `points` values that are finite */
typedef struct { double sum, low, high; int64_t points; } PlotBin;
typedef struct {
    const char *title;                       /* not owned */
    double  first, width;
    int64_t count;                           /* points that were added */
    bool    band;
    PlotBin bin[PLOT_BINS];
} Plot;

void   plot_begin(Plot *plot, const char *title);
/* Values that are not finite are left out. A step before the first one belongs to the first bin. */
void   plot_add  (Plot *plot, PlotPoint point);
/* IO_FAILED, BAD_FILE. */
Status plot_svg  (const Plot *plot, const char *path);
Status plot_text (const Plot *plot, const char *path);
#endif
