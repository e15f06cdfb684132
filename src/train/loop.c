#include "train/loop.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "train/report.h"

/* The names of the data are among the options; what lies under them is told apart here. */
static Status data_compare(Trainer *t, const char *path)
{
    char *prints;
    TRY(checkpoint_data(path, &prints));
    Status status = prints ? datasets_compare(&t->datasets, prints) : OK;
    free(prints);
    return status;
}

static Status load(Trainer *t, char path[1024])
{
    const TrainConfig *r = t->config;
    CheckpointState state = { .step = -1 };
    path[0] = 0;
    bool found = false, speaks = t->mesh.rank == 0;
    trainer_init(t);
    if (!r->load) return OK;
    TRY(agree(t->world, checkpoint_find(r->load, path, &found)));
    TRY(agree(t->world, found ? checkpoint_state(path, &state) : OK));
    TRY(agree_on(t->world, state.step, "the step found in --load (-1: none)"));
    if (!found && r->exit_on_missing) return fail(BAD_FILE, "--load %s holds no checkpoint, and --exit-on-missing-checkpoint was given", r->load);
    if (!found && speaks) log_line("--load %s holds no checkpoint: training begins anew", r->load);
    if (!found) path[0] = 0;
    if (!found) return OK;
    TRY(trainer_load(t, path));
    TRY(agree(t->world, speaks ? data_compare(t, path) : OK));
    if (speaks) log_line("goes on after step %lld of %s", (long long)t->step, path);
    return OK;
}

/* Before the first step, not hours later: --save can be written into, and nobody else does */
static Status claim(Trainer *t, const char *loaded, int *lock)
{
    bool mine = t->config->save && t->mesh.rank == 0;
    const char *prints;                                                    /* kept: of the data as the run begins */
    Status status = mine ? datasets_fingerprints(&t->datasets, &prints) : OK;
    if (mine && status == OK) status = checkpoint_lock(t->config->save, *loaded ? loaded : NULL, lock);
    return agree(t->world, status);
}

static Status save(Trainer *t)
{
    watchdog_work(t->world, "saving");
    Status status = trainer_save(t, t->config->save);
    watchdog_work(t->world, NULL);
    TRY(status);                                               /* same on every rank */
    if (t->mesh.rank == 0) { log_progress_end(); log_line("step %lld is saved in %s", (long long)t->step, t->config->save); }
    return OK;
}

static bool at_interval(int64_t step, int64_t interval) { return interval > 0 && step % interval == 0; }

enum { SKIPS_MAX = 20 };                                   /* steps in a row: a run that heals skips one or two */

/* For all ranks, the message of the lowest rank whose data could not be read. */
static Status unreadable_data(Trainer *t)
{
    return agree(t->world, t->failed == OK ? OK : fail(t->failed, "%s", t->why));
}

/* What must stop a run between two steps: bad data on any rank, or numbers that do not come back */
static Status stand_after(Trainer *t, StepReport done, RunFlags flags, int64_t *skips)
{
    *skips = done.skipped ? *skips + 1 : 0;
    if (flags.failed) return unreadable_data(t);
    if (*skips < SKIPS_MAX) return OK;
    return fail(BAD_OPTION, "%d steps in a row had a loss or gradient norm that is not finite; nothing was saved since; try a lower --lr, "
                "a longer --lr-warmup-iters, or --clip-grad 1", SKIPS_MAX);
}

static Status evaluate(Trainer *t, Report *report, SplitKind kind)
{
    if (!train_config_takes(t->config, kind)) return OK;
    double loss = t->signal ? NAN : trainer_evaluate_split(t, kind);             /* <-> all axes */
    bool given_up = t->signal != 0;            /* trainer_any also sees one that came after the last batch */
    RunFlags flags = trainer_any(t, (RunFlags){ .failed = t->failed != OK });    /* <-> world */
    if (flags.failed) return unreadable_data(t);
    if (!given_up) report_evaluation(report, t->step, kind, loss);
    else if (t->mesh.rank == 0) log_line("step %lld: the evaluation is given up, since a signal came", (long long)t->step);
    return OK;
}

