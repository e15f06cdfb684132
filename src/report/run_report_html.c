/* The page of `jotun report`: for each run its key numbers, charts, time, memory, samples, layout, data,
 * options and the command that does it again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "plan/draw.h"
#include "report/html.h"
#include "report/run_figures.h"
#include "report/run_report.h"

/* ---- small parts ---- */

static void heading(FILE *out, const char *text) { fprintf(out, "<h2>%s</h2>\n", text); }

/* A row of a table of two columns; nothing where the value is not known. */
static void fact_row(FILE *out, const char *name, const char *value)
{
    if (!value || !*value) return;
    fprintf(out, "<tr><th class=\"t\">%s</th><td class=\"w\">", name);
    html_text(out, value);
    fputs("</td></tr>\n", out);
}

static void number_row(FILE *out, const char *name, const char *format, double value)
{
    char text[64];
    if (!isfinite(value) || value == 0) return;
    snprintf(text, sizeof text, format, value);
    fact_row(out, name, text);
}

static void table_begin(FILE *out) { fputs("<div class=\"scroll\"><table><tbody>\n", out); }
static void table_end  (FILE *out) { fputs("</tbody></table></div>\n", out); }

static void number_cell(FILE *out, double value)
{
    if (isfinite(value)) fprintf(out, "<td>%.6g</td>", value);
    else fputs("<td>-</td>", out);
}

