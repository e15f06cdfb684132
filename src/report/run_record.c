#include "report/run_record.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
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

/* A JSON line of an event may cost so much memory, and one of a start or a stop have so many bytes. A start
 * with 10,000 data sets has 2 MB and costs 13. */
enum { COST_MOST = 32 << 20, FACTS_MOST = 4 << 20 };

static char *copied(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    CHECK(copy, "no memory for a text of %zu bytes", bytes);
    if (bytes) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
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
    RunDropped dropped = run_points_drop(&run->curve, to);
    if (loses) loses->times.repeated += dropped.seconds;
    if (loses) loses->repeated_steps += dropped.steps;
    evaluations_filter(run, to);
    samples_filter(run, to);
}

/* ---- lines ---- */

static double start_seconds(const RunStart *s) { return fmax(0, s->end - s->begin - s->stopped); }

static void start_free(RunStart *s)
{
    json_decref(s->facts);
    json_decref(s->stop);
    free(s->changed);
}

static void times_add(RunTimes *sum, const RunTimes *t)
{
    sum->loading     += t->loading;
    sum->steps       += t->steps;
    sum->waiting     += t->waiting;
    sum->evaluations += t->evaluations;
    sum->saves       += t->saves;
    sum->samples     += t->samples;
    sum->other       += t->other;
    sum->repeated    += t->repeated;
}

/* The first half of the starts becomes one. */
static void starts_join(RunRecord *run)
{
    RunStart *all = run->start;
    int half = run->starts / 2;
    for (int i = 1; i < half; i++) {
        all->stopped += all[i].stopped + fmax(0, all[i].begin - all->end);
        all->starts  += all[i].starts;
        all->end      = fmax(all->end, all[i].end);
        all->last     = all[i].last;
        all->repeated_steps += all[i].repeated_steps;
        all->saves          += all[i].saves;
        all->evaluations    += all[i].evaluations;
        times_add(&all->times, &all[i].times);
        start_free(&all[i]);
    }
    run->starts -= half - 1;
    memmove(all + 1, all + half, (size_t)(run->starts - 1) * sizeof *all);
}

/* Of the start before it only what is in a table stays. */
static RunStart *start_add(RunRecord *run)
{
    double before = 0;
    if (run->starts == RUN_STARTS_MOST) starts_join(run);
    if (!run->start) run->start = malloc(RUN_STARTS_MOST * sizeof *run->start);
    CHECK(run->start, "no memory for the starts of a run");
    if (run->starts) {
        RunStart *last = &run->start[run->starts - 1];
        before = last->before + start_seconds(last);
        json_decref(last->facts);
        json_decref(last->stop);
        last->facts = last->stop = NULL;
    }
    run->start[run->starts] = (RunStart){ .starts = 1, .before = before, .ranks = NAN };
    return &run->start[run->starts++];
}

static RunStart *start_now(RunRecord *run)
{
    return run->starts ? &run->start[run->starts - 1] : start_add(run);
}

/* A number that may be a count of steps or bytes; 0 where it is none. */
static int64_t counted(double value) { return value >= 0 && value < 9e15 ? (int64_t)value : 0; }

static double hours_at(const RunRecord *run, double time)
{
    const RunStart *s = &run->start[run->starts - 1];
    return isfinite(time) ? (s->before + fmax(0, time - s->begin)) / 3600 : NAN;
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
    RunPoint  p = { .step = counted(v[KEY_STEP]), .steps = counted(v[KEY_MEAN_OF]), .tokens = v[KEY_TOKENS] };
    if (!journal) p.steps = 1;
    if (p.step < 1 || p.steps < 1 || p.steps > p.step) { run->strange++; return; }
    RunStart *start = start_now(run);
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
    if (run->curve.points && p.step <= run->curve.point[run->curve.points - 1].step)
        steps_drop(run, p.step - p.steps, journal ? start : NULL);
    double seconds = (double)p.steps * v[RUN_SECONDS], waited = (double)p.steps * v[RUN_WAITED];
    start->times.steps   += isfinite(seconds) ? seconds : 0;
    start->times.waiting += isfinite(waited) ? waited : 0;
    if (!journal) start->end = start->times.steps;
    p.hours = journal ? hours_at(run, v[KEY_TIME]) : start->times.steps / 3600;
    if (!journal && v[KEY_SKIPPED] == 1) run->skipped++;
    if (start->first == 0) start->first = p.step - p.steps + 1;
    start->last = p.step;
    run_points_add(&run->curve, &p);
}

