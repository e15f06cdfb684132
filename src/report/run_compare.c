/* `jotun compare`: the options that differ, the results beside each other, and the losses of all runs over
 * steps, tokens, FLOPs and hours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "report/html.h"
#include "report/run_columns.h"
#include "report/run_report.h"

/* ---- options that differ ---- */

static const json_t *option_of(const RunRecord *run, const char *name)
{
    return json_object_get(run_fact(run, "options"), name);
}

/* Places and names of what a run writes, which every run has of its own and which tell nothing; --load is
 * mostly the directory of --save. */
static const char *const places[] = { "save", "load", "metrics", "history", "tensorboard-dir", "profile",
                                      "wandb-save-dir", "wandb-exp-name" };

static bool differs(const RunReport *r, const char *name)
{
    for (size_t i = 0; i < COUNT(places); i++) if (!strcmp(name, places[i])) return false;
    const RunRecord *first = NULL;
    for (int i = 0; i < r->runs; i++) {
        if (!run_fact(&r->run[i], "options")) continue;
        if (!first) first = &r->run[i];
        const json_t *a = option_of(first, name), *b = option_of(&r->run[i], name);
        if (!a != !b || (a && !json_equal((json_t *)a, (json_t *)b))) return true;
    }
    return false;
}

/* The names of options of all runs that differ, each once, as the keys of an object. Runs whose options are
 * not known, those of a metrics file, are left out. */
static json_t *options_differing(const RunReport *r)
{
    json_t *names = json_object(), *value;
    const char *name;
    for (int i = 0; i < r->runs; i++)
        json_object_foreach((json_t *)run_fact(&r->run[i], "options"), name,
                            value) if (!json_object_get(names, name) && differs(r, name))
            json_object_set_new(names, name, json_null());
    return names;
}

/* The value as a person types it; the caller frees it. */
static char *value_text(const json_t *value)
{
    char *text = !value ? strdup("-") : json_is_string(value) ? strdup(json_string_value(value))
                        : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    CHECK(text, "no memory for the value of an option");
    if (strlen(text) > 300) text[300] = '\0';
    return text;
}

/* ---- results ---- */

/* loss: the mean of the last twentieth of the run's points */
typedef struct { double loss, valid, best, bits, step, tokens, flops, hours, speed; } RunResult;

