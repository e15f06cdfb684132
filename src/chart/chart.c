#include "chart/chart.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/buffer.h"
#include "base/file.h"

/* ---- scales ---- */

static bool drawn(double value, bool log) { return isfinite(value) && (!log || value > 0); }

static void scale_take(ChartScale *s, double value)
{
    if (!drawn(value, s->log)) return;
    s->low  = fmin(s->low, value);
    s->high = fmax(s->high, value);
}

static bool point_drawn(const Chart *c, const ChartSeries *s, int i)
{
    return drawn(s->x[i], c->log_x) && drawn(s->y[i], c->log_y);
}

ChartScale chart_scale_x(const Chart *c)
{
    ChartScale s = { INFINITY, -INFINITY, c->log_x, .whole = true };
    for (int k = 0; k < c->count; k++)
        for (int i = 0; i < c->series[k].count; i++) {
            double x = c->series[k].x[i];
            if (!point_drawn(c, &c->series[k], i)) continue;
            scale_take(&s, x);
            s.whole = s.whole && x == floor(x);
        }
    s.whole = s.whole && s.low <= s.high;
    if (!(s.low <= s.high)) s.low = c->log_x ? 1 : 0, s.high = s.low;
    if (!(s.high > s.low)) s.high = c->log_x ? 2 * s.low : s.low + fmax(1, fabs(s.low) * 1e-6);
    return s;
}

/* A curve that is level gets some room above and below. */
ChartScale chart_scale_y(const Chart *c)
{
    ChartScale s = { INFINITY, -INFINITY, c->log_y, .whole = false };
    for (int k = 0; k < c->count; k++)
        for (int i = 0; i < c->series[k].count; i++) {
            const ChartSeries *series = &c->series[k];
            if (!point_drawn(c, series, i)) continue;
            scale_take(&s, series->y[i]);
            if (series->low)  scale_take(&s, series->low[i]);
            if (series->high) scale_take(&s, series->high[i]);
        }
    if (!(s.low <= s.high))
        return (ChartScale){ c->log_y ? 1 : 0, c->log_y ? 10 : 1, c->log_y, .whole = false };
    if (s.log) {
        double room = s.high > s.low ? pow(s.high / s.low, 0.05) : 1.25;
        s.low /= room, s.high *= room;
    } else {
        double room = s.high > s.low ? 0.05 * (s.high - s.low) : s.high != 0 ? fabs(s.high) * 0.05 : 1;
        s.low = s.low >= 0 && s.low < room ? 0 : s.low - room;
        s.high += room;
    }
    return s;
}

/* 0 at the low end, 1 at the high one */
static double part_of(ChartScale s, double value)
{
    if (s.log) return log(value / s.low) / log(s.high / s.low);
    return (value - s.low) / (s.high - s.low);
}