static void evaluation_line(RunRecord *run, const MetricsLine *line, bool journal)
{
    const double *v = line->value;
    if (!isfinite(v[KEY_STEP])) { run->strange++; return; }
    RunStart *start = start_now(run);
    RunEvaluation e = { .step = counted(v[KEY_STEP]), .loss = v[RUN_LOSS], .perplexity = v[KEY_PERPLEXITY],
                        .bits = v[KEY_BITS], .tokens = v[KEY_TOKENS] };
    snprintf(e.split, sizeof e.split, "%s", line->split);
    const RunCurve *c = &run->curve;
    if (c->points && !isfinite(e.tokens)) e.tokens = c->point[c->points - 1].tokens;
    e.hours = journal ? hours_at(run, v[KEY_TIME]) : start->times.steps / 3600;
    start->evaluations++;
    if (journal && v[RUN_SECONDS] > 0) start->times.evaluations += v[RUN_SECONDS];
    if (!turn_take(run, &e.turn, e.step)) return;
    ARRAY_RESERVE_OR_STOP(run->evaluation, run->evaluation_room, run->evaluations + 1);
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
    if (!json_is_number(json_object_get(facts, "step"))) { run->strange++; return; }
    start_now(run);
    RunSample s = { .step = counted(json_number_value(json_object_get(facts, "step"))),
                    .number = counted(json_number_value(json_object_get(facts, "sample"))) };
    if (!turn_take(run, &s.turn, s.step)) return;
    s.prompt = text_taken(&s.prompt_bytes, json_object_get(facts, "prompt"));
    s.text   = text_taken(&s.text_bytes,   json_object_get(facts, "text"));
    ARRAY_RESERVE_OR_STOP(run->sample, run->sample_room, run->samples + 1);
    run->sample[run->samples++] = s;
}

static void trouble_add(RunRecord *run, RunTrouble trouble)
{
    if (run->troubles == RUN_TROUBLES_MOST) return;
    ARRAY_RESERVE_OR_STOP(run->trouble, run->trouble_room, run->troubles + 1);
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
    int64_t more = 0;
    const char *name;
    json_t *value;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for the names of options");
    for (int lost = 0; lost < 2; lost++)
        json_object_foreach((json_t *)(lost ? before : after), name, value) {
            const json_t *other = json_object_get(lost ? after : before, name);
            if (lost ? other != NULL : json_equal(value, other)) continue;
            if (ftell(out) < RUN_CHANGED_MOST) fprintf(out, "%s--%.200s", ftell(out) ? ", " : "", name);
            else more++;
        }
    if (more) fprintf(out, " and %" PRId64 " more", more);
    CHECK(fclose(out) == 0, "no memory for the names of options");
    if (bytes) return text;
    free(text);
    return NULL;
}

/* facts: NULL where they are too large; then the line's own numbers say where it begins. */
static void start_event(RunRecord *run, const MetricsLine *line, json_t *facts)
{
    double loading = above_zero(number_of(facts, "loading_seconds"));
    double time    = above_zero(line->value[KEY_TIME]);
    RunStart *before = run->starts ? &run->start[run->starts - 1] : NULL;
    const json_t *options = json_object_get(facts, "options");
    char *changed = NULL;
    if (before && before->facts && facts)
        changed = options_changed(json_object_get(before->facts, "options"), options);
    steps_drop(run, counted(line->value[KEY_STEP]), before);
    RunStart *s = start_add(run);
    s->facts = json_incref(facts);
    s->changed = changed;
    s->begin = time - loading;
    s->end   = time;
    s->ranks = number_of(facts, "ranks");
    s->times.loading = loading;
    run_layout_text(s->layout, facts);
    run->flops_full   = above_zero(number_of(facts, "flops_per_token_full"));
    run->flops_causal = above_zero(number_of(facts, "flops_per_token_causal"));
    run->peak         = above_zero(number_of(facts, "peak_flops"));
}