static RunResult result_of(const RunRecord *run)
{
    RunResult x = { NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    const RunEvaluation *valid = run_last_evaluation(run, "valid", &x.best);
    if (valid) x.valid = valid->loss, x.bits = valid->bits;
    if (run->curve.points == 0) return x;
    const RunPoint *last = &run->curve.point[run->curve.points - 1];
    x.step = (double)last->step, x.tokens = last->tokens, x.flops = last->flops, x.hours = last->hours;
    int late = 1 + run->curve.points / 20;
    x.loss  = run_points_mean(last + 1 - late, late, RUN_LOSS);
    x.speed = run_points_mean(run->curve.point, run->curve.points, RUN_SPEED);
    return x;
}

static const char *shown(char out[24], const char *format, double value)
{
    if (!isfinite(value)) return "-";
    if (format) snprintf(out, 24, format, value);
    else chart_number(out, value);
    return out;
}

/* ---- the page ---- */

static void swatch(FILE *out, int i)
{
    fprintf(out,
            "<svg width=\"30\" height=\"8\" aria-hidden=\"true\"><line class=\"line c%d d%d\" x1=\"2\" "
            "x2=\"28\" y1=\"4\""
            " y2=\"4\"/></svg> ",
            i % CHART_COLOURS, i / CHART_COLOURS % CHART_DASHES);
}

static void options_table(FILE *out, const RunReport *r)
{
    json_t *names = options_differing(r), *none;
    const char *name;
    int known = 0;
    for (int i = 0; i < r->runs; i++) known += run_fact(&r->run[i], "options") != NULL;
    fputs("<h2>Options that differ</h2>\n", out);
    if (known < r->runs)
        fprintf(out,
                "<p class=\"soft\">%d of the runs: their options are not known, as a file of metrics has "
                "none.</p>\n",
                r->runs - known);
    if (json_object_size(names) == 0) fputs("<p>None, but for where the runs write.</p>\n", out);
    else {
        fputs("<div class=\"scroll\"><table><thead><tr><th class=\"t\">option</th>", out);
        for (int i = 0; i < r->runs; i++) {
            fputs("<th>", out);
            html_text(out, r->run[i].name);
            fputs("</th>", out);
        }
        fputs("</tr></thead><tbody>\n", out);
        json_object_foreach(names, name, none) {
            fputs("<tr><th class=\"t\">--", out);
            html_text(out, name);
            fputs("</th>", out);
            for (int i = 0; i < r->runs; i++) {
                char *text = value_text(option_of(&r->run[i], name));
                fputs("<td>", out);
                html_text(out, text);
                fputs("</td>", out);
                free(text);
            }
            fputs("</tr>\n", out);
        }
        fputs("</tbody></table></div>\n", out);
    }
    json_decref(names);
}

static void results_table(FILE *out, const RunReport *r)
{
    fputs("<h2>Results</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"t\">run</th><th>training "
          "loss</th>"
          "<th>validation loss</th><th>least of it</th><th>bits per "
          "byte</th><th>steps</th><th>tokens</th><th>FLOPs</th>"
          "<th>hours</th><th>tokens per second</th></tr></thead><tbody>\n",
          out);
    for (int i = 0; i < r->runs; i++) {
        RunResult x = result_of(&r->run[i]);
        const struct { const char *format; double value; } cell[] = {
            { "%.4f", x.loss }, { "%.4f", x.valid }, { "%.4f", x.best }, { "%.4f", x.bits }, { "%.0f", x.step },
            { NULL, x.tokens }, { NULL, x.flops }, { "%.3f", x.hours }, { NULL, x.speed } };
        char text[24];
        fputs("<tr><td class=\"t\">", out);
        swatch(out, i);
        html_text(out, r->run[i].name);
        fputs("</td>", out);
        for (size_t c = 0; c < COUNT(cell); c++)
            fprintf(out, "<td>%s</td>", shown(text, cell[c].format, cell[c].value));
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n<p class=\"soft\">The training loss is the mean over the last twentieth "
          "of a run.</p>\n",
          out);
}

/* What the four charts of a kind are drawn from; names of runs belong to these. */
enum { ROWS = 256 };
typedef struct { double over[OVERS][COLUMNS_MOST], loss[COLUMNS_MOST]; int count; } CompareCurve;

static void training_curve(CompareCurve *curve, const RunRecord *run)
{
    RunColumns *c = run_columns_make(run, ROWS);
    memcpy(curve->over, c->over, sizeof curve->over);
    memcpy(curve->loss, c->smooth[RUN_LOSS], sizeof curve->loss);
    curve->count = c->count;
    free(c);
}

static void validation_curve(CompareCurve *curve, const RunRecord *run)
{
    double bits[COLUMNS_MOST];
    curve->count = run_columns_evaluations(curve->over, curve->loss, bits, run, "valid", ROWS);
}

static bool over_log(const CompareCurve *curve, int runs, RunOver over)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < runs; i++) {
        if (curve[i].count == 0) continue;
        double end = curve[i].over[over][curve[i].count - 1];
        least = fmin(least, end), most = fmax(most, end);
    }
    return over != OVER_HOURS && least > 0 && most > 20 * least;
}

/* Runs whose lengths are far apart are shown on a logarithmic axis. */
static void figures(FILE *out, const RunReport *r, const CompareCurve *curve, const char *id,
                    const char *title)
{
    ChartSeries series[RUN_COMPARE_MOST];
    for (int over = 0; over < OVERS; over++) {
        char name[40], heading[80];
        bool log_y = r->runs > 0;
        for (int i = 0; i < r->runs; i++) {
            const CompareCurve *c = &curve[i];
            series[i]             = (ChartSeries){.name  = r->run[i].name,
                                                  .x     = c->over[over],
                                                  .y     = c->loss,
                                                  .count = c->count,
                                                  .style = i,
                                                  .look  = c->count < 16 ? CHART_MARKS : CHART_LINE};
            log_y = log_y && run_columns_log(c->loss, c->count, 8);
        }
        snprintf(name, sizeof name, "%s-%s", id, run_over_names[over]);
        snprintf(heading, sizeof heading, "%s over %s", title,
                 over == OVER_STEPS ? "steps" : run_over_names[over]);
        Chart chart = {.title  = heading,
                       .x_name = run_over_names[over],
                       .series = series,
                       .count  = r->runs,
                       .log_y  = log_y,
                       .log_x  = over_log(curve, r->runs, (RunOver)over)};
        fprintf(out, "<div class=\"over o%d\">\n", over);
        html_figure(out, &chart, name,
                    !strcmp(id, "loss") ? "Smoothed. Nats for a token." : "Nats for a token.");
        fputs("</div>\n", out);
    }
}

/* Buttons without a script: the charts of the axis that is chosen are shown. */
static void axis_buttons(FILE *out)
{
    fputs("<style>", out);
    for (int i = 0; i < OVERS; i++)
        fprintf(
            out,
            "#over%d:checked~.o%d{display:block}#over%d:checked~label[for=over%d]{border-color:var(--text);"
            "font-weight:600}#over%d:focus-visible~label[for=over%d]{outline:2px solid var(--c0)}",
            i, i, i, i, i, i);
    fputs("</style>\n", out);
    for (int i = 0; i < OVERS; i++)
        fprintf(out, "<input class=\"axis\" type=\"radio\" name=\"over\" id=\"over%d\"%s>\n", i,
                i ? "" : " checked");
    for (int i = 0; i < OVERS; i++)
        fprintf(out, "<label class=\"axis\" for=\"over%d\">%s</label>\n", i,
                i == OVER_STEPS ? "steps" : run_over_names[i]);
}

