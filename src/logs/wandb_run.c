/* A W&B run as wandb records it offline. The field numbers are those of wandb_internal.proto. */
#include "logs/wandb_run.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "base/protobuf.h"
#include "logs/wandb_store.h"

#define OPTION "--wandb-project"

enum { INFO_STREAM = 1, HEADER_VERSION = 1, VERSION_PRODUCER = 1, VERSION_CONSUMER = 2 };
enum { RUN_ID = 1, RUN_ENTITY = 2, RUN_PROJECT = 3, RUN_CONFIG = 4, RUN_NAME = 8, RUN_HOST = 13,
       RUN_FIRST_STEP = 14, RUN_START = 17, RUN_RESUMED = 18, RUN_RUNTIME = 20 };
enum { ENVIRONMENT_OS = 1, ENVIRONMENT_STARTED = 3, ENVIRONMENT_PROGRAM = 6, ENVIRONMENT_HOST = 12,
       ENVIRONMENT_EXECUTABLE = 14, ENVIRONMENT_CPUS = 16, ENVIRONMENT_LOGICAL = 17,
       ENVIRONMENT_WRITER = 199 };
enum { TIME_SECONDS = 1, TIME_NANOSECONDS = 2, EXIT_CODE = 1, EXIT_RUNTIME = 2 };

/* ---- records ---- */
static void add_item(Buffer *out, const char *key, const char *json)
{
    int64_t begin = protobuf_begin(out);
    protobuf_text(out, ITEM_KEY, key);
    protobuf_text(out, ITEM_VALUE, json);
    protobuf_end(out, ITEMS, begin);
}

