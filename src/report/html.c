#include "report/html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1200px;padding:24px 20px 64px;font:15px/1.5 system-ui,-apple-system,'Segoe "
    "UI',sans-serif;"
    "color:var(--text);background:var(--page);overflow-wrap:anywhere}\n"
    "h1{font-size:24px;line-height:1.25;margin:0 0 4px}h2{font-size:18px;margin:40px 0 12px;padding-top:12px;"
    "border-top:1px solid var(--rule)}h3{font-size:15px;margin:24px 0 8px}\n"
    "p{margin:0 0 12px}.soft,caption{color:var(--soft)}a{color:var(--c0)}nav a{margin-right:16px}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:12px 24px;margin:20px "
    "0 0}\n"
    ".tiles div{border-top:2px solid var(--rule);padding-top:6px}.tiles "
    "b{display:block;font-size:20px;font-weight:600;"
    "font-variant-numeric:tabular-nums}.tiles span{color:var(--soft);font-size:13px}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:28px 40px}\n"
    "figure{margin:0;min-width:0}figcaption{font-weight:600;margin-bottom:4px}figure.whole{grid-column:1/"
    "-1}\n"
    ".plot{position:relative;padding:8px 14px 38px 58px;height:280px}.whole .plot{height:340px}\n"
    ".plot>svg{width:100%;height:100%;display:block}\n"
    ".axisname{position:absolute;right:14px;bottom:2px;font-size:12px;color:var(--soft)}\n"
    ".tip{position:absolute;z-index:1;pointer-events:none;background:var(--page);border:1px solid "
    "var(--soft);padding:4px 8px;"
    "font-size:12px;white-space:pre;display:none;font-variant-numeric:tabular-nums;max-width:90vw;overflow:"
    "hidden}\n"
    ".cursor{position:absolute;top:8px;bottom:38px;width:1px;background:var(--soft);display:none;pointer-"
    "events:none}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:13px;margin:4px 0 0 58px}.legend "
    "svg{vertical-align:middle;"
    "margin-right:6px}.note{font-size:13px;color:var(--soft);margin:4px 0 0 58px}\n"
    "details{font-size:13px;margin:6px 0 0 "
    "58px}summary{cursor:pointer;color:var(--soft)}h2+details,section>details{margin-left:0}\n"
    ".scroll{overflow-x:auto;max-width:100%}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}caption{text-align:left;"
    "padding-bottom:4px}\n"
    "th,td{text-align:right;padding:3px 20px 3px "
    "0;vertical-align:top;white-space:nowrap}th{font-weight:600;border-bottom:1px solid "
    "var(--rule)}td.t,th.t{text-align:left}td.w{white-space:normal;text-align:left;min-width:180px;max-width:"
    "640px}"
    "tbody th{border:0;font-weight:400;white-space:normal}\n"
    "tr.sum td{border-top:1px solid var(--rule)}\n"
    ".bar{height:12px;min-width:1px}.bars td:last-child{width:40%;min-width:120px;padding:7px 0 "
    "0}.bars{width:100%}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace;margin:0 0 "
    "12px;padding:12px;"
    "border:1px solid var(--rule)}\n"
    "blockquote{margin:0 0 12px;padding-left:12px;border-left:2px solid "
    "var(--rule);white-space:pre-wrap}blockquote b{font-weight:400;"
    "color:var(--soft)}\n"
    ".drawing{display:inline-block}.drawing svg{display:block}\n"
    "@media(prefers-color-scheme:dark){.drawing text{fill:var(--text)}.drawing rect{stroke:var(--page)}"
    ".drawing .idle{fill:#2a2f34}.drawing .forward{fill:#2c5c96}.drawing .backward{fill:#2b6b3a}"
    ".drawing .weights{fill:#85561a}}\n"
    "input.axis{position:absolute;opacity:0}label.axis{display:inline-block;padding:2px 12px;margin:0 6px "
    "12px 0;border:1px solid "
    "var(--rule);cursor:pointer}.over{display:none}\n"
    "@media(max-width:600px){body{padding:16px 14px 48px}.plot{padding-left:48px;height:230px}.whole "
    ".plot{height:260px}"
    ".legend,.note,details{margin-left:0}td,th{padding-right:14px}}\n"
    "@media print{details{display:none}}\n";

/* The values at the pointer, as text. */
static const char script[] =
    "document.querySelectorAll('figure').forEach(f => {\n"
    "  const plot = f.querySelector('.plot'), svg = f.querySelector('svg.chart'), tip = "
    "f.querySelector('.tip'), "
    "cursor = f.querySelector('.cursor');\n"
    "  if (!plot) return;\n"
    "  const data = JSON.parse(f.querySelector('script').textContent), [low, high, kind] = "
    "svg.dataset.x.split(' ');\n"
    "  const near = (x, at) => { let a = 0, b = x.length - 1; while (b - a > 1) { const m = (a + b) >> 1; "
    "x[m] < at ? a = m : b = m } return Math.abs(x[a] - at) <= Math.abs(x[b] - at) ? a : b };\n"
    "  const text = v => v === null ? '-' : Math.abs(v) >= 1e6 || v && Math.abs(v) < 1e-3 ? v.toPrecision(5) "
    ": "
    "String(+v.toPrecision(6));\n"
    "  const hide = () => { tip.style.display = cursor.style.display = 'none' };\n"
    "  plot.addEventListener('pointerleave', hide);\n"
    "  plot.addEventListener('pointermove', e => {\n"
    "    const box = svg.getBoundingClientRect(), outer = plot.getBoundingClientRect(), part = (e.clientX - "
    "box.left) / box.width;\n"
    "    if (part < 0 || part > 1) return hide();\n"
    "    const at = kind == 'log' ? low * Math.pow(high / low, part) : +low + part * (high - low), lines = "
    "[];\n"
    "    let x, shown;\n"
    "    for (const s of data.series) {\n"
    "      x = s.x || x;\n"
    "      if (!x.length) continue;\n"
    "      const i = near(x, at);\n"
    "      if (shown === undefined) shown = x[i];\n"
    "      lines.push(s.name.slice(0, 60) + '  ' + text(s.y[i]) + (s.low ? '  (' + text(s.low[i]) + ' to ' + "
    "text(s.high[i]) + ')' : ''));\n"
    "    }\n"
    "    if (shown === undefined) return hide();\n"
    "    tip.textContent = data.x + ' ' + text(shown) + '\\n' + lines.join('\\n');\n"
    "    tip.style.display = cursor.style.display = 'block';\n"
    "    cursor.style.left = e.clientX - outer.left + 'px';\n"
    "    tip.style.top = '12px';\n"
    "    tip.style.left = Math.max(0, Math.min(e.clientX - outer.left + 12, outer.width - tip.offsetWidth)) "
    "+ 'px';\n"
    "  });\n"
    "});\n";

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
    fprintf(out, "%s</style></head><body>\n", style);
}

void html_end(FILE *out) { fprintf(out, "<script>\n%s</script>\n</body></html>\n", script); }

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