static void curves(FILE *out, const RunReport *r)
{
    CompareCurve *curve = calloc((size_t)r->runs, sizeof *curve);
    int evaluated = 0;
    CHECK(curve, "no memory for the curves of %d runs", r->runs);
    fputs("<h2>Losses</h2>\n<section>\n", out);
    axis_buttons(out);
    for (int i = 0; i < r->runs; i++) training_curve(&curve[i], &r->run[i]);
    figures(out, r, curve, "loss", "Training loss");
    for (int i = 0; i < r->runs; i++) {
        validation_curve(&curve[i], &r->run[i]);
        evaluated += curve[i].count > 0;
    }
    if (evaluated) figures(out, r, curve, "valid", "Validation loss");
    fputs("</section>\n", out);
    free(curve);
}

void run_compare_html(FILE *out, const RunReport *r)
{
    char title[80];
    snprintf(title, sizeof title, "%d runs - jotun compare", r->runs);
    html_begin(out, title, r->refresh);
    fprintf(out, "<h1>%d runs</h1>\n", r->runs);
    options_table(out, r);
    results_table(out, r);
    curves(out, r);
    html_end(out);
}

/* ---- Markdown ---- */

/* first: what stands before the text, as it is */
static void md_cell(FILE *out, const char *first, const char *text)
{
    fprintf(out, " %s", first);
    for (; *text; text++)
        if (strchr("\\`*_[]<>|&", *text)) fprintf(out, "\\%c", *text);
        else fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    fputs(" |", out);
}

static void md_names(FILE *out, const RunReport *r, const char *first)
{
    fprintf(out, "| %s |", first);
    for (int i = 0; i < r->runs; i++) md_cell(out, "", r->run[i].name);
    fputs("\n|---|", out);
    for (int i = 0; i < r->runs; i++) fputs("---|", out);
    fputc('\n', out);
}

void run_compare_md(FILE *out, const RunReport *r)
{
    json_t *names = options_differing(r), *none;
    const char *name;
    char text[24];
    fprintf(out, "# %d runs\n\n" RUN_COMPARE_MD_FIRST "\n", r->runs);
    md_names(out, r, "option");
    json_object_foreach(names, name, none) {
        fputc('|', out);
        md_cell(out, "--", name);
        for (int i = 0; i < r->runs; i++) {
            char *value = value_text(option_of(&r->run[i], name));
            md_cell(out, "", value);
            free(value);
        }
        fputc('\n', out);
    }
    json_decref(names);
    fputs("\n## Results\n\n| run | training loss | validation loss | steps | tokens | hours "
          "|\n|---|---:|---:|---:|---:|---:|\n",
          out);
    for (int i = 0; i < r->runs; i++) {
        RunResult x = result_of(&r->run[i]);
        fputs("|", out);
        md_cell(out, "", r->run[i].name);
        fprintf(out, " %s |", shown(text, "%.4f", x.loss));
        fprintf(out, " %s |", shown(text, "%.4f", x.valid));
        fprintf(out, " %s |", shown(text, "%.0f", x.step));
        fprintf(out, " %s |", shown(text, NULL, x.tokens));
        fprintf(out, " %s |\n", shown(text, "%.3f", x.hours));
    }
}

/* ---- JSON ---- */

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* For each option its values, in the order of the runs; null: the run has none. */
static json_t *differing_json(const RunReport *r)
{
    json_t *names = options_differing(r), *none, *all = json_object();
    const char *name;
    json_object_foreach(names, name, none) {
        json_t *values = json_array();
        for (int i = 0; i < r->runs; i++) {
            const json_t *value = option_of(&r->run[i], name);
            json_array_append_new(values, value ? json_incref((json_t *)value) : json_null());
        }
        json_object_set_new(all, name, values);
    }
    json_decref(names);
    return all;
}

static json_t *results_json(const RunReport *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->runs; i++) {
        RunResult x = result_of(&r->run[i]);
        json_t *name = json_string(r->run[i].name);                          /* NULL: it is no UTF-8 */
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run",
            name ? name : json_null(), "training_loss", number(x.loss), "validation_loss", number(x.valid),
            "least_validation_loss", number(x.best), "bits_per_byte", number(x.bits), "step", number(x.step),
            "tokens", number(x.tokens), "flops", number(x.flops), "hours", number(x.hours),
            "tokens_per_second", number(x.speed)));
    }
    return list;
}

void run_compare_json(FILE *out, const RunReport *r)
{
    json_t *whole = run_report_tree(r);
    json_object_set_new(whole, "differing", differing_json(r));
    json_object_set_new(whole, "results", results_json(r));
    run_report_put(out, whole);
}
