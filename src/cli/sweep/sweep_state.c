/* What is known of a run lies in its folder: run.json has the words it was started with, so that a folder is
 * never continued with others; result.json exists once the run has taken all its steps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "base/log.h"
#include "chart/metrics_reader.h"
#include "cli/sweep/sweep.h"
#include "logs/journal.h"

enum { LOCK_SECONDS = 120 };

static Status path_in(char path[1024], const SweepRun *run, const char *name)
{
    return path_join(path, run->folder, name);
}

/* ---- JSON ---- */

static Status json_write(const char *path, json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(value);
    CHECK(text, "no memory for %s", path);
    Status status = file_write_whole(path, text, strlen(text));
    free(text);
    return status;
}

/* NULL: there is no such file. BAD_FILE: it is no JSON object. */
static Status json_read(json_t **value, const char *path)
{
    json_error_t error;
    *value = NULL;
    if (!file_exists(path)) return OK;
    FILE *in;
    TRY(file_stream(&in, path));
    *value = json_loadf(in, 0, &error);
    fclose(in);
    if (json_is_object(*value)) return OK;
    json_decref(*value);
    return fail(BAD_FILE, "%s is no JSON object (%s); remove the folder that it is in, and the run is made "
                "again", path, *error.text ? error.text : "another value");
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- metrics ---- */

/* Sums over the lines of metrics.jsonl. A run that was killed takes steps again, whose lines the resumed run
 * removes. */
typedef struct { int64_t step, late; double seconds, training, validation; } Metrics;

enum { KEY_STEP, KEY_LOSS, KEY_SECONDS, KEYS };

static void metrics_line(Metrics *m, const MetricsLine *line, const SweepRun *run)
{
    if (isnan(line->value[KEY_STEP])) return;
    int64_t step = (int64_t)line->value[KEY_STEP];
    double loss = line->value[KEY_LOSS], seconds = line->value[KEY_SECONDS];
    if (!strcmp(line->split, "valid") && step == run->steps) m->validation = loss;
    if (*line->split) return;
    m->step = step;
    if (isfinite(seconds)) m->seconds += seconds;
    if (step > run->steps - (run->steps + 19) / 20) m->training += loss, m->late++; /* the last 20th */
}

static Status metrics_read(Metrics *m, const SweepRun *run)
{
    static const char *const key[KEYS] = { "step", "loss", "seconds" };
    char          path[1024];
    MetricsReader reader;
    MetricsLine   line;
    *m = (Metrics){ .validation = NAN };
    TRY(path_in(path, run, "metrics.jsonl"));
    TRY(metrics_reader_open(&reader, path, key, KEYS));
    while (metrics_reader_next(&reader, &line)) metrics_line(m, &line, run);
    metrics_reader_close(&reader);
    m->training = m->late ? m->training / (double)m->late : NAN;
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

static void choose_loss(SweepRun *run, const Sweep *sweep)
{
    bool validation = sweep->own->sweep_loss.value == CHOICE_sweep_loss_validation;
    run->loss = validation ? run->validation : run->training;
    run->state = SWEEP_DONE;
    run->step = run->steps;
}

Status sweep_run_begin(const SweepRun *run)
{
    char path[1024];
    TRY(folder_make(run->folder));
    TRY(path_in(path, run, "run.json"));
    if (file_exists(path)) return OK;                                       /* compared when it was read */
    json_t *object = json_object();
    json_object_set_new(object, "words", words_json((const char *const *)run->words.word, run->words.count));
    return json_write(path, object);
}

Status sweep_run_finish(SweepRun *run, const Sweep *sweep)
{
    char path[1024];
    Metrics m;
    TRY(metrics_read(&m, run));
    if (m.step < run->steps) {
        snprintf(path, sizeof path, "it ended after step %lld of %lld", (long long)m.step,
                 (long long)run->steps);
        sweep_run_failure(run, path);
        return OK;
    }
    run->validation = m.validation;
    run->training   = m.training;
    run->seconds    = m.seconds;
    choose_loss(run, sweep);
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(run->name));
    json_object_set_new(object, "validation_loss", journal_number(run->validation));
    json_object_set_new(object, "training_loss", journal_number(run->training));
    json_object_set_new(object, "parameters", json_integer(run->parameters));
    json_object_set_new(object, "steps", json_integer(run->steps));
    json_object_set_new(object, "tokens", json_integer(run->tokens));
    json_object_set_new(object, "flops", json_real(run->flops));
    json_object_set_new(object, "seconds", json_real(run->seconds));
    json_object_set_new(object, "words", words_json((const char *const *)run->words.word, run->words.count));
    TRY(path_in(path, run, "result.json"));
    return json_write(path, object);
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
    json_t *begun, *result;
    TRY(path_in(path, run, "run.json"));
    TRY(json_read(&begun, path));
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
    TRY(path_in(path, run, "result.json"));
    TRY(json_read(&result, path));
    run->step = run->first = sweep_run_step(run);
    if (!result) return OK;
    run->validation = real_of(result, "validation_loss");
    run->training   = real_of(result, "training_loss");
    run->seconds    = real_of(result, "seconds");
    json_decref(result);
    choose_loss(run, sweep);
    run->first = run->step;                                              /* nothing of it is left to do */
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

/* ---- one sweep per folder ---- */

/* The descriptor is inherited by the runs, so that the lock lasts until the last of them has ended. */
Status sweep_lock(Sweep *sweep, const volatile sig_atomic_t *stop)
{
    char path[1024];
    bool taken = false;
    TRY(folder_make(sweep->own->sweep_dir));
    TRY(path_join(path, sweep->own->sweep_dir, "sweep.lock"));
    sweep->lock = open(path, O_RDWR | O_CREAT, 0666);
    if (sweep->lock < 0) return fail(BAD_FILE, "%s cannot be opened: %s", path, strerror(errno));
    for (int tenths = 0; !taken && tenths < 10 * LOCK_SECONDS && !*stop; tenths++) {
        TRY(file_lock(sweep->lock, path, &taken));
        if (!taken && tenths == 10)
            log_line("waits for the runs of another sweep of %s to end", sweep->own->sweep_dir);
        if (!taken) nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    }
    if (taken) return OK;
    if (*stop) return fail(INTERRUPTED, "stopped by a signal before the first run");
    return fail(BAD_FILE, "another sweep of %s is running; wait until it ends, or give another --save",
                sweep->own->sweep_dir);
}
