#include "report/run_record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/json_cost.h"
#include "chart/metrics_reader.h"

const RunNumberRow run_numbers[RUN_NUMBERS] = {
    { "loss",              "training loss" },
    { "lr",                "learning rate" },
    { "grad_norm",         "gradient norm" },
    { "seconds",           "seconds of a step" },
    { "data_seconds",      "seconds of waiting for data" },
    { "tokens_per_second", "tokens per second" },
    { "mfu_full",          "MFU" },
    { "memory_bytes",      "resident memory" },
    { "loss_scale",        "loss scale" },
    { "expert_load_max_over_mean", "load of the busiest expert" },
    { "dropped_share",       "dropped share" },
    { "load_balancing_loss", "load-balancing loss" },
    { "z_loss",              "router z-loss" },
};

/* What else is read of a line; the keys of run_numbers come first. */
enum {
    KEY_STEP = RUN_NUMBERS,
    KEY_TOKENS,
    KEY_TIME,
    KEY_MEAN_OF,
    KEY_LOW,
    KEY_HIGH,
    KEY_LOW_AT,
    KEY_HIGH_AT,
    KEY_FLOPS_FULL,
    KEY_FLOPS_CAUSAL,
    KEY_PERPLEXITY,
    KEY_BITS,
    KEY_SKIPPED,
    KEY_FROM,
    KEYS
};
static const char *const more_keys[KEYS - RUN_NUMBERS] = {
    "step", "tokens", "time", "mean_of_steps", "loss_low", "loss_high", "loss_low_step", "loss_high_step",
    "model_flops_per_second_full",
    "model_flops_per_second_causal", "perplexity", "bits_per_byte", "skipped", "from" };

/* A JSON line of an event may cost so much memory. */
enum { COST_MOST = 256 << 20 };

static void *grown(void *memory, int count, size_t each)
{
    if (count & (count - 1)) return memory;                       /* it doubles at powers of two */
    memory = realloc(memory, (count ? 2 * (size_t)count : 1) * each);
    CHECK(memory, "no memory for %d entries of a run's record", 2 * count);
    return memory;
}