static void stop_event(RunRecord *run, json_t *facts)
{
    RunStart *s = start_now(run);
    const char *how = json_string_value(json_object_get(facts, "how"));
    json_decref(s->stop);
    s->stop  = json_incref(facts);
    s->ended = true;
    snprintf(s->how, sizeof s->how, "%s", how ? how : "");
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
    { "skip", skip_event }, { "rewind", rewind_event },
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

/* A start or a stop whose facts are too large is one without facts. */
static void start_or_stop(RunRecord *run, const MetricsLine *line, bool starts)
{
    bool large = line->bytes > FACTS_MOST || json_cost(line->text, line->bytes) > COST_MOST;
    json_t *facts = large ? NULL : line_object(line);
    run->large   += large;
    run->strange += !large && !facts;
    if ((large || facts) && starts) start_event(run, line, facts);
    else if (large || facts) stop_event(run, facts);
    json_decref(facts);
}

/* An event that only a later version has is left out. */
static void event_line(RunRecord *run, const MetricsLine *line)
{
    static const char begin[] = "{\"event\":\"";
    const char *name = line->text + sizeof begin - 1;
    size_t letters = strcspn(name, "\"");
    run->journal = true;
    if (letters == 5 && !memcmp(name, "steps", 5)) { steps_line(run, line, true);
    } else if (letters == 10 && !memcmp(name, "evaluation", 10)) {
        evaluation_line(run, line, true);
    } else if (letters == 5 && !memcmp(name, "start", 5)) { start_or_stop(run, line, true);
    } else if (letters == 4 && !memcmp(name, "stop", 4)) { start_or_stop(run, line, false);
    } else
        for (size_t i = 0; i < COUNT(events); i++) {
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

/* A process writes its last line before it gives its lock back: where none was written, it was killed. */
bool run_is_lost(const RunRecord *run)
{
    struct stat about;
    if (!run->starts || run_ended(run)) return false;
    if (!run_place_left(run->path, run_fact_text(run, "host"))) return false;
    return stat(run->path, &about) == 0 && about.st_size == run->size;
}

Status run_record_read(RunRecord *run, const char *given)
{
    const char *keys[KEYS];
    char path[1024];
    struct stat about;
    MetricsReader reader;
    MetricsLine line;
    *run = (RunRecord){ .kept_every = 1 };
    TRY(run_place_file(path, given));
    for (int i = 0; i < KEYS; i++)
        keys[i] = i < RUN_NUMBERS ? run_numbers[i].key : more_keys[i - RUN_NUMBERS];
    TRY(metrics_reader_open(&reader, path, keys, KEYS));
    size_t letters;
    const char *name = run_name_of(&letters, given);
    run->name = copied(name, letters);
    run->path = copied(path, strlen(path));
    if (stat(path, &about) == 0) run->size = about.st_size;
    while (metrics_reader_next(&reader, &line)) line_take(run, &line);
    run->lines    = reader.lines;
    run->strange += reader.strange;
    metrics_reader_close(&reader);
    run_points_even(&run->curve);
    run->lost    = run_is_lost(run);
    run->heldout = run_heldout_read(path);
    if (run->starts) return OK;
    run_record_free(run);
    return fail(BAD_FILE,
                "%s has no line of a run: give the directory of a run's --save, or its file of --metrics",
                path);
}

void run_record_free(RunRecord *run)
{
    for (int i = 0; i < run->starts; i++) start_free(&run->start[i]);
    samples_filter(run, -1);
    free(run->start);
    free(run->curve.point);
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

bool run_over(const RunRecord *run) { return run->lost || run_ended(run); }

bool run_ended(const RunRecord *run) { return !run->journal || run->start[run->starts - 1].ended; }

int64_t run_starts(const RunRecord *run) { return run->starts - 1 + run->start[0].starts; }

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
        double whole = start_seconds(s);
        double known = t->loading + t->steps + t->evaluations + t->saves + t->samples + t->other;
        times_add(&all, t);
        all.other += fmax(0, whole - known);
        *total    += fmax(whole, known);
        *stopped  += s->stopped + (i > 0 ? fmax(0, s->begin - s[-1].end) : 0);
    }
    return all;
}
