/* A run in words: its state, its layout, where its time went. */
#include <math.h>
#include <string.h>
#include <time.h>
#include "report/run_report.h"

const char *run_date_text(char out[40], double seconds)
{
    time_t    whole = seconds > 0 && seconds < 1e11 ? (time_t)seconds : 0;
    struct tm date;
    if (whole && gmtime_r(&whole, &date)) strftime(out, 40, "%Y-%m-%d %H:%M:%S UTC", &date);
    else snprintf(out, 40, "-");
    return out;
}

static long long last_step(const RunRecord *run)
{
    return run->points ? (long long)run->point[run->points - 1].step : 0;
}

const char *run_state_text(char out[512], const RunRecord *run)
{
    const json_t *stop = run->start[run->starts - 1].stop;
    const char *how = json_string_value(json_object_get(stop, "how"));
    const char *why = json_string_value(json_object_get(stop, "message"));
    double steps = run_fact_number(run, "steps");
    char of[40] = "", date[40];
    if (steps > 0) snprintf(of, sizeof of, " of %.0f", steps);
    if (!run->journal)
        snprintf(out, 512, "up to step %lld", last_step(run));
    else if (!stop)
        snprintf(out, 512, "running, or killed: step %lld%s, last heard of %s", last_step(run), of,
                 run_date_text(date, run->start[run->starts - 1].end));
    else if (how && !strcmp(how, "signal"))
        snprintf(out, 512, "stopped by a signal after step %lld%s", last_step(run), of);
    else if (how && !strcmp(how, "failure"))
        snprintf(out, 512, "failed after step %lld%s: %.380s", last_step(run), of, why ? why : "");
    else
        snprintf(out, 512, "ended after step %lld%s", last_step(run), of);
    return out;
}

static int whole_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int)json_integer_value(value) : 0;
}

const char *run_layout_text(char out[200], const json_t *start)
{
    static const char *const axis[] = { "tp", "cp", "pp", "dp", "ep", "etp" };
    const json_t *layout = json_object_get(start, "layout"), *schedule = json_object_get(start, "schedule");
    const char *by = json_string_value(json_object_get(schedule, "name"));
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < 6; i++) {
        int size = whole_of(layout, axis[i]);
        if (size < 2 && (i != 3 || size < 1)) continue;
        used += (size_t)snprintf(out + used, 200 - used, "%s%s %d", used ? ", " : "", axis[i], size);
        if (i == 2 && by) used += (size_t)snprintf(out + used, 200 - used, " by %.30s", by);
        if (i == 0 && json_is_true(json_object_get(layout, "sequence_parallel")))
            used += (size_t)snprintf(out + used, 200 - used, " with sequence parallelism");
    }
    if (whole_of(layout, "zero") > 0)
        snprintf(out + used, 200 - used, "%sZeRO %d", used ? ", " : "", whole_of(layout, "zero"));
    return out;
}

void run_time_parts(RunTimePart part[RUN_TIME_PARTS], const RunRecord *run, double *total)
{
    double stopped;
    RunTimes t = run_times(run, total, &stopped);
    const RunTimePart parts[RUN_TIME_PARTS] = {
        { "training steps", fmax(0, t.steps - t.waiting - t.repeated) },
        { "waiting for data", t.waiting },
        { "steps taken again after a restart", t.repeated },
        { "evaluations", t.evaluations },
        { "saving checkpoints", t.saves },
        { "samples of text", t.samples },
        { "starting and loading", t.loading },
        { "other", t.other },
        { "stopped between two starts", stopped },
    };
    memcpy(part, parts, sizeof parts);
    *total += stopped;
}
