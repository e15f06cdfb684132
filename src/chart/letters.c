/* A curve in letters, for a terminal and for texts. */
#include <math.h>
#include <string.h>
#include "chart/chart.h"

enum { COLUMNS = 64, LINES = 16 };

static int line_of(ChartScale s, double value)
{
    double part = s.log ? log(s.high / value) / log(s.high / s.low) : (s.high - value) / (s.high - s.low);
    int line = (int)(part * LINES);
    return line < 0 ? 0 : line >= LINES ? LINES - 1 : line;
}

static int column_of(ChartScale s, double at)
{
    double part = s.log ? log(at / s.low) / log(s.high / s.low) : (at - s.low) / (s.high - s.low);
    return (int)(part * (COLUMNS - 1));
}

static bool shown(ChartScale s, double value) { return isfinite(value) && (!s.log || value > 0); }

/* The value of a line's upper end. */
static double value_of(ChartScale s, int line)
{
    double part = (double)line / LINES;
    return s.log ? s.high * pow(s.low / s.high, part) : s.high - (s.high - s.low) * part;
}

void chart_letters(FILE *out, const Chart *c)
{
    char       cell[LINES][COLUMNS + 1], number[2][24];
    ChartScale x = chart_scale_x(c), y = chart_scale_y(c);
    memset(cell, ' ', sizeof cell);
    for (int pass = 0; pass < 2 && c->count > 0; pass++)        /* the curve is above the band */
        for (int i = 0; i < c->series->count; i++) {
            const ChartSeries *s = c->series;
            if (!shown(x, s->x[i]) || !shown(y, s->y[i])) continue;
            int column = column_of(x, s->x[i]);
            if (pass) cell[line_of(y, s->y[i])][column] = '*';
            if (pass || !s->low || !s->high || !shown(y, s->low[i]) || !shown(y, s->high[i])) continue;
            for (int l = line_of(y, s->high[i]); l <= line_of(y, s->low[i]); l++) cell[l][column] = ':';
        }
    fprintf(out, "%s\n", c->title);
    for (int l = 0; l < LINES; l++) {
        cell[l][COLUMNS] = 0;
        fprintf(out, "%12s |%s\n", l % 5 == 0 ? chart_number(number[0], value_of(y, l)) : "", cell[l]);
    }
    fprintf(out, "%12s +", "");
    for (int i = 0; i < COLUMNS; i++) fputc('-', out);
    fprintf(out, "\n%12s  %-*s%*s\n", c->x_name, COLUMNS / 2, chart_number(number[0], x.low), COLUMNS / 2,
            chart_number(number[1], x.high));
}
