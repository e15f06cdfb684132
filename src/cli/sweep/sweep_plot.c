/* The losses of a sweep as a picture: over the parameters with the curve of the law, or over the values of
 * the first option. Both axes are logarithmic where their numbers are above 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "cli/sweep/sweep.h"

enum { WIDTH = 640, HEIGHT = 400, LEFT = 70, RIGHT = 20, ABOVE = 40, BELOW = 50, CURVE = 64, TICKS_MAX = 12 };
/* The range of an axis; logs: it is one of logarithms. */
typedef struct { double low, high; bool logs; } Range;

static double share(const Range *range, double x)
{
    if (range->logs) return log(x / range->low) / log(range->high / range->low);
    return (x - range->low) / (range->high - range->low);
}

static double x_of(const Range *range, double x) { return LEFT + share(range, x) * (WIDTH - LEFT - RIGHT); }
static double y_of(const Range *range, double y)
{
    return HEIGHT - BELOW - share(range, y) * (HEIGHT - ABOVE - BELOW);
}

static void widen(Range *range, double x)
{
    if (!isfinite(x)) return;
    range->low  = fmin(range->low, x);
    range->high = fmax(range->high, x);
    range->logs = range->logs && x > 0;
}

/* With a twentieth of room at both ends. */
static void room(Range *range)
{
    if (!(range->low <= range->high)) *range = (Range){ 0, 1, false };
    if (range->low == range->high) range->low -= 0.5, range->high += 0.5, range->logs = false;
    double ratio = range->logs ? pow(range->high / range->low, 0.05) : 1,
           part = 0.05 * (range->high - range->low);
    range->low  = range->logs ? range->low / ratio : range->low - part;
    range->high = range->logs ? range->high * ratio : range->high + part;
}

/* Round numbers in the range: 1, 2 and 5 times powers of ten, or multiples of one of them. */
static int ticks(double tick[TICKS_MAX], const Range *range)
{
    static const double times[] = { 1, 2, 5 };
    double ratio = range->high / range->low;
    int count = 0;
    if (range->logs && ratio > 5) {
        int first = (int)floor(log10(range->low));
        for (int p = first; count < TICKS_MAX && pow(10, p) <= range->high; p++)
            for (int t = 0; t < (ratio > 1e3 ? 1 : 3) && count < TICKS_MAX; t++) {
                double x = times[t] * pow(10, p);
                if (x >= range->low && x <= range->high) tick[count++] = x;
            }
        return count;
    }
    double wide = (range->high - range->low) / 5, power = pow(10, floor(log10(wide))), step = power;
    for (int t = 0; t < 3; t++) if (times[t] * power <= wide) step = times[t] * power;
    for (double x = ceil(range->low / step) * step; x <= range->high && count < TICKS_MAX; x += step)
        tick[count++] = fabs(x) < step / 1e6 ? 0 : x;
    return count;
}

static void grid(FILE *out, const Range *x, const Range *y, const char *below, const char *title)
{
    double tick[TICKS_MAX];
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\" "
            "role=\"img\" aria-label=\"%s\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, title, WIDTH, HEIGHT);
    for (int i = 0, n = ticks(tick, y); i < n; i++)
        fprintf(out,
                "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>\n",
                LEFT, y_of(y, tick[i]), WIDTH - RIGHT, LEFT - 6, y_of(y, tick[i]) + 4, tick[i]);
    for (int i = 0, n = ticks(tick, x); i < n; i++)
        fprintf(out,
                "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%g</text>\n",
                x_of(x, tick[i]), ABOVE, HEIGHT - BELOW, x_of(x, tick[i]), HEIGHT - BELOW + 18, tick[i]);
    fprintf(out, "<text x=\"%d\" y=\"20\">%s</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
            LEFT, title, WIDTH - RIGHT, HEIGHT - 12, below);
}

static void curve(FILE *out, const Range *x, const Range *y, const ScalingLaw *law)
{
    fprintf(out, "<path fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\" d=\"");
    for (int i = 0; i <= CURVE; i++) {
        double at = x->logs ? x->low * pow(x->high / x->low, (double)i / CURVE)
                            : x->low + (x->high - x->low) * i / CURVE;
        double loss = scaling_law_at(law, at);
        if (loss >= y->low && loss <= y->high)
            fprintf(out, "%s%.1f %.1f", i ? "L" : "M", x_of(x, at), y_of(y, loss));
        else if (i == 0) fprintf(out, "M%.1f %.1f", x_of(x, at), (double)ABOVE);
    }
    fprintf(out, "\"/>\n");
}

/* What is on the axis of a run: its parameters, its value of the first option, or the number of the value. */
static double place_of(const Sweep *sweep, const SweepRun *run, int sizes)
{
    int first = sweep->seed_axis == 0 && sweep->axes > 1 ? 1 : 0;
    if (sizes >= 0) return (double)run->parameters;
    double number = sweep->axis[first].number[run->at[first]];
    return isfinite(number) ? number : run->at[first] + 1;
}

Status sweep_plot(const Sweep *sweep, const ScalingLaw *law, int sizes, const char *path)
{
    int first = sweep->seed_axis == 0 && sweep->axes > 1 ? 1 : 0;
    char *text = NULL, below[96], title[160];
    size_t bytes;
    Range x = { INFINITY, -INFINITY, true }, y = x;
    for (int i = 0; i < sweep->runs; i++) {
        if (isfinite(sweep->run[i].loss)) widen(&x, place_of(sweep, &sweep->run[i], sizes));
        widen(&y, sweep->run[i].loss);
    }
    room(&x);
    room(&y);
    snprintf(below, sizeof below, "%s", sizes >= 0 ? "parameters" : sweep->axis[first].name);
    snprintf(title, sizeof title, "%s loss by %s",
             sweep->own->sweep_loss.value == CHOICE_sweep_loss_validation ? "validation" : "training", below);
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for %s", path);
    grid(out, &x, &y, below, title);
    if (law) curve(out, &x, &y, law);
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        if (isfinite(run->loss))
            fprintf(out,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"#06c\"><title>%s: "
                    "%.6f</title></circle>\n",
                    x_of(&x, place_of(sweep, run, sizes)), y_of(&y, run->loss), run->check ? "white" : "#06c",
                    run->name, run->loss);
    }
    fprintf(out, "</svg>\n");
    CHECK(fclose(out) == 0, "no memory for %s", path);
    Status status = file_write_whole(path, text, bytes);
    free(text);
    return status;
}