static char *copied(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    CHECK(copy, "no memory for a text of %zu bytes", bytes);
    if (bytes) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* ---- points ---- */

static double mean_of(double a, double of_a, double b, double of_b)
{
    return isfinite(a) && isfinite(b) ? (a * of_a + b * of_b) / (of_a + of_b) : isfinite(b) ? b : a;
}

/* b follows a. */
RunPoint run_points_joined(const RunPoint *a, const RunPoint *b)
{
    RunPoint joined = *b;
    joined.steps = a->steps + b->steps;
    for (int i = 0; i < RUN_NUMBERS; i++) {
        joined.value[i] = mean_of(a->value[i], (double)a->steps, b->value[i], (double)b->steps);
        if (a->low[i]  <= b->low[i]  || isnan(b->low[i]))
            joined.low[i]  = a->low[i],  joined.low_at[i]  = a->low_at[i];
        if (a->high[i] >= b->high[i] || isnan(b->high[i]))
            joined.high[i] = a->high[i], joined.high_at[i] = a->high_at[i];
    }
    return joined;
}

static void points_halve(RunRecord *run)
{
    for (int i = 0; i + 1 < run->points; i += 2)
        run->point[i / 2] = run_points_joined(&run->point[i], &run->point[i + 1]);
    if (run->points % 2) run->point[run->points / 2] = run->point[run->points - 1];
    run->points = (run->points + 1) / 2;
}

/* One place for the steps of later starts in the same file: a line of them joins the last point, until it is
 * of as many steps as its neighbours. */
static void point_add(RunRecord *run, const RunPoint *point)
{
    if (run->points > 1) {
        RunPoint *last = &run->point[run->points - 1];
        if (last->steps + point->steps <= run->point[0].steps) {
            *last = run_points_joined(last, point);
            return;
        }
    }
    if (run->points == RUN_POINTS_MOST) points_halve(run);
    if (!run->point) run->point = malloc(RUN_POINTS_MOST * sizeof *run->point);
    CHECK(run->point, "no memory for the points of a run");
    run->point[run->points++] = *point;
}

/* ---- what belongs to a step of evaluations or samples ---- */

static void evaluations_filter(RunRecord *run, int64_t to)
{
    int kept = 0;
    for (int i = 0; i < run->evaluations; i++)
        if (run->evaluation[i].turn % run->kept_every == 0 && run->evaluation[i].step <= to)
            run->evaluation[kept++] = run->evaluation[i];
    run->evaluations = kept;
}

static void samples_filter(RunRecord *run, int64_t to)
{
    int kept = 0;
    for (int i = 0; i < run->samples; i++) {
        RunSample *s = &run->sample[i];
        if (s->turn % run->kept_every == 0 && s->step <= to) { run->sample[kept++] = *s; continue; }
        free(s->prompt);
        free(s->text);
    }
    run->samples = kept;
}

/* A number for the step, one more than that of the step before it. False: nothing of it is kept. */
static bool turn_take(RunRecord *run, int64_t *turn, int64_t step)
{
    int64_t before = -1;
    if (run->evaluations) before = run->evaluation[run->evaluations - 1].step;
    if (run->samples && run->sample[run->samples - 1].step > before)
        before = run->sample[run->samples - 1].step;
    if (step != before) run->turns++;
    while (run->evaluations >= RUN_KEPT_MOST || run->samples >= RUN_SAMPLES_MOST) {
        run->kept_every *= 2;
        evaluations_filter(run, INT64_MAX);
        samples_filter(run, INT64_MAX);
        if (run->kept_every > INT64_MAX / 4) run->evaluations = 0, samples_filter(run, -1);
    }
    *turn = run->turns;
    return *turn % run->kept_every == 0;
}

/* ---- the steps after `to` are taken again ---- */

static void steps_drop(RunRecord *run, int64_t to, RunStart *loses)
{
    while (run->points > 0 && run->point[run->points - 1].step > to) {
        const RunPoint *p = &run->point[run->points - 1];
        double seconds = (double)p->steps * p->value[RUN_SECONDS];
        if (loses) loses->times.repeated += isfinite(seconds) ? seconds : 0;
        if (loses) loses->repeated_steps += p->steps;
        run->points--;
    }
    evaluations_filter(run, to);
    samples_filter(run, to);
}

/* ---- lines ---- */

static RunStart *start_add(RunRecord *run)
{
    run->start = grown(run->start, run->starts, sizeof *run->start);
    run->start[run->starts] = (RunStart){ 0 };
    return &run->start[run->starts++];
}

static RunStart *start_now(RunRecord *run)
{
    return run->starts ? &run->start[run->starts - 1] : start_add(run);
}

/* A number that may be a count of steps or bytes; 0 where it is none. */
static int64_t counted(double value) { return value >= 0 && value < 9e15 ? (int64_t)value : 0; }

/* Hours of all starts before the last one. */
static double hours_before(const RunRecord *run)
{
    double seconds = 0;
    for (int i = 0; i + 1 < run->starts; i++) seconds += fmax(0, run->start[i].end - run->start[i].begin);
    return seconds / 3600;
}

static double hours_at(const RunRecord *run, double time)
{
    const RunStart *s = &run->start[run->starts - 1];
    return isfinite(time) ? hours_before(run) + fmax(0, time - s->begin) / 3600 : NAN;
}

static void number_take(RunPoint *p, RunNumber n, double value)
{
    p->value[n]  = p->low[n]     = p->high[n] = value;
    p->low_at[n] = p->high_at[n] = (double)p->step;
}

/* A line of steps of the journal, or of one step of metrics. */
static void steps_line(RunRecord *run, const MetricsLine *line, bool journal)
{
    const double *v = line->value;
    RunStart *start = start_now(run);
    RunPoint  p = { .step = counted(v[KEY_STEP]), .steps = counted(v[KEY_MEAN_OF]), .tokens = v[KEY_TOKENS] };
    if (!journal) p.steps = 1;
    if (p.step < 1 || p.steps < 1) { run->strange++; return; }
    for (int n = 0; n < RUN_NUMBERS; n++) number_take(&p, (RunNumber)n, v[n]);
    if (v[RUN_MEMORY] == 0) number_take(&p, RUN_MEMORY, NAN);
    if (journal) {
        p.low [RUN_LOSS] = v[KEY_LOW];
        p.high[RUN_LOSS] = v[KEY_HIGH];
        if (counted(v[KEY_LOW_AT])  > 0) p.low_at [RUN_LOSS] = v[KEY_LOW_AT];
        if (counted(v[KEY_HIGH_AT]) > 0) p.high_at[RUN_LOSS] = v[KEY_HIGH_AT];
    }
    if (!journal && v[RUN_SPEED] > 0 && v[KEY_FLOPS_FULL] > 0) {
        run->flops_full   = v[KEY_FLOPS_FULL] / v[RUN_SPEED];
        run->flops_causal = v[KEY_FLOPS_CAUSAL] / v[RUN_SPEED];
        if (v[RUN_MFU] > 0) run->peak = v[KEY_FLOPS_FULL] / v[RUN_MFU];
    }
    if (journal && run->peak > 0) number_take(&p, RUN_MFU, v[RUN_SPEED] * run->flops_full / run->peak);
    p.flops = run->flops_full > 0 ? p.tokens * run->flops_full : NAN;
    if (run->points && p.step <= run->point[run->points - 1].step)
        steps_drop(run, p.step - 1, journal ? start : NULL);
    double seconds = (double)p.steps * v[RUN_SECONDS], waited = (double)p.steps * v[RUN_WAITED];
    start->times.steps   += isfinite(seconds) ? seconds : 0;
    start->times.waiting += isfinite(waited) ? waited : 0;
    if (!journal) start->end = start->times.steps;
    p.hours = journal ? hours_at(run, v[KEY_TIME]) : start->times.steps / 3600;
    if (!journal && v[KEY_SKIPPED] == 1) run->skipped++;
    if (start->first == 0) start->first = p.step - p.steps + 1;
    start->last = p.step;
    point_add(run, &p);
}

static void evaluation_line(RunRecord *run, const MetricsLine *line, bool journal)
{
    const double *v = line->value;
    RunStart *start = start_now(run);
    RunEvaluation e = { .step = counted(v[KEY_STEP]), .loss = v[RUN_LOSS], .perplexity = v[KEY_PERPLEXITY],
                        .bits = v[KEY_BITS], .tokens = v[KEY_TOKENS] };
    snprintf(e.split, sizeof e.split, "%s", line->split);
    if (run->points && !isfinite(e.tokens)) e.tokens = run->point[run->points - 1].tokens;
    e.hours = journal ? hours_at(run, v[KEY_TIME]) : start->times.steps / 3600;
    start->evaluations++;
    if (journal && v[RUN_SECONDS] > 0) start->times.evaluations += v[RUN_SECONDS];
    if (!turn_take(run, &e.turn, e.step)) return;
    run->evaluation = grown(run->evaluation, run->evaluations, sizeof *run->evaluation);
    run->evaluation[run->evaluations++] = e;
}

static char *text_taken(size_t *bytes, const json_t *value)
{
    *bytes = json_string_length(value);
    size_t cut = *bytes < RUN_TEXT_MOST ? *bytes : RUN_TEXT_MOST;
    const char *text = json_string_value(value);
    while (cut < *bytes && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    return copied(text ? text : "", text ? cut : 0);
}

static void sample_line(RunRecord *run, const json_t *facts)
{
    RunSample s = { .step = counted(json_number_value(json_object_get(facts, "step"))),
                    .number = counted(json_number_value(json_object_get(facts, "sample"))) };
    if (!turn_take(run, &s.turn, s.step)) return;
    s.prompt = text_taken(&s.prompt_bytes, json_object_get(facts, "prompt"));
    s.text   = text_taken(&s.text_bytes,   json_object_get(facts, "text"));
    run->sample = grown(run->sample, run->samples, sizeof *run->sample);
    run->sample[run->samples++] = s;
}

static void trouble_add(RunRecord *run, RunTrouble trouble)
{
    if (run->troubles == RUN_TROUBLES_MOST) return;
    run->trouble = grown(run->trouble, run->troubles, sizeof *run->trouble);
    run->trouble[run->troubles++] = trouble;
}

/* ---- events ---- */

static double number_of(const json_t *facts, const char *name)
{
    const json_t *value = json_object_get(facts, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double above_zero(double value) { return value > 0 && isfinite(value) ? value : 0; }

/* Names of options whose values differ, or that only one of them has, with commas between; NULL: none. */
static char *options_changed(const json_t *before, const json_t *after)
{
    char  *text = NULL;
    size_t bytes = 0;
    const char *name;
    json_t *value;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for the names of options");
    json_object_foreach((json_t *)after, name, value) if (!json_equal(value, json_object_get(before, name)))
        fprintf(out, "%s--%s", ftell(out) ? ", " : "", name);
    json_object_foreach((json_t *)before, name, value)
        if (!json_object_get(after, name)) fprintf(out, "%s--%s", ftell(out) ? ", " : "", name);
    CHECK(fclose(out) == 0, "no memory for the names of options");
    if (bytes) return text;
    free(text);
    return NULL;
}

static void start_event(RunRecord *run, json_t *facts)
{
    double loading    = above_zero(number_of(facts, "loading_seconds")),
           time       = above_zero(number_of(facts, "time"));
    int64_t  step    = counted(number_of(facts, "step"));
    RunStart *before = run->starts ? &run->start[run->starts - 1] : NULL;
    char *changed = NULL;
    if (before && before->facts) {
        const json_t *options = json_object_get(facts, "options");
        changed = options_changed(json_object_get(before->facts, "options"), options);
        json_object_del(before->facts, "options");
    }
    steps_drop(run, step, before);
    RunStart *s = start_add(run);
    *s = (RunStart){ .facts = json_incref(facts), .changed = changed, .begin = time - loading, .end = time,
                     .times.loading = loading };
    run->flops_full   = above_zero(number_of(facts, "flops_per_token_full"));
    run->flops_causal = above_zero(number_of(facts, "flops_per_token_causal"));
    run->peak         = above_zero(number_of(facts, "peak_flops"));
}

static void stop_event(RunRecord *run, json_t *facts)
{
    RunStart *s = start_now(run);
    json_decref(s->stop);
    s->stop = json_incref(facts);
}

static void skip_event(RunRecord *run, json_t *facts)
{
    RunTrouble t = { .step = counted(number_of(facts, "step")), .to = -1, .loss = number_of(facts, "loss"),
                     .norm = number_of(facts, "grad_norm") };
    const char *why = json_string_value(json_object_get(facts, "why"));
    snprintf(t.why, sizeof t.why, "%s", why ? why : "");
    run->skipped++;
    trouble_add(run, t);
}

static void rewind_event(RunRecord *run, json_t *facts)
{
    RunTrouble t = { .step = counted(number_of(facts, "from")), .to = counted(number_of(facts, "step")),
                     .why = "back", .loss = NAN, .norm = NAN };
    run->rewinds++;
    trouble_add(run, t);
    steps_drop(run, t.to, start_now(run));
    start_now(run)->times.other += above_zero(number_of(facts, "seconds"));
}

static void save_event(RunRecord *run, json_t *facts)
{
    start_now(run)->saves++;
    start_now(run)->times.saves += above_zero(number_of(facts, "seconds"));
}

static void samples_event(RunRecord *run, json_t *facts)
{
    start_now(run)->times.samples += above_zero(number_of(facts, "seconds"));
}

static void profile_event(RunRecord *run, json_t *facts)
{
    start_now(run)->times.other += above_zero(number_of(facts, "seconds"));
}

static void sample_event(RunRecord *run, json_t *facts) { sample_line(run, facts); }

static const struct { const char *name; void (*take)(RunRecord *run, json_t *facts); } events[] = {
    { "start", start_event }, { "stop", stop_event }, { "skip", skip_event }, { "rewind", rewind_event },
    { "save", save_event }, { "samples", samples_event }, { "profile", profile_event }, { "sample", sample_event },
};

/* The object of a line; NULL: it is none, or would take too much memory. */
static json_t *line_object(const MetricsLine *line)
{
    json_t *facts =
        json_cost(line->text, line->bytes) <= COST_MOST ? json_loadb(line->text, line->bytes, 0, NULL) : NULL;
    if (json_is_object(facts)) return facts;
    json_decref(facts);
    return NULL;
}

/* An event that only a later version has is left out. */
static void event_line(RunRecord *run, const MetricsLine *line)
{
    static const char begin[] = "{\"event\":\"";
    const char *name = line->text + sizeof begin - 1;
    size_t letters = strcspn(name, "\"");
    run->journal = true;
    if (letters == 5 && !memcmp(name, "steps", 5)) { start_now(run); steps_line(run, line, true);
    } else if (letters == 10 && !memcmp(name, "evaluation", 10)) {
        start_now(run);
        evaluation_line(run, line, true);
    } else
        for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
            if (strlen(events[i].name) != letters || memcmp(events[i].name, name, letters) != 0) continue;
            json_t *facts = line_object(line);
            if (facts) events[i].take(run, facts);
            else run->strange++;
            json_decref(facts);
        }
    if (run->starts && isfinite(line->value[KEY_TIME]))
        run->start[run->starts - 1].end = line->value[KEY_TIME];
}

static void line_take(RunRecord *run, const MetricsLine *line)
{
    if (!strncmp(line->text, "{\"event\":\"", 10)) { event_line(run, line); return; }
    if (!strcmp(line->split, "sample")) {
        json_t *facts = line_object(line);
        if (facts) sample_line(run, facts);
        else run->strange++;
        json_decref(facts);
    } else if (*line->split) evaluation_line(run, line, false);
    else steps_line(run, line, false);
}

/* ---- the file ---- */

static bool folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The file of a directory of --save or --history. */
static Status file_of(char path[1024], const char *given)
{
    static const char *const name[] = { "journal.jsonl", "metrics.jsonl", "metrics.csv" };
    if (!folder(given)) {
        if (!file_exists(given))
            return fail(
                BAD_FILE,
                "%s: there is no such file or directory; give the directory of a run's --save, or its "
                "file of --metrics",
                given);
        snprintf(path, 1024, "%.1023s", given);
        return OK;
    }
    for (int i = 0; i < 3; i++) {
        TRY(path_join(path, given, name[i]));
        if (file_exists(path)) return OK;
    }
    return fail(BAD_FILE,
                "%s has no journal.jsonl, which jotun train --save %s writes; a directory of --history and a "
                "file of --metrics are taken too",
                given, given);
}

Status run_record_read(RunRecord *run, const char *given)
{
    const char *keys[KEYS];
    char path[1024];
    struct stat about;
    MetricsReader reader;
    MetricsLine line;
    *run = (RunRecord){ .kept_every = 1 };
    TRY(file_of(path, given));
    for (int i = 0; i < KEYS; i++)
        keys[i] = i < RUN_NUMBERS ? run_numbers[i].key : more_keys[i - RUN_NUMBERS];
    TRY(metrics_reader_open(&reader, path, keys, KEYS));
    run->name = copied(given, path_leaf(given, strlen(given)) - given +
                                  strcspn(path_leaf(given, strlen(given)), "/"));
    run->path = copied(path, strlen(path));
    if (stat(path, &about) == 0) run->size = about.st_size;
    while (metrics_reader_next(&reader, &line)) line_take(run, &line);
    run->lines    = reader.lines;
    run->strange += reader.strange;
    metrics_reader_close(&reader);
    if (run->starts) return OK;
    run_record_free(run);
    return fail(BAD_FILE,
                "%s has no line of a run: give the directory of a run's --save, or its file of --metrics",
                path);
}

void run_record_free(RunRecord *run)
{
    for (int i = 0; i < run->starts; i++) {
        json_decref(run->start[i].facts);
        json_decref(run->start[i].stop);
        free(run->start[i].changed);
    }
    samples_filter(run, -1);
    free(run->start);
    free(run->point);
    free(run->evaluation);
    free(run->sample);
    free(run->trouble);
    free(run->name);
    free(run->path);
    *run = (RunRecord){ .kept_every = 1 };
}

/* ---- what is asked of it ---- */

const json_t *run_fact(const RunRecord *run, const char *name)
{
    return run->starts ? json_object_get(run->start[run->starts - 1].facts, name) : NULL;
}

const char *run_fact_text(const RunRecord *run, const char *name)
{
    return json_string_value(run_fact(run, name));
}

double run_fact_number(const RunRecord *run, const char *name)
{
    return run->starts ? number_of(run->start[run->starts - 1].facts, name) : NAN;
}

bool run_ended(const RunRecord *run) { return !run->journal || run->start[run->starts - 1].stop; }

const RunEvaluation *run_last_evaluation(const RunRecord *run, const char *split, double *best)
{
    const RunEvaluation *last = NULL;
    *best = NAN;
    for (int i = 0; i < run->evaluations; i++) {
        if (strcmp(run->evaluation[i].split, split) != 0) continue;
        last  = &run->evaluation[i];
        *best = fmin(*best, last->loss);
    }
    return last;
}

RunTimes run_times(const RunRecord *run, double *total, double *stopped)
{
    RunTimes all = { 0 };
    *total = *stopped = 0;
    for (int i = 0; i < run->starts; i++) {
        const RunStart *s = &run->start[i];
        const RunTimes *t = &s->times;
        double whole = fmax(0, s->end - s->begin);
        double known = t->loading + t->steps + t->evaluations + t->saves + t->samples + t->other;
        all.loading     += t->loading;
        all.steps       += t->steps;
        all.waiting     += t->waiting;
        all.evaluations += t->evaluations;
        all.saves       += t->saves;
        all.samples     += t->samples;
        all.repeated    += t->repeated;
        all.other       += t->other + fmax(0, whole - known);
        *total          += fmax(whole, known);
        if (i > 0) *stopped += fmax(0, s->begin - run->start[i - 1].end);
    }
    return all;
}
