#include "train/loop.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "comm/watchdog.h"
#include "train/report.h"

static volatile sig_atomic_t caught;                     /* of the process, as signals are: ranks agree on it each step */
static bool speaks_of_signals;

/* `timeout`, `mpirun` and job schedulers signal a process and then its process group: the same signal within a second of its
 * first arrival is one request. Later than that it ends the process at once. */
static void on_signal(int number)
{
    static _Atomic int64_t first_ns[NSIG];
    static const char words[] = "\njotun: stops after the step at hand; the same signal again leaves at once\n";
    int64_t now = seam_system.clock(), first = 0;
    if (!atomic_compare_exchange_strong(&first_ns[number], &first, now)) {
        if (now - first < 1000000000) return;
        signal(number, SIG_DFL);
        raise(number);                                       /* is blocked here, so it is delivered when the handler returns */
        return;
    }
    caught = number;
    if (speaks_of_signals && write(STDERR_FILENO, words, sizeof words - 1) < 0) return;
}

void loop_catch_signals(bool speaks)
{
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };       /* USR1: what launchers and schedulers pass on before they kill */
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    speaks_of_signals = speaks;
    signal(SIGPIPE, SIG_IGN);                                 /* who read our lines has left: no reason to stop */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

int loop_signal(void) { return caught; }

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
    if (mine) datasets_fingerprints(&t->datasets);                         /* of the data as the run begins */
    return agree(t->world, mine ? checkpoint_lock(t->config->save, *loaded ? loaded : NULL, lock) : OK);
}

static Status save(Trainer *t)
{
    TRY(trainer_save(t, t->config->save));
    if (t->mesh.rank == 0) { log_progress_end(); log_line("step %lld is saved in %s", (long long)t->step, t->config->save); }
    return OK;
}

static bool at_interval(int64_t step, int64_t interval) { return interval > 0 && step % interval == 0; }

enum { SKIPS_MAX = 20 };                                   /* steps in a row: a run that heals skips one or two */

/* What must stop a run between two steps: bad data on any rank, or numbers that do not come back */
static Status stand_after(Trainer *t, StepReport done, int flags, int64_t *skips)
{
    *skips = done.skipped ? *skips + 1 : 0;
    if (flags & FLAG_FAILED) return agree(t->world, t->failed == OK ? OK : fail(t->failed, "%s", t->why));
    if (*skips < SKIPS_MAX) return OK;
    return fail(BAD_OPTION, "%d steps in a row had a loss or gradient norm that is not finite; nothing was saved since; try a lower --lr, "
                "a longer --lr-warmup-iters, or --clip-grad 1", SKIPS_MAX);
}

static void evaluate(Trainer *t, Report *report, SplitKind kind)
{
    if (train_config_takes(t->config, kind)) report_evaluation(report, t->step, kind, trainer_evaluate_split(t, kind));        /* <-> all axes */
}

static Status steps(Trainer *t, Report *report)
{
    const TrainConfig *r = t->config;
    int64_t saved = t->step;
    int64_t skips = 0;
    int flags = trainer_any(t, FLAG_NUMBER * caught);                           /* <-> world */
    bool stop = flags >= FLAG_NUMBER;
    while (t->step < r->steps && !stop) {
        double lr = lr_at(&r->lr, t->step);
        seam_point("step");
        StepReport done = trainer_step(t);                                       /* <-> all axes */
        flags = trainer_any(t, FLAG_NUMBER * caught + (t->failed != OK ? FLAG_FAILED : 0));    /* <-> world */
        if (!(flags & FLAG_FAILED)) report_step(report, t->step, lr, done);      /* bad data has no loss worth telling */
        TRY(stand_after(t, done, flags, &skips));                                /* same on every rank */
        if (at_interval(t->step, r->eval_interval)) evaluate(t, report, SPLIT_VALID);
        if (t->step == r->steps) evaluate(t, report, SPLIT_TEST);
        stop = flags >= FLAG_NUMBER || at_interval(t->step, r->exit_interval);
        bool last = stop || t->step == r->steps;
        if (r->save && (at_interval(t->step, r->save_interval) || last)) { TRY(save(t)); saved = t->step; report_pause(report); }
    }
    if (flags < FLAG_NUMBER || t->step == r->steps) return OK;
    caught = flags / FLAG_NUMBER;                              /* for the exit code, where the signal came to another rank */
    if (saved == t->step && r->save) return fail(INTERRUPTED, "stopped by a signal after step %lld; --load %s goes on from there", (long long)t->step, r->save);
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
    int flags = trainer_any(t, off ? FLAG_MEMORY : 0);                           /* <-> world */
    if (flags % FLAG_NUMBER && t->mesh.rank == 0)
        log_line("a rank took other bytes than its dry run said; please report this with the options of the run");
}

static Status run(Trainer *t)
{
    Report report;
    Watchdog *dog;
    TRY(watchdog_open(&dog, t->world, t->config->watchdog));
    char loaded[1024];
    int lock = -1;
    Status status = load(t, loaded);
    if (status == OK) status = claim(t, loaded, &lock);
    if (status == OK && t->mesh.rank == 0) introduce(t);
    if (status == OK) status = agree(t->world, report_open(&report, t->config, t->mesh.rank == 0, t->step));
    if (status == OK) {
        int64_t first = t->step;
        status = steps(t, &report);
        if (status == OK && t->step > first) compare_with_dry_run(t);
        report_close(&report);
    }
    watchdog_close(dog, t->world);
    if (lock >= 0) close(lock);
    return status;
}

Status loop_run(const TrainConfig *config, Transport *transport)
{
    Trainer t;
    Status status = trainer_start(&t, config, transport);
    if (status == OK) status = run(&t);
    trainer_close(&t);
    return status;
}