/* loaded: --load has the checkpoint of the step that the run begins after. */
static Status steps(Trainer *t, Report *report, bool loaded)
{
    const TrainConfig *r = t->config;
    int64_t first = t->step;
    int64_t skips = 0;
    bool stop = trainer_any(t, (RunFlags){ 0 }).signal != 0;                     /* <-> world */
    while (t->step < r->steps && !stop) {
        double lr = lr_at(&r->lr, t->step);
        seam_point("step");
        StepReport done = trainer_step(t);                                       /* <-> all axes */
        RunFlags flags = trainer_any(t, (RunFlags){ .failed = t->failed != OK });     /* <-> world */
        if (!flags.failed) report_step(report, t->step, t->loader[SPLIT_TRAIN].shift + t->step * r->global, lr, done);      /* bad data has no loss worth telling */
        TRY(stand_after(t, done, flags, &skips));                                /* same on every rank */
        if (at_interval(t->step, r->eval_interval)) TRY(evaluate(t, report, SPLIT_VALID));
        if (t->step == r->steps) TRY(evaluate(t, report, SPLIT_TEST));
        stop = t->signal || at_interval(t->step, r->exit_interval);
        bool last = stop || t->step == r->steps;
        if (r->save && (at_interval(t->step, r->save_interval) || last)) { TRY(save(t)); report_pause(report); }
    }
    if (!t->signal || t->step == r->steps) return OK;
    status_signal(t->signal);                                  /* for the exit code, where the signal came to another rank */
    const char *holds = t->step > first ? r->save : loaded ? r->load : NULL;     /* the last step was saved */
    if (holds)
        return fail(INTERRUPTED, "stopped by a signal after step %lld; --load %s goes on from there",
                    (long long)t->step, holds);
    if (t->step == first)
        return fail(INTERRUPTED, "stopped by a signal before the first step; nothing was saved yet");
    return fail(INTERRUPTED, "stopped by a signal after step %lld; nothing was saved, since --save was not given", (long long)t->step);
}

static void introduce(const Trainer *t)
{
    MeshSize m = t->mesh.size;
    double bytes = 0;
    char text[24];
    for (int i = 0; i < ARENAS; i++) bytes += (double)t->arena[i].size;
    log_line("%lld parameters; %d ranks: tp %d, cp %d, dp %d, pp %d, ZeRO %d; %s on rank 0; device %s, %d threads a rank",
             (long long)model_parameters(&t->config->model), t->mesh.world, m.tp, m.cp, m.dp, m.pp, t->config->zero, log_bytes(text, bytes),
             t->config->device, t->config->threads);
    if (!t->config->save) log_line("--save was not given: the model will not be kept");
    if (t->step >= t->config->steps) log_line("all %lld steps are done already; --train-iters beyond that goes on", (long long)t->step);
}

/* What the dry run said is what was taken; otherwise --dry-run lies, and somebody should know. */
static void compare_with_dry_run(Trainer *t)
{
    bool off = false;
    for (int i = 0; i < ARENAS; i++) off = off || t->arena[i].peak != t->arena[i].size;
    if (trainer_any(t, (RunFlags){ .memory = off }).memory && t->mesh.rank == 0)     /* <-> world */
        log_line("a rank took other bytes than its dry run said; please report this with the options of the run");
}

static Status run(Trainer *t)
{
    Report report;
    char loaded[1024];
    int lock = -1;
    watchdog_work(t->world, "loading");
    Status status = load(t, loaded);
    watchdog_work(t->world, "looking at --save");
    if (status == OK) status = claim(t, loaded, &lock);
    watchdog_work(t->world, NULL);
    if (status == OK && t->mesh.rank == 0) introduce(t);
    if (status == OK) status = agree(t->world, report_open(&report, t->config, t->mesh.rank == 0, t->step));
    if (status == OK) {
        int64_t first = t->step;
        status = steps(t, &report, *loaded != 0);
        if (status == OK && t->step > first) compare_with_dry_run(t);
        status = report_close(&report, status);                   /* rank 0 alone: no rank waits for another from here on */
    }
    if (lock >= 0) close(lock);
    return status;
}

Status loop_run(const TrainConfig *config, Transport *transport, const volatile sig_atomic_t *stop)
{
    Trainer t;
    Status status = trainer_start(&t, config, transport);
    t.stop = stop;
    if (status == OK) status = run(&t);
    trainer_close(&t);
    return status;
}