static double number_in(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_in(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* ---- the head ---- */

static void tile(FILE *out, const char *what, const char *format, double value)
{
    char text[64];
    if (!isfinite(value)) return;
    snprintf(text, sizeof text, format, value);
    html_tile(out, what, text);
}

static void count_tile(FILE *out, const char *what, double value)
{
    char text[24];
    if (isfinite(value) && value > 0) html_tile(out, what, chart_number(text, value));
}

static double mean_value(const RunRecord *run, RunNumber n)
{
    return run->curve.points ? run_points_mean(run->curve.point, run->curve.points, n) : NAN;
}

static void time_left_tile(FILE *out, const RunRecord *run)
{
    char   text[24];
    double steps = run_fact_number(run, "steps"), each = mean_value(run, RUN_SECONDS);
    if (run_over(run) || run->curve.points == 0 || !(steps > 0) || !isfinite(each)) return;
    double left = steps - (double)run->curve.point[run->curve.points - 1].step;
    if (left > 0) html_tile(out, "left, at the mean speed", log_time(text, left * each));
}

/* Of a speedrun the result is of all documents held out, and validation of some batches of them. */
static void evaluation_tiles(FILE *out, const RunRecord *run)
{
    char   what[96], batches[40] = "";
    const json_t *options = run_fact(run, "options");
    double best, some = number_in(options, "eval-iters");
    const RunEvaluation *valid = run_last_evaluation(run, "valid", &best);
    if (isfinite(run->heldout.bits)) {
        snprintf(what, sizeof what, "bits per byte, documents held out: all %.0f", run->heldout.documents);
        tile(out, what, "%.4f", run->heldout.bits);
    }
    if (!valid) return;
    bool whole = json_is_true(json_object_get(options, "full-validation"));
    if (some > 0 && !whole) snprintf(batches, sizeof batches, ", %.0f batch%s", some, some == 1 ? "" : "es");
    tile(out, "validation loss", "%.4f", valid->loss);
    if (best < valid->loss) tile(out, "least validation loss", "%.4f", best);
    snprintf(what, sizeof what, "bits per byte, validation at step %lld%s", (long long)valid->step, batches);
    tile(out, what, "%.4f", valid->bits);
}

static void head(FILE *out, const RunRecord *run)
{
    char state[512], text[24];
    double total, stopped;
    const RunPoint *last = run->curve.points ? &run->curve.point[run->curve.points - 1] : NULL;
    run_times(run, &total, &stopped);
    fputs("<h1>", out);
    html_text(out, run->name);
    fputs("</h1>\n<p class=\"soft\">", out);
    html_text(out, run_state_text(state, run));
    fputs("</p>\n<div class=\"tiles\">\n", out);
    if (last) tile(out, "training loss", "%.4f", last->value[RUN_LOSS]);
    evaluation_tiles(out, run);
    if (last) {
        tile(out, "steps", "%.0f", (double)last->step);
        count_tile(out, "tokens", last->tokens);
        count_tile(out, "FLOPs", last->flops);
    }
    count_tile(out, "parameters", run_fact_number(run, "parameters"));
    count_tile(out, "tokens per second, mean", mean_value(run, RUN_SPEED));
    tile(out, "MFU, mean", "%.1f %%", 100 * mean_value(run, RUN_MFU));
    if (total > 0) html_tile(out, "running time", log_time(text, total));
    time_left_tile(out, run);
    fputs("</div>\n", out);
}

/* ---- time ---- */

static void times(FILE *out, const RunRecord *run)
{
    RunTimePart part[RUN_TIME_PARTS];
    char   text[24];
    double total;
    run_time_parts(part, run, &total);
    if (!(total > 0)) return;
    heading(out, "Time");
    fputs("<div class=\"scroll\"><table class=\"bars\"><thead><tr><th class=\"t\">spent "
          "on</th><th>time</th><th>share</th><th></th>"
          "</tr></thead><tbody>\n",
          out);
    for (int i = 0; i < RUN_TIME_PARTS; i++) {
        if (!(part[i].seconds > 0)) continue;
        fprintf(out, "<tr><td class=\"t\">%s</td><td>%s</td><td>%.1f %%</td><td>", part[i].name,
                log_time(text, part[i].seconds), 100 * part[i].seconds / total);
        html_bar(out, part[i].seconds, total, i == 0 ? 2 : i < 3 ? 1 : 0);
        fputs("</td></tr>\n", out);
    }
    fprintf(out,
            "<tr class=\"sum\"><td "
            "class=\"t\">sum</td><td>%s</td><td></td><td></td></tr>\n</tbody></table></div>\n",
            log_time(text, total));
}

enum { STARTS_SHOWN = 50 };

static void start_row(FILE *out, const RunRecord *run, int i)
{
    char date[40], text[24];
    const RunStart *s = &run->start[i];
    long long number = i + run->start[0].starts;
    fprintf(out, "<tr><td>%lld</td><td>%s</td><td>%lld</td><td>%lld</td><td>%s</td><td class=\"t\">%s</td>",
            number, run_date_text(date, s->begin), (long long)s->first, (long long)s->last,
            log_time(text, fmax(0, s->end - s->begin)),
            s->ended              ? !strcmp(s->how, "signal") || !strcmp(s->how, "end") ? s->how : "failure"
            : i + 1 < run->starts ? "killed"
            : run->lost           ? "killed or lost"
                                  : "");
    fprintf(out, "<td>%lld</td><td>%.0f</td><td class=\"t\">", (long long)s->repeated_steps,
            fmax(0, s->ranks));
    html_text(out, s->layout);
    fputs("</td><td class=\"w\">", out);
    html_text(out, s->changed);
    fputs("</td></tr>\n", out);
}

static void starts(FILE *out, const RunRecord *run)
{
    if (!run->journal || run->starts < 2) return;
    heading(out, "Starts");
    if (run->starts > STARTS_SHOWN)
        fprintf(out, "<p>The last %d of %lld.</p>\n", STARTS_SHOWN, (long long)run_starts(run));
    fputs("<div class=\"scroll\"><table><thead><tr><th>start</th><th>begun</th><th>first step</th><th>last "
          "step</th><th>time</th>"
          "<th class=\"t\">ended by</th><th>steps taken again</th><th>ranks</th><th class=\"t\">layout</th>"
          "<th class=\"t\">options changed</th></tr></thead><tbody>\n",
          out);
    for (int i = run->starts > STARTS_SHOWN ? run->starts - STARTS_SHOWN : 0; i < run->starts; i++)
        start_row(out, run, i);
    table_end(out);
}

enum { TROUBLES_SHOWN = 40 };

static void troubles(FILE *out, const RunRecord *run)
{
    if (run->skipped + run->rewinds == 0) return;
    heading(out, "Skipped steps");
    fprintf(out, "<p>%lld steps were skipped; the run went back to a checkpoint %lld times.</p>\n",
            (long long)run->skipped, (long long)run->rewinds);
    if (run->troubles == 0) return;
    fputs("<div class=\"scroll\"><table><thead><tr><th>step</th><th "
          "class=\"t\">why</th><th>loss</th><th>gradient norm</th></tr>"
          "</thead><tbody>\n",
          out);
    for (int i = 0; i < run->troubles && i < TROUBLES_SHOWN; i++) {
        const RunTrouble *t = &run->trouble[i];
        fprintf(out, "<tr><td>%lld</td><td class=\"t\">", (long long)t->step);
        if (t->to >= 0) fprintf(out, "back to step %lld", (long long)t->to);
        else html_text(out, t->why);
        fputs("</td>", out);
        number_cell(out, t->loss);
        number_cell(out, t->norm);
        fputs("</tr>\n", out);
    }
    table_end(out);
}

/* ---- memory ---- */

/* The bytes that an entry of a list of { "name", "bytes" } has; NAN: there is none of the name. */
static double bytes_named(const json_t *list, const char *name)
{
    size_t  i;
    json_t *entry;
    json_array_foreach((json_t *)list, i, entry)
        if (text_in(entry, "name") && !strcmp(text_in(entry, "name"), name)) return number_in(entry, "bytes");
    return NAN;
}

static void memory_row(FILE *out, const char *name, bool part, double planned, double used, double most)
{
    char text[24];
    fprintf(out, "<tr><td class=\"t\">%s", part ? "&emsp;" : "");
    html_text(out, name);
    fprintf(out, "</td><td>%s</td>", isfinite(planned) ? log_bytes(text, planned) : "");
    fprintf(out, "<td>%s</td><td>", isfinite(used) ? log_bytes(text, used) : "");
    html_bar(out, isfinite(planned) ? planned : used, most, part ? 5 : 0);
    fputs("</td></tr>\n", out);
}

static void memory(FILE *out, const RunRecord *run)
{
    const json_t *planned = run_fact(run, "memory"), *stop = run->start[run->starts - 1].stop;
    const json_t *used = json_object_get(stop, "memory");
    size_t  i, k;
    json_t *arena, *part;
    double  sum = 0, used_sum = 0, resident = number_in(stop, "resident_bytes");
    if (!json_array_size(planned)) return;
    json_array_foreach((json_t *)planned, i, arena) sum += fmax(0, number_in(arena, "bytes"));
    double most = fmax(sum, isfinite(resident) ? resident : 0);
    heading(out, "Memory of rank 0");
    fputs("<div class=\"scroll\"><table class=\"bars\"><thead><tr><th class=\"t\">for</th><th>planned by the "
          "dry run</th>"
          "<th>used at most</th><th></th></tr></thead><tbody>\n",
          out);
    json_array_foreach((json_t *)planned, i, arena) {
        const char *name = text_in(arena, "name");
        double bytes = name ? bytes_named(used, name) : NAN;
        memory_row(out, name ? name : "", false, number_in(arena, "bytes"), bytes, most);
        used_sum += fmax(0, bytes);
        json_array_foreach(json_object_get(arena, "parts"), k, part)
            memory_row(out, text_in(part, "name") ? text_in(part, "name") : "", true,
                       number_in(part, "bytes"), NAN, most);
    }
    memory_row(out, "sum", false, sum, stop ? used_sum : NAN, most);
    if (resident > 0)
        memory_row(out, "resident memory of the process, with code and mapped files", false, NAN, resident,
                   most);
    table_end(out);
}

/* ---- samples ---- */

enum { SAMPLES_OPEN = 6, SAMPLES_SHOWN = 60 };

static void sample_text(FILE *out, const char *text, size_t bytes)
{
    html_text(out, text);
    if (bytes > strlen(text))
        fprintf(out, " <span class=\"soft\">[%zu bytes more]</span>", bytes - strlen(text));
}

static void sample_put(FILE *out, const RunSample *s)
{
    fprintf(out, "<p class=\"soft\">step %lld, sample %lld</p><blockquote><b>", (long long)s->step,
            (long long)s->number);
    sample_text(out, s->prompt, s->prompt_bytes);
    fputs("</b>", out);
    sample_text(out, s->text, s->text_bytes);
    fputs("</blockquote>\n", out);
}

/* The last ones first; of many some, evenly spread. */
static void samples(FILE *out, const RunRecord *run)
{
    int shown = run->samples < SAMPLES_SHOWN ? run->samples : SAMPLES_SHOWN;
    if (run->samples == 0) return;
    heading(out, "Samples of text");
    fputs("<p class=\"soft\">The prompt is grey. The newest are first.</p>\n<section>\n", out);
    for (int i = 0; i < shown; i++) {
        int back = i < SAMPLES_OPEN
                       ? i
                       : SAMPLES_OPEN + (int)((int64_t)(i - SAMPLES_OPEN) * (run->samples - SAMPLES_OPEN) /
                                              (shown - SAMPLES_OPEN));
        if (i == SAMPLES_OPEN) fputs("<details><summary>Earlier samples</summary>\n", out);
        sample_put(out, &run->sample[run->samples - 1 - back]);
    }
    fputs(shown > SAMPLES_OPEN ? "</details></section>\n" : "</section>\n", out);
}

/* ---- layout ---- */

enum { DRAWN_STAGES = 64, DRAWN_MICROS = 64 };

static int whole_in(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    json_int_t    whole = json_is_integer(value) ? json_integer_value(value) : 0;
    return whole >= 0 && whole <= 1 << 20 ? (int)whole : 0;
}

/* False where the journal has no schedule that can be drawn. */
static bool schedule_of(ScheduleShape *shape, const json_t *facts)
{
    const char *name = text_in(facts, "name");
    for (ScheduleKind kind = SCHEDULE_1F1B; name && kind < SCHEDULE_FORWARD; kind++) {
        if (strcmp(schedule_name(kind), name) != 0) continue;
        *shape = (ScheduleShape){ kind, whole_in(facts, "stages"), whole_in(facts, "chunks"),
            whole_in(facts, "micro_batches"), json_is_true(json_object_get(facts, "v_shaped")),
            whole_in(facts, "group"), whole_in(facts, "extra"), false };
        return shape->stages > 1 && shape->stages <= DRAWN_STAGES && shape->chunks >= 1 &&
               shape->chunks <= CHUNKS_MAX && shape->micros >= 1 && shape->group <= 64 && shape->extra <= 16;
    }
    return false;
}

static void pipeline(FILE *out, const RunRecord *run)
{
    Schedule all[DRAWN_STAGES];
    ScheduleShape shape;
    if (!schedule_of(&shape, run_fact(run, "schedule"))) return;
    int whole = shape.micros, most = shape.stages > 8 ? 4 * shape.stages : 32, made = 0;
    int unit = shape.group > 0 ? shape.group : shape.stages;
    if (shape.micros > most) shape.micros = most / unit > 0 ? most / unit * unit : unit;
    Status status = schedule_accepts(&shape);
    for (; status == OK && made < shape.stages; made++) status = schedule_make(&all[made], &shape, made);
    if (status == OK) status = schedule_check(all, shape.stages);
    if (status == OK) {
        char *picture = draw_schedule_svg(all, shape.stages);
        fprintf(out,
                "<h3>The pipeline's schedule: %s, %d stages, %d micro-batches%s</h3>\n<p class=\"soft\">A "
                "row for each "
                "stage: forward blue, backward of activations green, of weights orange, idle grey; the "
                "number is the "
                "micro-batch. A computation is drawn as one unit of time.",
                schedule_name(shape.kind), shape.stages, whole,
                shape.chunks > 1 ? ", several chunks of layers for each stage" : "");
        if (shape.micros < whole) fprintf(out, " Drawn with %d micro-batches.", shape.micros);
        fprintf(out, "</p>\n<div class=\"scroll\"><div class=\"drawing\">%s</div></div>\n", picture);
        free(picture);
    }
    while (made > 0) schedule_free(&all[--made]);
}

static void model_and_layout(FILE *out, const RunRecord *run)
{
    char peak[80];
    if (!run->journal) return;
    heading(out, "Model and layout");
    table_begin(out);
    number_row(out, "parameters", "%.0f", run_fact_number(run, "parameters"));
    if (run_fact_number(run, "active_parameters") < run_fact_number(run, "parameters"))
        number_row(out, "parameters of a token", "%.0f", run_fact_number(run, "active_parameters"));
    number_row(out, "FLOPs for a token, attention in full", "%.6g", run->flops_full);
    number_row(out, "FLOPs for a token, causal attention", "%.6g", run->flops_causal);
    number_row(out, "positions of a sample", "%.0f", run_fact_number(run, "sequence"));
    number_row(out, "ranks", "%.0f", run_fact_number(run, "ranks"));
    fact_row(out, "layout", run->start[run->starts - 1].layout);
    fact_row(out, "optimizer", run_fact_text(run, "optimizer"));
    fact_row(out, "type of numbers", run_fact_text(run, "type"));
    fact_row(out, "device", run_fact_text(run, "device"));
    fact_row(out, "kernels", run_fact_text(run, "kernels"));
    number_row(out, "threads of a rank", "%.0f", run_fact_number(run, "threads"));
    snprintf(peak, sizeof peak, "%.1f GFLOP/s", 1e-9 * run->peak);
    if (run->peak > 0) fact_row(out, "peak, of which MFU is a share", peak);
    fact_row(out, "host of rank 0", run_fact_text(run, "host"));
    table_end(out);
    pipeline(out, run);
}

/* ---- data, options, command ---- */

static void data(FILE *out, const RunRecord *run)
{
    size_t  i;
    json_t *set;
    char    number[24];
    const json_t *list = run_fact(run, "data");
    if (!json_array_size(list)) return;
    heading(out, "Training data");
    fputs("<div class=\"scroll\"><table class=\"bars\"><thead><tr><th class=\"t\">data "
          "set</th><th>share</th><th>tokens in it</th>"
          "<th>samples of the run</th><th>epochs</th><th></th></tr></thead><tbody>\n",
          out);
    json_array_foreach((json_t *)list, i, set) {
        if (i == 200) break;
        double share = number_in(set, "share");
        fputs("<tr><td class=\"w\">", out);
        html_text(out, text_in(set, "name"));
        fprintf(out, "</td><td>%.2f %%</td><td>%s</td>", 100 * share,
                chart_number(number, number_in(set, "tokens")));
        fprintf(out, "<td>%s</td>", chart_number(number, number_in(set, "samples")));
        number_cell(out, number_in(set, "epochs"));
        fputs("<td>", out);
        html_bar(out, share, 1, 0);
        fputs("</td></tr>\n", out);
    }
    table_end(out);
    if (json_array_size(list) > 200) fprintf(out, "<p>200 of %zu data sets.</p>\n", json_array_size(list));
}

static void option_row(FILE *out, const char *name, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    const char *shown = json_is_string(value) ? json_string_value(value) : text;
    char cut[2000];
    fputs("<tr><th class=\"t\">--", out);
    html_text(out, name);
    fputs("</th><td class=\"w\">", out);
    snprintf(cut, sizeof cut, "%s", shown ? shown : "");
    html_text(out, cut);
    fputs("</td></tr>\n", out);
    free(text);
}

static void options(FILE *out, const RunRecord *run)
{
    const json_t *all = run_fact(run, "options");
    const char   *given = run_fact_text(run, "given"), *name;
    json_t       *value;
    char          one[256];
    if (!json_object_size(all)) return;
    heading(out, "Options that were given");
    table_begin(out);
    for (size_t letters; given && *given; given += letters, given += *given == ' ') {
        letters = strcspn(given, " ");
        snprintf(one, sizeof one, "%.*s", (int)(letters < 250 ? letters : 250), given);
        if (json_object_get(all, one)) option_row(out, one, json_object_get(all, one));
    }
    table_end(out);
    fputs("<section><details><summary>All options</summary>\n", out);
    table_begin(out);
    json_object_foreach((json_t *)all, name, value) option_row(out, name, value);
    table_end(out);
    fputs("</details></section>\n", out);
}

static void command(FILE *out, const RunRecord *run)
{
    const char *text = run_fact_text(run, "command");
    if (!text) return;
    heading(out, "The same again");
    fputs("<pre>", out);
    html_text(out, text);
    fputs("</pre>\n", out);
}

static void source(FILE *out, const RunRecord *run)
{
    heading(out, "Source");
    table_begin(out);
    fact_row(out, "jotun", run_fact_text(run, "version"));
    fact_row(out, "read from", run->path);
    fact_row(out, "resumed from", run_fact_text(run, "resumed_from"));
    number_row(out, "lines", "%.0f", (double)run->lines);
    number_row(out, "lines that are not understood", "%.0f", (double)run->strange);
    if (run->large)
        number_row(out, "starts and ends whose facts are left out: above 4 MB, or 32 MB of memory", "%.0f",
                   (double)run->large);
    table_end(out);
}

static void run_put(FILE *out, const RunRecord *run, int number)
{
    fprintf(out, "<section id=\"run%d\">\n", number);
    head(out, run);
    heading(out, "Curves");
    run_figures_put(out, run, number);
    times(out, run);
    starts(out, run);
    troubles(out, run);
    memory(out, run);
    samples(out, run);
    model_and_layout(out, run);
    data(out, run);
    options(out, run);
    command(out, run);
    source(out, run);
    fputs("</section>\n", out);
}

void run_report_html(FILE *out, const RunReport *r)
{
    char title[300];
    snprintf(title, sizeof title, "%.200s%s - jotun report", r->run[0].name,
             r->runs > 1 ? " and others" : "");
    html_begin(out, title, r->refresh);
    if (r->runs > 1) {
        fputs("<nav>", out);
        for (int i = 0; i < r->runs; i++) {
            fprintf(out, "<a href=\"#run%d\">", i);
            html_text(out, r->run[i].name);
            fputs("</a> ", out);
        }
        fputs("</nav>\n", out);
    }
    for (int i = 0; i < r->runs; i++) run_put(out, &r->run[i], i);
    html_end(out);
}