/* As Python's json writes numbers. */
static void add_number(Buffer *out, const char *key, double x)
{
    char number[40];
    add_item(out, key, log_number(number, LOG_EXACT, x, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity"));
}

static void add_time(Buffer *out, int field, double time)
{
    int64_t begin = protobuf_begin(out);
    protobuf_integer(out, TIME_SECONDS, (int64_t)time);
    protobuf_integer(out, TIME_NANOSECONDS, (int64_t)(1e9 * (time - floor(time))));
    protobuf_end(out, field, begin);
}

/* Puts what run->record holds into a Record, as field `kind`, and frames it behind what is framed already. */
static void frame(WandbRun *run, int kind)
{
    Buffer *r = &run->record;
    protobuf_end(r, kind, 0);
    protobuf_integer(r, RECORD_NUM, ++run->records);
    int64_t info = protobuf_begin(r);
    protobuf_text(r, INFO_STREAM, run->id);
    protobuf_end(r, RECORD_INFO, info);
    wandb_store_add(&run->framed, run->at + run->framed.bytes, r->text, r->bytes);
    r->bytes = 0;
}

static void write_framed(WandbRun *run)
{
    if (log_file_add(&run->file, run->framed.text, run->framed.bytes)) run->at += run->framed.bytes;
    run->framed.bytes = 0;
}

static void add_run(WandbRun *run, const WandbConfig *config, const json_t *options, int64_t resumed,
                    const char *host)
{
    Buffer *r = &run->record;
    const char *name;
    json_t *value;
    protobuf_text(r, RUN_ID, run->id);
    if (config->entity) protobuf_text(r, RUN_ENTITY, config->entity);
    protobuf_text(r, RUN_PROJECT, config->project);
    int64_t begin = protobuf_begin(r);
    json_object_foreach((json_t *)options, name, value) {
        char key[LOG_OPTION_NAME], *text = log_option(key, name, value);
        add_item(r, key, text);
        free(text);
    }
    protobuf_end(r, RUN_CONFIG, begin);
    if (config->name) protobuf_text(r, RUN_NAME, config->name);
    protobuf_text(r, RUN_HOST, host);
    if (resumed > 0) protobuf_integer(r, RUN_FIRST_STEP, resumed + 1);
    add_time(r, RUN_START, run->begun);
    if (resumed > 0) protobuf_integer(r, RUN_RESUMED, 1);
    if (resumed > 0) protobuf_integer(r, RUN_RUNTIME, (int64_t)run->earlier);
    frame(run, RECORD_RUN);
}

/* The oldest version of the service that reads these records is the one that wandb itself writes. */
static void add_header(WandbRun *run)
{
    int64_t version = protobuf_begin(&run->record);
    protobuf_text(&run->record, VERSION_PRODUCER, "jotun");
    protobuf_text(&run->record, VERSION_CONSUMER, "0.65.0");
    protobuf_end(&run->record, HEADER_VERSION, version);
    frame(run, RECORD_HEADER);
}

static void add_environment(WandbRun *run, const char *os, const char *host, const char *executable)
{
    Buffer *r = &run->record;
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);
    protobuf_text(r, ENVIRONMENT_OS, os);
    add_time(r, ENVIRONMENT_STARTED, run->begun);
    protobuf_text(r, ENVIRONMENT_PROGRAM, "jotun");
    protobuf_text(r, ENVIRONMENT_HOST, host);
    protobuf_text(r, ENVIRONMENT_EXECUTABLE, executable);
    protobuf_integer(r, ENVIRONMENT_CPUS, cpus);
    protobuf_integer(r, ENVIRONMENT_LOGICAL, cpus);
    protobuf_text(r, ENVIRONMENT_WRITER, run->id);
    frame(run, RECORD_ENVIRONMENT);
}

/* ---- files beside the records ---- */
static Status write_file(const WandbRun *run, const char *name, const char *text, size_t bytes)
{
    char folder[1024], path[1024];
    TRY(path_join(folder, run->folder, "files"));
    TRY(folder_make(folder));
    TRY(path_join(path, folder, name));
    return file_write_whole(path, text, bytes);
}

/* JSON values are values of YAML too. */
static Status write_config(const WandbRun *run, const json_t *options)
{
    Buffer out = { 0 };
    const char *name;
    json_t *value;
    Status status = OK;
    json_object_foreach((json_t *)options, name, value) {
        char key[LOG_OPTION_NAME], *text = log_option(key, name, value);
        if (status == OK) status = buffer_format(&out, "%s:\n    value: %s\n", key, text);
        free(text);
    }
    if (status == OK) status = write_file(run, "config.yaml", out.text, (size_t)out.bytes);
    buffer_free(&out);
    return status;
}

static Status write_metadata(const WandbRun *run, const char *os, const char *host, const char *executable)
{
    char started[32];
    time_t seconds = (time_t)run->begun;
    struct tm utc;
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "os", os, "startedAt", started,
                               "program", "jotun", "host", host, "executable", executable,
                               "cpu_count", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
    char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    CHECK(text, "no memory for wandb-metadata.json");
    Status status = write_file(run, "wandb-metadata.json", text, strlen(text));
    free(text);
    json_decref(object);
    return status;
}

/* ---- the run ---- */
/* Eight letters and digits from the system's random numbers: ids of a project must differ. */
static void new_id(char out[9])
{
    uint8_t byte[8];
    CHECK(getrandom(byte, sizeof byte, 0) == (ssize_t)sizeof byte, "the system gives no random numbers");
    for (int i = 0; i < 8; i++) out[i] = WANDB_ID_SIGNS[byte[i] % 36];
    out[8] = 0;
}

/* A folder of the present second; where an earlier start of the run has that one, of a later second. */
static Status make_folder(WandbRun *run, const char *directory)
{
    for (time_t seconds = (time_t)run->begun;; seconds++) {
        char when[32], name[64], latest[1024];
        struct tm local;
        strftime(when, sizeof when, "%Y%m%d_%H%M%S", localtime_r(&seconds, &local));
        snprintf(name, sizeof name, "offline-run-%s-%s", when, run->id);
        TRY(path_join(run->folder, directory, name));
        if (mkdir(run->folder, 0777) != 0 && errno == EEXIST) continue;
        if (!file_exists(run->folder))
            return fail(BAD_FILE, OPTION ": %s cannot be made: %s", run->folder, strerror(errno));
        TRY(path_join(latest, directory, "latest-run"));
        unlink(latest);                                   /* a convenience of wandb's: it may fail */
        if (symlink(name, latest) != 0) return OK;
        return OK;
    }
}

static Status begin(WandbRun *run, const WandbConfig *config, const json_t *options, int64_t resumed)
{
    char name[32], path[1024], executable[1024] = "";
    struct utsname system;
    if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0) executable[0] = 0;
    CHECK(uname(&system) == 0, "the system does not tell its name");
    TRY(write_config(run, options));
    TRY(write_metadata(run, system.sysname, system.nodename, executable));
    snprintf(name, sizeof name, "run-%s.wandb", run->id);
    TRY(path_join(path, run->folder, name));
    TRY(log_file_open(&run->file, OPTION, path, true));
    wandb_store_header(&run->framed);
    add_header(run);
    add_run(run, config, options, resumed, system.nodename);
    add_environment(run, system.sysname, system.nodename, executable);
    write_framed(run);
    return OK;
}

