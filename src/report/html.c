#include "report/html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* page.css; and page.js, which shows the values at the pointer, as text. Made by cmake/embed.cmake; no NUL at
 * their ends */
extern const char report_style[], report_script[];
extern const size_t report_style_bytes, report_script_bytes;

void html_text(FILE *out, const char *text) { if (text) chart_escape(out, text, strlen(text)); }

void html_begin(FILE *out, const char *title, int refresh)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; "
          "script-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n",
          out);
    if (refresh) fprintf(out, "<meta http-equiv=\"refresh\" content=\"%d\">\n", refresh);
    fputs("<title>", out);
    html_text(out, title);
    fputs("</title>\n<style>\n", out);
    chart_style(out);
    fwrite(report_style, 1, report_style_bytes, out);
    fputs("</style></head><body>\n", out);
}

void html_end(FILE *out)
{
    fputs("<script>\n", out);
    fwrite(report_script, 1, report_script_bytes, out);
    fputs("</script>\n</body></html>\n", out);
}

/* What could end a <script> or the string is escaped, so that chart_escape, which mends what is no UTF-8, has
 * nothing to replace by the names of HTML. */
void html_json(FILE *out, const char *text)
{
    if (!text) { fputs("null", out); return; }
    fputc('"', out);
    while (*text) {
        size_t plain = strcspn(text, "<>&\"'\\\t\n");
        chart_escape(out, text, plain);
        text += plain;
        if (*text) fprintf(out, "\\u%04x", (unsigned char)*text++);
    }
    fputc('"', out);
}

void html_tile(FILE *out, const char *what, const char *value)
{
    fputs("<div><b>", out);
    html_text(out, value);
    fputs("</b><span>", out);
    html_text(out, what);
    fputs("</span></div>\n", out);
}

void html_bar(FILE *out, double part, double of, int kind)
{
    double percent = of > 0 && part > 0 ? fmin(100, 100 * part / of) : 0;
    fprintf(out, "<div class=\"bar b%d\" style=\"width:%.2f%%\"></div>", kind % CHART_COLOURS, percent);
}

/* ---- figures ---- */

/* 17 digits where 15 do not give the same number back; null where it is none. */
static void json_number(FILE *out, double value)
{
    char text[40];
    if (!isfinite(value)) { fputs("null", out); return; }
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    fputs(text, out);
}

static void json_numbers(FILE *out, const char *name, const double *value, int count)
{
    fprintf(out, "\"%s\":[", name);
    for (int i = 0; i < count; i++) {
        if (i > 0) fputc(',', out);
        json_number(out, value[i]);
    }
    fputc(']', out);
}

/* { "x": name of the axis, "series": [{ "name", "x", "y", and of a band "low", "high", "low_x", "high_x" }]
 * }; a curve without "x" has that of the one before it. */
static void figure_data(FILE *out, const Chart *c)
{
    fputs("<script type=\"application/json\">{\"x\":", out);
    html_json(out, c->x_name);
    fputs(",\"series\":[", out);
    for (int i = 0; i < c->count; i++) {
        const ChartSeries *s = &c->series[i];
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", out);
        html_json(out, s->name);
        fputc(',', out);
        if (i == 0 || s->x != s[-1].x) json_numbers(out, "x", s->x, s->count), fputc(',', out);
        json_numbers(out, "y", s->y, s->count);
        if (s->low && s->high) {
            fputc(',', out), json_numbers(out, "low",  s->low,  s->count);
            fputc(',', out), json_numbers(out, "high", s->high, s->count);
        }
        if (s->low_x && s->high_x) {
            fputc(',', out), json_numbers(out, "low_x",  s->low_x,  s->count);
            fputc(',', out), json_numbers(out, "high_x", s->high_x, s->count);
        }
        fputc('}', out);
    }
    fputs("]}</script>\n", out);
}

static void figure_legend(FILE *out, const Chart *c)
{
    if (c->count < 2) return;
    fputs("<div class=\"legend\">", out);
    for (int i = 0; i < c->count; i++) {
        const ChartSeries *s = &c->series[i];
        fprintf(out,
                "<span><svg width=\"26\" height=\"8\" aria-hidden=\"true\"><line class=\"line%s c%d d%d\" "
                "x1=\"2\" x2=\"24\""
                " y1=\"4\" y2=\"4\"/></svg>",
                s->look == CHART_PALE ? " pale" : "", s->style % CHART_COLOURS,
                s->style / CHART_COLOURS % CHART_DASHES);
        html_text(out, s->name);
        fputs("</span>\n", out);
    }
    fputs("</div>\n", out);
}

/* The place in x that is nearest to `at`. */
static int nearest(const ChartSeries *s, double at)
{
    int best = 0;
    for (int i = 1; i < s->count; i++) if (fabs(s->x[i] - at) < fabs(s->x[best] - at)) best = i;
    return best;
}

enum { TABLE_ROWS = 20 };

/* Some rows of the first curve, the last one too, and what the others have next to it. */
static void figure_table(FILE *out, const Chart *c)
{
    char number[24];
    const ChartSeries *first = c->series;
    if (c->count == 0 || first->count == 0) return;
    fputs("<details><summary>Table</summary><div class=\"scroll\"><table><thead><tr><th>", out);
    html_text(out, c->x_name);
    for (int k = 0; k < c->count; k++) {
        fputs("</th><th>", out);
        html_text(out, c->series[k].name);
    }
    fputs("</th></tr></thead><tbody>\n", out);
    int rows = first->count < TABLE_ROWS ? first->count : TABLE_ROWS;
    for (int row = 0; row < rows; row++) {
        int i = rows > 1 ? (int)((int64_t)row * (first->count - 1) / (rows - 1)) : 0;
        fprintf(out, "<tr><td>%.9g</td>", first->x[i]);
        for (int k = 0; k < c->count; k++) {
            const ChartSeries *s = &c->series[k];
            double             value = s->count == 0                ? NAN
                                       : k == 0 || s->x == first->x ? s->y[i]
                                                                    : s->y[nearest(s, first->x[i])];
            snprintf(number, sizeof number, "%.6g", value);
            fprintf(out, "<td>%s</td>", isfinite(value) ? number : "-");
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div></details>\n", out);
}

void html_figure(FILE *out, const Chart *c, const char *id, const char *note)
{
    fprintf(out, "<figure id=\"%s\"%s><figcaption>", id, c->count > 2 ? " class=\"whole\"" : "");
    html_text(out, c->title);
    fputs("</figcaption>\n<div class=\"plot\">", out);
    chart_svg(out, c);
    fputs("<div class=\"cursor\"></div><div class=\"tip\"></div><span class=\"axisname\">", out);
    html_text(out, c->x_name);
    fputs("</span></div>\n", out);
    figure_data(out, c);
    figure_legend(out, c);
    if (note) {
        fputs("<p class=\"note\">", out);
        html_text(out, note);
        fputs("</p>\n", out);
    }
    figure_table(out, c);
    fputs("</figure>\n", out);
}
