#include "logs/plot.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"

void plot_begin(Plot *p, const char *title) { *p = (Plot){ .title = title, .width = 1 }; }

static void bin_join(PlotBin *b, const PlotBin *other)
{
    if (other->points == 0) return;
    b->low   = b->points == 0 || other->low  < b->low  ? other->low  : b->low;
    b->high  = b->points == 0 || other->high > b->high ? other->high : b->high;
    b->sum    += other->sum;
    b->points += other->points;
}

/* Two neighbours become one, so that twice as many steps fit. */
static void bins_halve(Plot *p)
{
    for (int i = 0; i < PLOT_BINS; i++) {
        PlotBin joined = { .points = 0 };
        if (2 * i + 1 < PLOT_BINS) bin_join(&joined, &p->bin[2 * i]), bin_join(&joined, &p->bin[2 * i + 1]);
        p->bin[i] = joined;
    }
    p->width *= 2;
}

void plot_add(Plot *p, PlotPoint point)
{
    if (!isfinite(point.step) || !isfinite(point.value)) return;
    bool    band = isfinite(point.low) && isfinite(point.high);
    PlotBin one  = { point.value, band ? point.low : point.value, band ? point.high : point.value, 1 };
    if (p->count++ == 0) p->first = point.step;
    double at = point.step > p->first ? point.step - p->first : 0;
    while (at / p->width >= PLOT_BINS) bins_halve(p);
    bin_join(&p->bin[(int)(at / p->width)], &one);
    p->band |= band;
}

/* ---- scales ---- */

typedef struct { double left, right, low, high; } Scale;

/* A curve that is level gets some room above and below. */
static Scale scale_of(const Plot *p)
{
    Scale s = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (int i = 0; i < PLOT_BINS; i++) {
        const PlotBin *b = &p->bin[i];
        if (b->points == 0) continue;
        double step = p->first + i * p->width;
        s.left  = fmin(s.left, step);
        s.right = fmax(s.right, step);
        s.low   = fmin(s.low, b->low);
        s.high  = fmax(s.high, b->high);
    }
    double room = s.high > s.low ? 0.05 * (s.high - s.low) : fmax(fabs(s.high) * 0.05, 1e-9);
    s.low -= room, s.high += room;
    if (!(s.right > s.left)) s.right = s.left + 1;
    return s;
}

/* ---- as a picture ---- */

enum { WIDE = 720, TALL = 400, LEFT = 90, TOP = 40, RIGHT = 20, BOTTOM = 50, TICKS = 5 };

static double x_of(const Scale *s, double step)
{
    return LEFT + (WIDE - LEFT - RIGHT) * (step - s->left) / (s->right - s->left);
}

static double y_of(const Scale *s, double value)
{
    return TALL - BOTTOM - (TALL - TOP - BOTTOM) * (value - s->low) / (s->high - s->low);
}

static void draw_axes(FILE *out, const Scale *s)
{
    for (int i = 0; i < TICKS; i++) {
        double part = (double)i / (TICKS - 1);
        double value = s->low + part * (s->high - s->low), step = s->left + part * (s->right - s->left);
        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">"
                "%.4g</text>\n", LEFT, y_of(s, value), WIDE - RIGHT, LEFT - 6, y_of(s, value) + 4, value);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x_of(s, step),
                TALL - BOTTOM + 18, step);
    }
}

static void draw_band(FILE *out, const Plot *p, const Scale *s)
{
    fprintf(out, "<path fill=\"#9bd\" fill-opacity=\"0.5\" d=\"");
    const char *command = "M";
    for (int i = 0; i < PLOT_BINS; i++) {
        if (p->bin[i].points == 0) continue;
        fprintf(out, "%s%.1f %.1f", command, x_of(s, p->first + i * p->width), y_of(s, p->bin[i].high));
        command = "L";
    }
    for (int i = PLOT_BINS; i-- > 0;)
        if (p->bin[i].points > 0)
            fprintf(out, "L%.1f %.1f", x_of(s, p->first + i * p->width), y_of(s, p->bin[i].low));
    fprintf(out, "Z\"/>\n");
}

static void draw_curve(FILE *out, const Plot *p, const Scale *s)
{
    fprintf(out, "<path fill=\"none\" stroke=\"#136\" stroke-width=\"1.5\" d=\"");
    const char *command = "M";
    for (int i = 0; i < PLOT_BINS; i++) {
        const PlotBin *b = &p->bin[i];
        if (b->points == 0) continue;
        fprintf(out, "%s%.1f %.1f", command, x_of(s, p->first + i * p->width),
                y_of(s, b->sum / (double)b->points));
        command = "L";
    }
    fprintf(out, "\"/>\n");
}

static Status write_text(const char *path, char *text, size_t bytes, bool whole)
{
    Status status = whole ? file_write_whole(path, text, bytes) : fail(NO_MEMORY, "no memory for %s", path);
    free(text);
    return status;
}

Status plot_svg(const Plot *p, const char *path)
{
    char  *text = NULL;
    size_t bytes;
    Scale  s   = scale_of(p);
    FILE  *out = open_memstream(&text, &bytes);
    if (!out) return fail(NO_MEMORY, "no memory for %s", path);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\""
            " font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"15\">%s%s</text>\n", WIDE, TALL, LEFT, p->title,
            p->band ? ": mean over ranks, least and largest" : "");
    draw_axes(out, &s);
    if (p->band || p->width > 1) draw_band(out, p, &s);
    draw_curve(out, p, &s);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n</svg>\n", (WIDE + LEFT) / 2,
            TALL - 12);
    return write_text(path, text, bytes, fclose(out) == 0);
}

/* ---- in letters ---- */

enum { COLUMNS = 64, LINES = 16 };

static int line_of(const Scale *s, double value)
{
    int line = (int)((s->high - value) / (s->high - s->low) * LINES);
    return line < 0 ? 0 : line >= LINES ? LINES - 1 : line;
}

/* : between the least and the largest value, * for the mean */
Status plot_text(const Plot *p, const char *path)
{
    char   cell[LINES][COLUMNS + 1], *text = NULL;
    size_t bytes;
    Scale  s   = scale_of(p);
    FILE  *out = open_memstream(&text, &bytes);
    if (!out) return fail(NO_MEMORY, "no memory for %s", path);
    memset(cell, ' ', sizeof cell);
    for (int pass = 0; pass < 2; pass++)                        /* the mean is above the band */
        for (int i = 0; i < PLOT_BINS; i++) {
            const PlotBin *b = &p->bin[i];
            if (b->points == 0) continue;
            int column = (int)((p->first + i * p->width - s.left) / (s.right - s.left) * (COLUMNS - 1));
            if (pass) cell[line_of(&s, b->sum / (double)b->points)][column] = '*';
            for (int l = line_of(&s, b->high); !pass && l <= line_of(&s, b->low); l++) cell[l][column] = ':';
        }
    fprintf(out, "%s\n", p->title);
    for (int l = 0; l < LINES; l++) {
        cell[l][COLUMNS] = 0;
        if (l % 5 == 0) fprintf(out, "%12.4g |%s\n", s.high - (s.high - s.low) * l / LINES, cell[l]);
        else            fprintf(out, "%12s |%s\n", "", cell[l]);
    }
    fprintf(out, "%12s +", "");
    for (int c = 0; c < COLUMNS; c++) fputc('-', out);
    fprintf(out, "\n%12s  %-*.0f%*.0f\n", "step", COLUMNS / 2, s.left, COLUMNS / 2, s.right);
    return write_text(path, text, bytes, fclose(out) == 0);
}
