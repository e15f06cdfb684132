#ifndef CHART_CHART_H
#define CHART_CHART_H
/* Curves with axes, as SVG and in letters. An SVG has no size of its own: curves lie in a viewBox of 1000 x
 * 1000 that is stretched, texts and lines of the grid at percentages, so that it fills the box that a page
 * gives it while texts keep their size. Colours are classes, whose style chart_style has for light and dark
 * pages. */
#include <stdbool.h>
#include <stdio.h>
#include "base/status.h"

enum { CHART_COLOURS = 7, CHART_DASHES = 3, CHART_TICKS_MAX = 12 };
/* How a curve is drawn: a line; the values behind a smoothed line, thin and pale; a line with a mark at each
 * point, which is for few points; marks alone. */
typedef enum { CHART_LINE, CHART_PALE, CHART_MARKS, CHART_POINTS } ChartLook;
/* x, y, low and high: [count] of the caller's. A point that is not finite, or not above 0 on a logarithmic
 * axis, is a gap. low, high: a band around the curve; NULL: none; low_x, high_x: where
 * its corners are; NULL: at x. style: 0 to CHART_COLOURS x CHART_DASHES
 * - 1, a colour and a dash; those of one colour come after all colours. */
typedef struct {
    const char   *name;                      /* any bytes */
    const double *x, *y, *low, *high, *low_x, *high_x;
    /* [count], any bytes: of CHART_POINTS, the <title> of each mark; NULL: none */
    const char *const *label;
    int           count, style;
    ChartLook     look;
} ChartSeries;
typedef struct {
    const char *title, *x_name;              /* any bytes */
    const ChartSeries *series;
    int  count;
    bool log_x, log_y;
} Chart;

/* low to high: what an axis shows; room is left above and below the values of y. whole: its values are whole
 * numbers, such as steps, and so are its ticks */
typedef struct { double low, high; bool log, whole; } ChartScale;
typedef struct { double at; char text[24]; } ChartTick;
/* What the chart's axes show. A chart without points has 0 to 1. */
ChartScale chart_scale_x(const Chart *chart);
ChartScale chart_scale_y(const Chart *chart);
/* Round numbers on the axis, `most` or fewer of them and at least one; returns how many. */
int  chart_ticks(ChartTick tick[CHART_TICKS_MAX], ChartScale scale, int most);
/* A number for people: "12.5k", "3e21", "0.0012". */
const char *chart_number(char out[24], double value);

/* Text as HTML and XML have it (buffer_add_html of base/buffer.h). */
void chart_escape(FILE *out, const char *text, size_t bytes);
/* An <svg> element for a page that has chart_style, which gives its box. data-x and data-y hold the ends of
 * the axes, with 17 digits, so that coordinates can be read back. */
void chart_svg   (FILE *out, const Chart *chart);
void chart_style (FILE *out);                /* rules of CSS, without <style> */
/* The same as a file of its own. IO_FAILED, BAD_FILE, NO_MEMORY. */
Status chart_file(const Chart *chart, const char *path);
/* The first curve in letters, 16 lines of 78 columns: * for a value, : for its band. */
void chart_letters(FILE *out, const Chart *chart);
#endif
