/* jotun sweep: runs of jotun train that differ in a few options, and what their losses say: a scaling law
 * over sizes, or the best value of an option. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "base/message.h"
#include "base/seam.h"
#include "cli/child_process.h"
#include "cli/command.h"
#include "cli/run_state.h"
#include "cli/signals.h"
#include "cli/sweep/sweep.h"

/* ---- the runs as processes, several at a time ----
 * Each is in a process group of its own, so that a terminal's Ctrl-C reaches only the sweep, which passes it
 * on; and each gets SIGTERM when the sweep dies, so that it saves and ends. */

/* LOCK_SECONDS: of the runs of an earlier sweep that was killed, which still save */
enum { POLL_MS = 100, TERMINAL_POLLS = 5, FILE_POLLS = 600, LOCK_SECONDS = 120 };

static Status run_start(SweepRun *run)
{
    char     log[1100];
    WordList all = { 0 };
    TRY(sweep_run_begin(run));
    snprintf(log, sizeof log, "%s/log.txt", run->folder);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out < 0) return fail(IO_FAILED, "%s cannot be written: %s", log, strerror(errno));
    word_list_add(&all, "train");
    for (int i = 0; i < run->words.count; i++) word_list_add(&all, "%s", run->words.word[i]);
    for (int i = 0; i < run->machine.count; i++) word_list_add(&all, "%s", run->machine.word[i]);
    Status status = child_start(&run->process, (ChildStart){ .word = all.word, .out = out, .err = out,
                                                             .orphan_signal = SIGTERM, .group = true });
    word_list_free(&all);
    close(out);
    TRY(status);
    run->state = SWEEP_RUNS;
    run->first = run->step;
    return OK;
}

/* state: of waitpid. A run that was stopped by our signal has saved and waits for the next sweep. */
static Status run_ended(SweepRun *run, const Sweep *sweep, int state, bool stopping)
{
    char why[80], took[24];
    bool good = child_succeeded(state);
    run->process = 0;
    run->state = SWEEP_WAITS;
    if (stopping && !good) return OK;
    if (good) TRY(sweep_run_finish(run, sweep));
    else {
        child_end_words(why, sizeof why, state);
        sweep_run_failure(run, why);
    }
    log_progress_end();
    if (run->state == SWEEP_FAILED) log_line("%s: %s", run->name, run->failure);
    else log_line("%s: loss %.4f, %s", run->name, run->loss, log_time(took, run->seconds));
    return OK;
}

static Status reap(Sweep *sweep, bool stopping)
{
    for (int i = 0; i < sweep->runs; i++) {
        int state;
        SweepRun *run = &sweep->run[i];
        if (run->state == SWEEP_RUNS && child_ended(run->process, &state))
            TRY(run_ended(run, sweep, state, stopping));
    }
    return OK;
}

/* ---- which run is next, and how far all are ---- */

static int running(const Sweep *sweep)
{
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) count += sweep->run[i].state == SWEEP_RUNS;
    return count;
}

/* The longest first, so that the last ones to end are short. */
static SweepRun *next_run(const Sweep *sweep)
{
    SweepRun *next = NULL;
    for (int i = 0; i < sweep->runs; i++) {
        SweepRun *run = &sweep->run[i];
        if (run->state == SWEEP_WAITS && (!next || run->flops > next->flops)) next = run;
    }
    return next;
}

/* Time left by the FLOPs that this process has seen done. */
static void progress(const Sweep *sweep, int64_t began)
{
    double done = 0, left = 0;
    int ended = 0;
    char time[24] = "", text[800] = "";
    for (int i = 0; i < sweep->runs; i++) {
        SweepRun *run = &sweep->run[i];
        double each = run->flops / (double)run->steps;
        if (run->state == SWEEP_RUNS) run->step = sweep_run_step(run);
        ended += run->state == SWEEP_DONE || run->state == SWEEP_FAILED;
        done += each * (double)(run->step - run->first);
        if (run->state <= SWEEP_RUNS) left += each * (double)(run->steps - run->step);
        if (run->state == SWEEP_RUNS)
            message_add(text, sizeof text, "  %s %lld%%", run->name,
                        (long long)(100 * run->step / run->steps));
    }
    double seconds = seam_seconds_since(began);
    if (done > 0) log_time(time, left * seconds / done);
    log_progress("%d of %d runs ended%s%s%s", ended, sweep->runs, *time ? "  left: " : "", time, text);
}

/* ---- all runs ---- */

static void signal_all(const Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++)
        if (sweep->run[i].state == SWEEP_RUNS) kill(sweep->run[i].process, SIGTERM);
}

/* After a failure of the sweep itself its runs end as by a signal. */
static Status execute(Sweep *sweep, const volatile sig_atomic_t *stop)
{
    int64_t began = seam.clock();
    Failure failure = { 0 };
    bool signalled = false;
    for (int64_t polls = 0;; polls++) {
        bool stopping = *stop || failure.status != OK;
        for (SweepRun *run; !stopping && running(sweep) < sweep->at_once && (run = next_run(sweep));)
            stopping = failure_keep(&failure, run_start(run)) != OK;
        if (stopping && !signalled) signal_all(sweep), signalled = true;
        failure_keep(&failure, reap(sweep, stopping));
        if (!running(sweep) && (stopping || !next_run(sweep))) break;
        if (polls % (log_terminal() ? TERMINAL_POLLS : FILE_POLLS) == TERMINAL_POLLS - 1)
            progress(sweep, began);
        nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000 }, NULL);
    }
    log_progress_end();
    TRY(failure_report(&failure));
    if (!next_run(sweep)) return OK;
    return fail(INTERRUPTED, "stopped by a signal; the runs have saved, and the same command continues them");
}

/* ---- the command ---- */

static Status failed(const Sweep *sweep)
{
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) count += sweep->run[i].state == SWEEP_FAILED;
    if (!count) return OK;
    return fail(BAD_OPTION, "%d of %d runs failed, as the table says; the same command tries them again",
                count, sweep->runs);
}

static Status sweep_all(Sweep *sweep)
{
    TRY(sweep_plan(sweep));
    if (sweep->own->sweep_dry) {
        TRY(sweep_state_read(sweep));
        sweep_show_plan(sweep);
        return OK;
    }
    const volatile sig_atomic_t *stop = signals_catch(
        "\njotun: the runs stop after their steps and save; the same signal again ends them at once\n");
    TRY(state_lock(&sweep->lock, sweep->own->sweep_dir, "sweep", LOCK_SECONDS, stop));
    TRY(sweep_state_read(sweep));
    sweep_show_plan(sweep);
    log_line("%d run%s at once", sweep->at_once, sweep->at_once == 1 ? "" : "s");
    TRY(execute(sweep, stop));
    TRY(sweep_results(sweep));
    TRY(sweep_findings(sweep));
    return failed(sweep);
}

static void sweep_close(Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++) sweep_run_free(&sweep->run[i]);
    for (int a = 0; a < sweep->axes; a++)
        for (int v = 0; v < sweep->axis[a].count; v++) free((char *)sweep->axis[a].value[v]);
    free(sweep->run);
    word_list_free(&sweep->word);
    options_close(sweep->own);
    free(sweep->own);
    if (sweep->lock >= 0) close(sweep->lock);
}

Status cmd_sweep(int argc, char **argv)
{
    Sweep sweep;
    Status status = sweep_words(&sweep, argc, argv);
    if (status == OK) status = sweep_all(&sweep);
    sweep_close(&sweep);
    return status;
}