Status wandb_run_open(WandbRun *run, const WandbConfig *config, double time, int64_t resumed,
                      const char *options)
{
    char directory[1024];
    *run = (WandbRun){ .begun = time, .summary = json_object() };
    TRY(path_join(directory, config->directory, "wandb"));
    Status made = folder_make(directory);
    if (made != OK)
        return fail(made, OPTION ": %s; give another --wandb-save-dir or --save, which can be written to",
                    fail_text());
    bool known = false;
    if (resumed > 0) TRY(wandb_earlier_id(run->id, &known, directory));
    if (known) TRY(wandb_earlier_cut(&run->earlier, directory, run->id, resumed));
    if (!known) new_id(run->id);
    TRY(wandb_earlier_keep_id(directory, run->id));
    TRY(make_folder(run, directory));
    json_t *object = json_loads(options, 0, NULL);
    CHECK(object, "the options are no JSON object");
    Status status = begin(run, config, object, known ? resumed : 0);
    json_decref(object);
    return status;
}

static void row_of(WandbRun *run, double time, int64_t step)
{
    if (step != run->step) wandb_run_commit(run);
    json_object_set_new(run->summary, "_step", json_integer(step));
    if (run->row.bytes == 0) {
        add_number(&run->row, "_step", (double)step);
        add_number(&run->row, "_runtime", run->earlier + time - run->begun);
        add_number(&run->row, "_timestamp", time);
    }
    run->step = step;
}

void wandb_run_add_text(WandbRun *run, double time, int64_t step, const char *name, const char *text)
{
    if (!run->file.open) return;
    char *quoted = log_quoted(text);
    row_of(run, time, step);
    add_item(&run->row, name, quoted);
    json_object_set_new(run->summary, name, json_string(text));
    free(quoted);
}

void wandb_run_add(WandbRun *run, double time, int64_t step, const LogNamed *value, int count)
{
    if (!run->file.open || count == 0) return;
    row_of(run, time, step);
    for (int i = 0; i < count; i++) {
        double x = value[i].value;
        add_number(&run->row, value[i].name, x);
        json_object_set_new(run->summary, value[i].name, isfinite(x) ? json_real(x) : json_string("NaN"));
    }
}

/* The row as an update of the summary too, so that the file of a killed run has its summary. */
void wandb_run_commit(WandbRun *run)
{
    if (!run->file.open || run->row.bytes == 0) return;
    buffer_add_or_stop(&run->record, run->row.text, run->row.bytes);
    frame(run, RECORD_SUMMARY);
    buffer_add_or_stop(&run->record, run->row.text, run->row.bytes);
    int64_t step = protobuf_begin(&run->record);
    protobuf_integer(&run->record, STEP_NUM, run->step);
    protobuf_end(&run->record, HISTORY_STEP, step);
    frame(run, RECORD_HISTORY);
    write_framed(run);
    run->row.bytes = 0;
}

Status wandb_run_close(WandbRun *run, Status status, const char *saved)
{
    if (run->file.open) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        wandb_run_commit(run);
        protobuf_integer(&run->record, EXIT_CODE, status_exit_code(status));
        double seconds = run->earlier + (double)now.tv_sec - run->begun;
        protobuf_integer(&run->record, EXIT_RUNTIME, (int64_t)seconds);
        frame(run, RECORD_EXIT);
        write_framed(run);
        char *summary = json_dumps(run->summary, JSON_COMPACT | JSON_REAL_PRECISION(17));
        CHECK(summary, "no memory for wandb-summary.json");
        Status written = write_file(run, "wandb-summary.json", summary, strlen(summary));
        free(summary);
        if (status == OK) status = written;
    }
    status = log_file_close(&run->file, status, saved);
    Buffer *all[] = { &run->row, &run->record, &run->framed };
    for (int i = 0; i < 3; i++) buffer_free(all[i]);
    json_decref(run->summary);
    run->summary = NULL;
    return status;
}
