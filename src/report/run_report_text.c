/* Reports as JSON, as a table and as Markdown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/log.h"
#include "report/run_columns.h"
#include "report/run_report.h"

#define CSV_FIRST "run,split,step,steps,tokens,flops,hours"
#define MD_FIRST  "The run "

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* The name may be no UTF-8, as any path; then it is left out. */
static json_t *text(const char *value)
{
    json_t *string = value ? json_string(value) : json_null();
    return string ? string : json_null();
}

/* ---- JSON ---- */

static json_t *points_json(const RunRecord *run)
{
    json_t *list = json_array();
    for (int i = 0; i < run->curve.points; i++) {
        const RunPoint *p = &run->curve.point[i];
        json_t         *row =
            json_pack("{s:I, s:I, s:o, s:o, s:o}", "step", (json_int_t)p->step, "steps", (json_int_t)p->steps,
                      "tokens", number(p->tokens), "flops", number(p->flops), "hours", number(p->hours));
        for (int n = 0; n < RUN_NUMBERS; n++)
            json_object_set_new(row, run_numbers[n].key, number(p->value[n]));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *evaluations_json(const RunRecord *run)
{
    json_t *list = json_array();
    for (int i = 0; i < run->evaluations; i++) {
        const RunEvaluation *e = &run->evaluation[i];
        json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)e->step,
                                              "split", text(e->split), "loss", number(e->loss), "perplexity",
                                              number(e->perplexity), "bits_per_byte", number(e->bits),
                                              "tokens", number(e->tokens)));
    }
    return list;
}

static json_t *samples_json(const RunRecord *run)
{
    json_t *list = json_array();
    for (int i = 0; i < run->samples; i++) {
        const RunSample *s = &run->sample[i];
        json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:o}", "step", (json_int_t)s->step, "sample",
            (json_int_t)s->number, "prompt", text(s->prompt), "text", text(s->text)));
    }
    return list;
}

static json_t *time_json(const RunRecord *run)
{
    RunTimePart part[RUN_TIME_PARTS];
    double  total;
    json_t *object = json_object();
    run_time_parts(part, run, &total);
    for (int i = 0; i < RUN_TIME_PARTS; i++)
        json_object_set_new(object, part[i].name, number(part[i].seconds));
    json_object_set_new(object, "sum", number(total));
    return object;
}

