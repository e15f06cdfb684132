/* A run in words: its state, where its time went. */
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
    return run->curve.points ? (long long)run->curve.point[run->curve.points - 1].step : 0;
}

const char *run_state_text(char out[512], const RunRecord *run)
{
    const RunStart *last = &run->start[run->starts - 1];
    const char *why = json_string_value(json_object_get(last->stop, "message"));
    double steps = run_fact_number(run, "steps");
    char of[40] = "", date[40];
    size_t cut = why ? strlen(why) : 0;                                    /* whole characters */
    if (cut > 380) for (cut = 380; cut > 0 && ((unsigned char)why[cut] & 0xc0) == 0x80;) cut--;
    if (steps > 0) snprintf(of, sizeof of, " of %.0f", steps);
    if (!run->journal)
        snprintf(out, 512, "up to step %lld", last_step(run));
    else if (run->lost)
        snprintf(out, 512, "killed or lost at step %lld%s, last heard of %s", last_step(run), of,
                 run_date_text(date, last->end));
    else if (!last->ended)
        snprintf(out, 512, "running, or killed: step %lld%s, last heard of %s", last_step(run), of,
                 run_date_text(date, last->end));
    else if (!strcmp(last->how, "signal"))
        snprintf(out, 512, "stopped by a signal after step %lld%s", last_step(run), of);
    else if (!strcmp(last->how, "failure"))
        snprintf(out, 512, "failed after step %lld%s: %.*s", last_step(run), of, (int)cut, why ? why : "");
    else
        snprintf(out, 512, "ended after step %lld%s", last_step(run), of);
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
