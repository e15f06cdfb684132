/* What is known of a run lies in its folder: run.json has the words it was started with, so that a folder is
 * never continued with others; its metrics say how far it is, and its losses. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "chart/metrics_reader.h"
#include "cli/run_state.h"
#include "cli/sweep/sweep.h"

static Status path_in(char path[1024], const SweepRun *run, const char *name)
{
    return path_join(path, run->folder, name);
}

/* ---- metrics ---- */

enum { KEY_STEP, KEY_LOSS, KEY_SECONDS, KEYS };

static bool validates(const Sweep *sweep)
{
    return sweep->own->sweep_loss.value == CHOICE_sweep_loss_validation;
}

/* The steps that metrics.jsonl has, and the losses of a run that has taken all of them; one that was stopped
 * before its last evaluation is not done. A run that was killed takes steps again, whose lines the resumed
 * run removes. */
static Status metrics_read(SweepRun *run, const Sweep *sweep)
{
    static const char *const key[KEYS] = { "step", "loss", "seconds" };
    char          path[1024];
    bool          validated = false;
    int64_t       late = 0, late_steps = (run->steps + 19) / 20;                        /* the last 20th */
    MetricsReader reader;
    MetricsLine   line;
    run->step = 0;
    run->seconds = run->training = 0;
    run->validation = NAN;
    TRY(path_in(path, run, "metrics.jsonl"));
    TRY(metrics_reader_open(&reader, path, key, KEYS));
    while (metrics_reader_next(&reader, &line)) {
        double loss = line.value[KEY_LOSS], seconds = line.value[KEY_SECONDS];
        if (isnan(line.value[KEY_STEP])) continue;
        int64_t step = (int64_t)line.value[KEY_STEP];
        if (!strcmp(line.split, "valid") && step == run->steps) run->validation = loss, validated = true;
        if (*line.split) continue;
        run->step = step;
        if (isfinite(seconds)) run->seconds += seconds;
        if (step > run->steps - late_steps) run->training += loss, late++;
    }
    metrics_reader_close(&reader);
    run->training = late ? run->training / (double)late : NAN;
    run->loss = validates(sweep) ? run->validation : run->training;
    if (run->step >= run->steps && (validated || !validates(sweep))) run->state = SWEEP_DONE;
    return OK;
}

/* The end of a file, as text. */
static void tail_read(char *text, size_t room, const char *path)
{
    text[0] = 0;
    FILE *in;
    if (file_stream(&in, path) != OK) return;
    if (fseek(in, -(long)(room - 1), SEEK_END) != 0) rewind(in);
    text[fread(text, 1, room - 1, in)] = 0;
    fclose(in);
}

int64_t sweep_run_step(const SweepRun *run)
{
    char path[1024], text[4096];
    int64_t step = 0;
    if (path_in(path, run, "metrics.jsonl") != OK) return 0;
    tail_read(text, sizeof text, path);
    for (const char *at = text; (at = strstr(at, "\"step\":")); at += 7)
        if (strchr(at, '\n')) step = strtoll(at + 7, NULL, 10);
    return step;
}

void sweep_run_failure(SweepRun *run, const char *why)
{
    char path[1024], text[2048] = "";
    if (path_in(path, run, "log.txt") == OK) tail_read(text, sizeof text, path);
    for (size_t n = strlen(text); n > 0 && strchr("\n ", text[n - 1]); n--) text[n - 1] = 0;
    const char *last = strrchr(text, '\n');
    last = last ? last + 1 : text;
    snprintf(run->failure, sizeof run->failure, "%.100s; %s/log.txt ends: %.300s", why, run->name,
             strncmp(last, "jotun: ", 7) ? last : last + 7);
    run->state = SWEEP_FAILED;
}

/* ---- the folder of a run ---- */

Status sweep_run_begin(const SweepRun *run)
{
    char path[1024];
    TRY(folder_make(run->folder));
    TRY(path_in(path, run, "run.json"));
    if (file_exists(path)) return OK;                                       /* compared when it was read */
    json_t *words = words_json((const char *const *)run->words.word, run->words.count);
    json_t *state = json_pack("{s:o}", "words", words);
    Status status = state_write(path, state);
    json_decref(state);
    return status;
}

Status sweep_run_finish(SweepRun *run, const Sweep *sweep)
{
    char why[80];
    TRY(metrics_read(run, sweep));
    run->state = SWEEP_DONE;
    if (run->step >= run->steps) return OK;
    snprintf(why, sizeof why, "it ended after step %lld of %lld", (long long)run->step,
             (long long)run->steps);
    sweep_run_failure(run, why);
    return OK;
}

/* The first word in which two lists differ; NULL where one ends. option: whose value it is, with a blank;
 * "": it names its option itself */
typedef struct { const char *was, *is; char option[80]; } Differing;

static bool same_words(Differing *d, const json_t *before, const json_t *now)
{
    *d = (Differing){ 0 };
    for (size_t i = 0; i < json_array_size(before) || i < json_array_size(now); i++) {
        d->was = json_string_value(json_array_get(before, i));
        d->is  = json_string_value(json_array_get(now, i));
        if (!d->was || !d->is) return false;
        if (strcmp(d->was, d->is) != 0) {
            if (!strncmp(d->was, "--", 2) || !strncmp(d->is, "--", 2)) d->option[0] = '\0';
            return false;
        }
        if (!strncmp(d->is, "--", 2))
            snprintf(d->option, sizeof d->option, "%.*s ", (int)fmin(strcspn(d->is, "="), 70), d->is);
    }
    return true;
}

static Status run_read(SweepRun *run, const Sweep *sweep)
{
    char path[1024];
    static const char none[] = "no further word";
    Differing d;
    json_t *begun;
    TRY(path_in(path, run, "run.json"));
    TRY(state_read(&begun, path));
    if (!begun) return OK;
    Status status = OK;
    json_t *now = words_json((const char *const *)run->words.word, run->words.count);
    if (!same_words(&d, json_object_get(begun, "words"), now))
        status = fail(BAD_OPTION, "%s holds a run of other options: %s%s there, %s here; give another "
                      "--save, or remove that folder", run->folder, d.option, d.was ? d.was : none,
                      d.is ? d.is : none);
    json_decref(begun);
    json_decref(now);
    TRY(status);
    if (metrics_read(run, sweep) != OK) run->step = 0;         /* there are none yet, or the run will fail */
    run->first = run->step;
    return OK;
}

static bool is_of(const Sweep *sweep, const char *name)
{
    for (int i = 0; i < sweep->runs; i++) if (!strcmp(sweep->run[i].name, name)) return true;
    return false;
}

/* The tables have the runs of one series: where there are others, theirs would be lost. A series may get
 * further values. */
static Status only_these(const Sweep *sweep)
{
    char        folder[1024], path[1024];
    const char *series = sweep->own->sweep_dir;
    DIR        *dir    = opendir(series);
    Status      status = OK;
    for (struct dirent *e; dir && status == OK && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || is_of(sweep, e->d_name)) continue;
        if (path_join(folder, series, e->d_name) != OK || path_join(path, folder, "run.json") != OK) continue;
        if (file_exists(path))
            status = fail(BAD_OPTION, "%s holds a run of another series, %s; give another --save, or values "
                          "that have it", series, e->d_name);
    }
    if (dir) closedir(dir);
    return status;
}

Status sweep_state_read(Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++) TRY(run_read(&sweep->run[i], sweep));
    return only_these(sweep);
}