const char *chart_number(char out[24], double x)
{
    static const struct { double from; const char *letter; } unit[] = {
        { 1e15, "e15" }, { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e4, "k" } };
    double size = fabs(x);
    if (!isfinite(x)) return snprintf(out, 24, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"), out;
    if (size >= 1e18 || (size > 0 && size < 1e-3)) {
        char digits[24], *exponent;
        snprintf(digits, sizeof digits, "%.3g", x);
        exponent = strchr(digits, 'e');
        if (exponent) {
            *exponent = '\0';
            snprintf(out, 24, "%.12se%d", digits, (int)strtol(exponent + 1, NULL, 10));
        } else snprintf(out, 24, "%s", digits);
        return out;
    }
    for (size_t i = 0; i < COUNT(unit); i++)
        if (size >= unit[i].from) {
            double by = i + 1 == COUNT(unit) ? 1e3 : unit[i].from;
            return snprintf(out, 24, "%.4g%s", x / by, unit[i].letter), out;
        }
    return snprintf(out, 24, "%.4g", x), out;
}

static int tick_put(ChartTick *tick, int count, double at)
{
    tick[count].at = at;
    chart_number(tick[count].text, at);
    return count + 1;
}

/* Steps of 1, 2 or 5 times a power of ten. */
static int ticks_even(ChartTick *tick, ChartScale s, int most)
{
    double raw = (s.high - s.low) / most, ten = pow(10, floor(log10(raw))), step = ten;
    static const double factor[] = { 1, 2, 5, 10, 20 };
    int count = 0;
    for (int i = 0; i < 5; i++) {
        step = ten * factor[i];
        if (floor(s.high / step) - ceil(s.low / step) + 1 <= most) break;
    }
    if (s.whole) step = fmax(step, 1);
    for (double k = ceil(s.low / step - 1e-9); k * step <= s.high + 1e-9 * step && count < most; k++)
        count = tick_put(tick, count, k == 0 ? 0 : k * step);
    return count;
}

/* Powers of ten, all or every n-th of them, with 2 and 5 times them where there is room. */
static int ticks_log(ChartTick *tick, ChartScale s, int most)
{
    double decades = log10(s.high / s.low);
    int every = (int)ceil(decades / most), count = 0;
    for (int kind = decades * 3 <= most ? 0 : 1; kind < 2 && count == 0; kind++) {
        static const double factor[] = { 1, 2, 5 };
        for (double k = floor(log10(s.low)); k <= ceil(log10(s.high)); k++)
            for (int f = 0; f < (kind == 0 ? 3 : 1); f++) {
                double at = pow(10, k) * factor[f];
                if (at < s.low || at > s.high || count == most) continue;
                if (kind == 1 && every > 1 && fmod(fabs(k), every) != 0) continue;
                count = tick_put(tick, count, at);
            }
    }
    return count;
}

int chart_ticks(ChartTick tick[CHART_TICKS_MAX], ChartScale s, int most)
{
    if (most > CHART_TICKS_MAX) most = CHART_TICKS_MAX;
    int count = s.log ? ticks_log(tick, s, most) : 0;
    if (count < 2) count = ticks_even(tick, s, most);
    int kept = 0;
    for (int i = 0; i < count; i++) if (drawn(tick[i].at, s.log)) tick[kept++] = tick[i];
    return kept ? kept : tick_put(tick, 0, s.low);
}

/* ---- texts ---- */

void chart_escape(FILE *out, const char *text, size_t bytes)
{
    Buffer escaped = { 0 };
    CHECK(buffer_add_html(&escaped, text, (int64_t)bytes) == OK, "%s", fail_text());
    if (escaped.bytes) fwrite(escaped.text, 1, (size_t)escaped.bytes, out);
    buffer_free(&escaped);
}

static void escape(FILE *out, const char *text) { chart_escape(out, text, strlen(text)); }

/* ---- SVG ---- */

enum { SIDE = 1000 };                                /* of the viewBox of the curves */

static void draw_axes(FILE *out, ChartScale x, ChartScale y)
{
    ChartTick tick[CHART_TICKS_MAX];
    int count = chart_ticks(tick, y, 6);
    for (int i = 0; i < count; i++) {
        double at = 100 * (1 - part_of(y, tick[i].at));
        fprintf(out,
                "<line class=\"grid\" x2=\"100%%\" y1=\"%.2f%%\" y2=\"%.2f%%\"/><text class=\"y\" x=\"-8\""
                " y=\"%.2f%%\" dy=\".35em\">%s</text>\n",
                at, at, at, tick[i].text);
    }
    count = chart_ticks(tick, x, 5);
    for (int i = 0; i < count; i++) {
        double at = 100 * part_of(x, tick[i].at);
        fprintf(out,
                "<line class=\"tick\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"100%%\" y2=\"100%%\"/>"
                "<text class=\"x\" x=\"%.2f%%\" y=\"100%%\" dy=\"1.5em\">%s</text>\n",
                at, at, at, tick[i].text);
    }
    fprintf(out, "<line class=\"axis\" x2=\"100%%\" y1=\"100%%\" y2=\"100%%\"/>\n");
}

static void draw_point(FILE *out, char command, ChartScale x, ChartScale y, double at, double value)
{
    fprintf(out, "%c%.1f %.1f", command, SIDE * part_of(x, at), SIDE * (1 - part_of(y, value)));
}

/* From gap to gap: along the high values and back along the low ones. */
static void draw_band(FILE *out, const Chart *c, const ChartSeries *s, ChartScale x, ChartScale y)
{
    const double *low_x = s->low_x ? s->low_x : s->x, *high_x = s->high_x ? s->high_x : s->x;
    fprintf(out, "<path class=\"band f%d\" d=\"", s->style % CHART_COLOURS);
    for (int from = 0, to; from < s->count; from = to + 1) {
        for (to = from; to < s->count && point_drawn(c, s, to) && drawn(s->low[to], c->log_y) &&
                        drawn(s->high[to], c->log_y); to++)
            draw_point(out, to == from ? 'M' : 'L', x, y, high_x[to], s->high[to]);
        for (int i = to; i-- > from;) draw_point(out, 'L', x, y, low_x[i], s->low[i]);
        if (to > from) fputc('Z', out);
    }
    fputs("\"/>\n", out);
}

/* Each with its label, which a browser shows beside the pointer. */
static void draw_labelled(FILE *out, const Chart *c, const ChartSeries *s, ChartScale x, ChartScale y)
{
    for (int i = 0; i < s->count; i++) {
        if (!point_drawn(c, s, i)) continue;
        fprintf(out, "<path class=\"marks c%d\" d=\"", s->style % CHART_COLOURS);
        draw_point(out, 'M', x, y, s->x[i], s->y[i]);
        fputs("h0\"><title>", out);
        escape(out, s->label ? s->label[i] : s->name);
        fputs("</title></path>\n", out);
    }
}

/* A point alone between two gaps is a line of no length, which round ends make a dot. */
static void draw_curve(FILE *out, const Chart *c, const ChartSeries *s, ChartScale x, ChartScale y)
{
    static const char *const look[] = { "line", "line pale", "line" };
    bool open = false;
    if (s->look == CHART_POINTS) {
        draw_labelled(out, c, s, x, y);
        return;
    }
    fprintf(out, "<path class=\"%s c%d d%d\" data-name=\"", look[s->look], s->style % CHART_COLOURS,
            s->style / CHART_COLOURS % CHART_DASHES);
    escape(out, s->name);
    fputs("\" d=\"", out);
    for (int i = 0; i < s->count; i++) {
        bool now   = point_drawn(c, s, i),
             alone = now && !open && (i + 1 == s->count || !point_drawn(c, s, i + 1));
        if (now) draw_point(out, open ? 'L' : 'M', x, y, s->x[i], s->y[i]);
        if (alone) fputs("h0", out);
        open = now;
    }
    fputs("\"/>\n", out);
    if (s->look != CHART_MARKS || s->count > 200) return;
    fprintf(out, "<path class=\"marks c%d\" d=\"", s->style % CHART_COLOURS);
    for (int i = 0; i < s->count; i++)
        if (point_drawn(c, s, i)) draw_point(out, 'M', x, y, s->x[i], s->y[i]), fputs("h0", out);
    fputs("\"/>\n", out);
}

static void draw_inside(FILE *out, const Chart *c)
{
    ChartScale x = chart_scale_x(c), y = chart_scale_y(c);
    draw_axes(out, x, y);
    fprintf(out, "<svg class=\"curves\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" width=\"100%%\""
            " height=\"100%%\">\n", SIDE, SIDE);
    for (int i = 0; i < c->count; i++)
        if (c->series[i].low && c->series[i].high) draw_band(out, c, &c->series[i], x, y);
    for (int i = 0; i < c->count; i++) draw_curve(out, c, &c->series[i], x, y);
    fputs("</svg>\n", out);
}

static void draw_ends(FILE *out, const Chart *c)
{
    ChartScale x = chart_scale_x(c), y = chart_scale_y(c);
    fprintf(out, " data-x=\"%.17g %.17g %s\" data-y=\"%.17g %.17g %s\"", x.low, x.high,
            x.log ? "log" : "linear", y.low, y.high, y.log ? "log" : "linear");
}

void chart_svg(FILE *out, const Chart *c)
{
    fputs("<svg class=\"chart\" role=\"img\" aria-label=\"", out);
    escape(out, c->title);
    fputs("\"", out);
    draw_ends(out, c);
    fputs(">\n", out);
    draw_inside(out, c);
    fputs("</svg>\n", out);
}

/* Okabe and Ito's colours, which people with colour blindness tell apart, without the yellow that is hard to
 * see on white; black is grey on a dark page. */
void chart_style(FILE *out)
{
    static const char *const light[] = {"#0072b2", "#d55e00", "#008a64", "#b4508c",
                                        "#b97a00", "#2a9fd6", "#555555"};
    static const char *const dark[]  = {"#5aaee8", "#f08a4b", "#3cc29a", "#e093c0",
                                        "#e6b13a", "#8fd0f5", "#b5b5b5"};
    static const char *const dash[]  = { "none", "7 4", "2 4" };
    fputs(":root{--text:#1c1e21;--soft:#5f666d;--rule:#d9dde1;--page:#fff", out);
    for (int i = 0; i < CHART_COLOURS; i++) fprintf(out, ";--c%d:%s", i, light[i]);
    fputs("}\n@media "
          "(prefers-color-scheme:dark){:root{--text:#e3e5e8;--soft:#a0a7ae;--rule:#3a4046;--page:#15181b",
          out);
    for (int i = 0; i < CHART_COLOURS; i++) fprintf(out, ";--c%d:%s", i, dark[i]);
    fputs("}}\n.chart{overflow:visible;font:12px system-ui,sans-serif;fill:var(--soft)}\n"
          ".chart .y{text-anchor:end}.chart .x{text-anchor:middle}\n"
          ".grid{stroke:var(--rule)}.axis{stroke:var(--soft)}.tick{stroke:var(--soft)}\n"
          ".curves{overflow:visible}.line{fill:none;stroke-width:1.75;vector-effect:non-scaling-stroke;"
          "stroke-linejoin:round;"
          "stroke-linecap:round}\n.pale{stroke-width:1;opacity:.4}.band{opacity:.22;stroke:none}\n"
          ".marks{fill:none;stroke-width:6;stroke-linecap:round;vector-effect:non-scaling-stroke}\n",
          out);
    for (int i = 0; i < CHART_COLOURS; i++)
        fprintf(out, ".c%d{stroke:var(--c%d)}.f%d{fill:var(--c%d)}.b%d{background:var(--c%d)}\n", i, i, i, i,
                i, i);
    for (int i = 0; i < CHART_DASHES; i++) fprintf(out, ".d%d{stroke-dasharray:%s}\n", i, dash[i]);
}

enum { WIDE = 720, TALL = 400, LEFT = 80, TOP = 40, RIGHT = 20, BOTTOM = 50 };

Status chart_file(const Chart *c, const char *path)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *out = open_memstream(&text, &bytes);
    if (!out) return fail(NO_MEMORY, "no memory for %s", path);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", WIDE, TALL);
    draw_ends(out, c);
    fputs(">\n<style>\n", out);
    chart_style(out);
    fprintf(out, "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"var(--page)\"/>\n"
            "<g class=\"chart\"><text x=\"%d\" y=\"24\" font-size=\"15\" fill=\"var(--text)\">", LEFT);
    escape(out, c->title);
    fprintf(out, "</text>\n<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" overflow=\"visible\">\n", LEFT,
            TOP, WIDE - LEFT - RIGHT, TALL - TOP - BOTTOM);
    draw_inside(out, c);
    fprintf(out, "</svg>\n<text class=\"x\" x=\"%d\" y=\"%d\">", (WIDE + LEFT) / 2, TALL - 10);
    escape(out, c->x_name);
    fputs("</text></g>\n</svg>\n", out);
    Status status = fclose(out) == 0 ? file_write_whole(path, text, bytes)
                                     : fail(NO_MEMORY, "no memory for %s", path);
    free(text);
    return status;
}