static json_t *starts_json(const RunRecord *run)
{
    json_t *list = json_array();
    for (int i = 0; i < run->starts; i++) {
        const RunStart *s = &run->start[i];
        json_t *row = json_pack(
            "{s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b, s:o}", "starts", (json_int_t)s->starts,
            "begin", number(s->begin), "end", number(s->end), "first_step", (json_int_t)s->first, "last_step",
            (json_int_t)s->last, "repeated_steps", (json_int_t)s->repeated_steps, "saves",
            (json_int_t)s->saves, "changed", text(s->changed), "ranks", number(s->ranks), "layout",
            text(s->layout), "ended", s->ended, "how", text(s->ended ? s->how : NULL));
        json_object_set(row, "facts", s->facts ? s->facts : json_null());
        json_object_set(row, "stop", s->stop ? s->stop : json_null());
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *run_json(const RunRecord *run)
{
    char state[512];
    const RunHeldout *h = &run->heldout;
    json_t *heldout = json_pack("{s:o, s:o, s:o}", "bits_per_byte", number(h->bits), "documents",
                                number(h->documents), "bytes", number(h->bytes));
    if (!isfinite(h->bits)) json_decref(heldout), heldout = json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "name",
                     text(run->name), "file", text(run->path), "heldout", heldout, "state",
                     text(run_state_text(state, run)), "ended", run_ended(run), "time", time_json(run),
                     "starts", starts_json(run), "facts_left_out", (json_int_t)run->large, "skipped_steps",
                     (json_int_t)run->skipped, "rewinds", (json_int_t)run->rewinds, "steps",
                     points_json(run), "evaluations", evaluations_json(run), "samples", samples_json(run));
}

json_t *run_report_tree(const RunReport *r)
{
    json_t *runs = json_array();
    for (int i = 0; i < r->runs; i++) json_array_append_new(runs, run_json(&r->run[i]));
    return json_pack("{s:o}", "runs", runs);
}

void run_report_put(FILE *out, json_t *whole)
{
    CHECK(json_dumpf(whole, out, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0,
          "the report cannot be written as JSON");
    fputc('\n', out);
    json_decref(whole);
}

void run_report_json(FILE *out, const RunReport *r) { run_report_put(out, run_report_tree(r)); }

/* ---- a table ---- */

/* In quotes where it has to be; a quote is doubled. */
static void csv_text(FILE *out, const char *value)
{
    if (!value[strcspn(value, ",\"\r\n")]) { fputs(value, out); return; }
    fputc('"', out);
    for (; *value; value++) fprintf(out, *value == '"' ? "\"\"" : "%c", *value);
    fputc('"', out);
}

static void csv_number(FILE *out, double value)
{
    if (isfinite(value)) fprintf(out, ",%.17g", value);
    else fputc(',', out);
}

static void csv_run(FILE *out, const RunRecord *run)
{
    for (int i = 0; i < run->curve.points; i++) {
        const RunPoint *p = &run->curve.point[i];
        csv_text(out, run->name);
        fprintf(out, ",train,%lld,%lld", (long long)p->step, (long long)p->steps);
        csv_number(out, p->tokens);
        csv_number(out, p->flops);
        csv_number(out, p->hours);
        for (int n = 0; n < RUN_NUMBERS; n++) csv_number(out, p->value[n]);
        fputs(",\n", out);
    }
    for (int i = 0; i < run->evaluations; i++) {
        const RunEvaluation *e = &run->evaluation[i];
        csv_text(out, run->name);
        fputc(',', out);
        csv_text(out, e->split);
        fprintf(out, ",%lld,0", (long long)e->step);
        csv_number(out, e->tokens);
        csv_number(out, run->flops_full > 0 ? e->tokens * run->flops_full : NAN);
        csv_number(out, e->hours);
        csv_number(out, e->loss);
        for (int n = 1; n < RUN_NUMBERS; n++) fputc(',', out);
        csv_number(out, e->bits);
        fputc('\n', out);
    }
}

void run_report_csv(FILE *out, const RunReport *r)
{
    fputs(CSV_FIRST, out);
    for (int n = 0; n < RUN_NUMBERS; n++) fprintf(out, ",%s", run_numbers[n].key);
    fputs(",bits_per_byte\n", out);
    for (int i = 0; i < r->runs; i++) csv_run(out, &r->run[i]);
}

void run_compare_csv(FILE *out, const RunReport *r) { run_report_csv(out, r); }

/* ---- Markdown ---- */

/* Signs that Markdown or HTML would take for theirs; a newline would end a row of a table. */
static void md_text(FILE *out, const char *value, size_t most)
{
    size_t bytes = strlen(value);
    for (size_t i = 0; i < bytes && i < most; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c == '<') fputs("&lt;", out);
        else if (c == '&') fputs("&amp;", out);
        else if (strchr("\\`*_{}[]()#+!|>~", c)) fprintf(out, "\\%c", c);
        else fputc(c < ' ' || c == 0x7f ? ' ' : c, out);
    }
    if (bytes > most) fprintf(out, " ... (%zu bytes more)", bytes - most);
}

static void md_times(FILE *out, const RunRecord *run)
{
    RunTimePart part[RUN_TIME_PARTS];
    char   time[24];
    double total;
    run_time_parts(part, run, &total);
    if (!(total > 0)) return;
    fputs("\n## Time\n\n| spent on | time | share |\n|---|---:|---:|\n", out);
    for (int i = 0; i < RUN_TIME_PARTS; i++)
        if (part[i].seconds > 0)
            fprintf(out, "| %s | %s | %.1f %% |\n", part[i].name, log_time(time, part[i].seconds),
                    100 * part[i].seconds / total);
}

static void md_evaluations(FILE *out, const RunRecord *run)
{
    int from = run->evaluations > 20 ? run->evaluations - 20 : 0;
    if (run->evaluations == 0) return;
    fputs("\n## Evaluations\n\n| step | split | loss | perplexity |\n|---:|---|---:|---:|\n", out);
    for (int i = from; i < run->evaluations; i++) {
        const RunEvaluation *e = &run->evaluation[i];
        fprintf(out, "| %lld | ", (long long)e->step);
        md_text(out, e->split, 60);
        fprintf(out, " | %.4f | %.3f |\n", e->loss, e->perplexity);
    }
}

static void md_curve(FILE *out, const RunRecord *run)
{
    RunColumns *c = run_columns_make(run, COLUMNS_MOST);
    ChartSeries series = {.name  = "training loss",
                          .x     = c->over[OVER_STEPS],
                          .y     = c->value[RUN_LOSS],
                          .count = c->count,
                          .low   = c->joined ? c->low[RUN_LOSS] : NULL,
                          .high  = c->joined ? c->high[RUN_LOSS] : NULL};
    fputs("\n```\n", out);
    chart_letters(out, &(Chart){ .title = "training loss", .x_name = "step", .series = &series, .count = 1 });
    fputs("```\n", out);
    free(c);
}

static void md_samples(FILE *out, const RunRecord *run)
{
    if (run->samples == 0) return;
    fputs("\n## Samples of text\n", out);
    for (int i = run->samples > 8 ? run->samples - 8 : 0; i < run->samples; i++) {
        const RunSample *s = &run->sample[i];
        fprintf(out, "\nStep %lld, sample %lld: *", (long long)s->step, (long long)s->number);
        md_text(out, s->prompt, 400);
        fputs("* ", out);
        md_text(out, s->text, 800);
        fputc('\n', out);
    }
}

void run_report_md(FILE *out, const RunReport *r)
{
    char state[512];
    for (int i = 0; i < r->runs; i++) {
        const RunRecord *run = &r->run[i];
        fputs(i ? "\n# " : "# ", out);
        md_text(out, run->name, 200);
        fputs("\n\n" MD_FIRST, out);
        md_text(out, run_state_text(state, run), 400);
        fputs(".", out);
        const char *layout = run->start[run->starts - 1].layout;
        if (*layout) fputs(" Layout: ", out), md_text(out, layout, RUN_LAYOUT_ROOM), fputc('.', out);
        fputc('\n', out);
        if (run->large)
            fprintf(out,
                    "The facts of %lld starts and ends are left out: they have more than 4 MB, or would take "
                    "more than 32 MB of memory.\n",
                    (long long)run->large);
        if (run->strange)
            fprintf(out, "%lld of its %lld lines are not understood, and left out.\n",
                    (long long)run->strange, (long long)run->lines);
        if (isfinite(run->heldout.bits))
            fprintf(out, "Bits per byte of the documents held out (all %.0f, %.0f bytes): %.4f.\n",
                    run->heldout.documents, run->heldout.bytes, run->heldout.bits);
        md_curve(out, run);
        md_evaluations(out, run);
        md_times(out, run);
        md_samples(out, run);
    }
}

/* ---- what these have written ---- */

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* As run_report_put indents the first member of run_report_tree. */
bool run_report_is_json(const char *head) { return begins(head, "{\n \"runs\": ["); }
bool run_report_is_csv (const char *head) { return begins(head, CSV_FIRST); }
bool run_report_is_html(const char *head) { return !strncasecmp(head, "<!doctype", 9); }

/* A title, an empty line, and what run_report_md or run_compare_md begins with. */
bool run_report_is_md(const char *head)
{
    const char *end = strchr(head, '\n');
    return begins(head, "# ") && end &&
           (begins(end, "\n\n" MD_FIRST) || begins(end, "\n\n" RUN_COMPARE_MD_FIRST));
}
