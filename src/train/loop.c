/* The training loop. Ranks communicate in trainer_step, in evaluations and in checkpoints; signals and
 * errors of a rank are counted in the sums of a step, and only after a step in which there is one do flags
 * need a message of their own. Every decision between steps depends only on values that are the same on all
 * ranks, so that no rank leaves the loop alone. */
#include "train/measure.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/trainer_checkpoint.h"
#include "train/trainer_optimizer.h"
#include "train/loop.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "convert/weights/foreign_weights.h"
#include "store/checkpoint_dir.h"
#include "train/best.h"
#include "train/profile.h"
#include "train/replay.h"
#include "train/report.h"

/* ---- loading ---- */
/* The data files may have been replaced since the checkpoint under the same names. Compares their
 * fingerprints. */
static Status data_compare(Trainer *t, const char *path)
{
    CheckpointFacts facts;
    if (foreign_weights_folder(path)) return OK;
    TRY(checkpoint_facts(&facts, path));
    const char *was = facts.state.data_fingerprint;
    Status status = was ? datasets_compare(&t->input.datasets, was) : OK;
    checkpoint_facts_free(&facts);
    return status;
}

/* What of the checkpoint the run continues with. */
static void log_loaded(const Trainer *t, const char *path, unsigned loaded, unsigned lacks)
{
    const char *states = loaded & CHECKPOINT_STATES ? "" : lacks & CHECKPOINT_STATES ?
        "; it has no optimizer states, so that they begin at 0" : "; the optimizer states begin at 0";
    if (loaded & CHECKPOINT_POSITION)
        log_line("resumes after step %lld of %s%s", (long long)t->run.step, path, states);
    else
        log_line("starts at step 0 with the weights of %s%s", path, lacks & CHECKPOINT_POSITION ?
                 ", which holds no position of a run" : "");
    if (t->run.errors_left)
        log_line("--optimizer %s: the checkpoint has the errors of another number of workers (data-parallel "
                 "ranks), which begin at 0; all other states continue", t->config->optimizer->name);
}

/* Initializes the weights, and then reads the checkpoint of --load where there is one. path: the checkpoint
 * that was loaded, "" for none; *resumed: the run continues at its position. Ranks may see different
 * directories (a file system that is not shared), so they compare the step that they found. */
static Status load(Trainer *t, char path[1024], bool *resumed)
{
    const TrainConfig *config = t->config;
    CheckpointState state = { .step = -1 };
    path[0] = 0;
    *resumed = false;
    bool found = false, prints = t->mesh.rank == 0;
    trainer_init(t);
    if (!config->load) return OK;
    TRY(agree(t->comms.world, trainer_find(config->load, path, &found, &state)));
    TRY(agree_on(t->comms.world, state.step, "the step found in --load (-1: none)"));
    if (!found && prints)
        log_line("--load %s has no checkpoint: training starts from new weights", config->load);
    if (!found) path[0] = 0;
    if (!found) return OK;
    TRY(trainer_load(t, path));
    unsigned loaded = trainer_loads(t, t->run.lacked);
    *resumed = loaded & CHECKPOINT_POSITION;
    TRY(agree(t->comms.world, prints && *resumed ? data_compare(t, path) : OK));
    if (prints) log_loaded(t, path, loaded, t->run.lacked);
    return OK;
}

/* Checks before the first step, and not hours later, that --save can be written to and that no other run
 * writes to it. A run that takes weights alone is another run than that of the checkpoint, and saves
 * elsewhere unless it begins at the checkpoint's own step 0. *lock is the descriptor that holds the lock, on
 * rank 0; the caller closes it. */
static Status claim(Trainer *t, const char *loaded, bool resumed, int *lock)
{
    bool mine = t->config->save && t->mesh.rank == 0;
    CheckpointFolder folder;
    char dir[1024];
    bool same = *loaded && (resumed || (checkpoint_dir_split(loaded, dir, &folder) && folder.step == 0));
    const char *fingerprints;            /* kept by datasets: of the data at the start of the run */
    Status status = mine ? datasets_fingerprints(&t->input.datasets, &fingerprints) : OK;
    if (mine && status == OK) status = checkpoint_lock("--save", t->config->save, same ? loaded : NULL, lock);
    return agree(t->comms.world, status);
}

/* ---- between two steps ---- */
/* A save that failed has changed no earlier checkpoint; the message says which one a run resumes from. */
static Status save_failed(const Trainer *t, Status status)
{
    char path[1024];
    bool found = false;
    Failure why = { 0 };
    if (status != IO_FAILED && status != BAD_FILE) return status;
    failure_keep(&why, status);
    if (checkpoint_find_silent(t->config->save, path, &found) != OK || !found)
        return fail(status, "%s; step %lld is not saved, nor is any before it", why.text,
                    (long long)t->run.step);
    return fail(status, "%s; step %lld is not saved, and %s stays valid: --load %s resumes from it", why.text,
                (long long)t->run.step, path, t->config->save);
}

/* first: the step that the run started after. in_row: steps up to the present one that were skipped. saved:
 * the step of the newest checkpoint from before them, in the directory `holds`, which is NULL where there is
 * none. saves: by this run. */
typedef struct {
    int64_t first, in_row, saved, saves;
    const char *holds;
    Best best;
    int64_t spikes, rewinds;          /* spikes in a row; rewinds since the last checkpoint */
    bool back;                        /* the run has gone back: t->run.step was reached before */
} Saving;

/* A run that went back to an earlier step leaves the later checkpoints to nobody: they get other names before
 * its first save, so that none of them is resumed from or counted as one of this run. */
static Status abandon_later(Trainer *t, const Saving *saving)
{
    bool first = saving->saves == 0 && t->mesh.rank == 0;
    Status status = first ? checkpoint_dir_abandon(t->config->save, saving->first) : OK;
    return agree(t->comms.world, status);
}

/* After a skipped step the weights may be broken, so that earlier checkpoints are kept. */
static Status save(Trainer *t, Saving *saving)
{
    const TrainConfig *config = t->config;
    TRY(abandon_later(t, saving));                             /* same on every rank */
    watchdog_work(t->comms.world, "saving");
    Status status = trainer_save(t, config->save, saving->in_row ? 0 : config->keep_last);
    watchdog_work(t->comms.world, NULL);
    if (status != OK) return save_failed(t, status);           /* same on every rank */
    if (t->mesh.rank == 0) {
        log_progress_end();
        log_line("step %lld is saved in %s%s", (long long)t->run.step, config->save, !saving->in_row ? "" :
                 "; it was skipped, so that its weights may be broken: no earlier checkpoint is removed");
    }
    TRY(agree(t->comms.world, best_publish(&saving->best, t)));      /* same on every rank */
    saving->saves++;
    saving->rewinds = 0;
    if (!saving->in_row) saving->saved = t->run.step, saving->holds = config->save, t->run.has_saved = true;
    return OK;
}

static bool at_interval(int64_t step, int64_t interval) { return interval > 0 && step % interval == 0; }

/* Skipped steps in a row. An outlier in the data makes one or two steps overflow; a run that diverged
 * never recovers. */
enum { SKIPS_MAX = 20, REWINDS_MAX = 10 };

static Status diverged(const Trainer *t, const Saving *saving)
{
    char from[1200] = "nothing was saved before them";
    if (saving->holds)
        snprintf(from, sizeof from, "the last checkpoint before them is of step %lld: --load %s resumes",
                 (long long)saving->saved, saving->holds);
    return fail(BAD_OPTION, "%d steps in a row, %lld to %lld, had a loss or gradient norm that is not "
                "finite; %s; try a lower --lr, a longer --lr-warmup-iters, or --clip-grad 1", SKIPS_MAX,
                (long long)t->run.step - SKIPS_MAX + 1, (long long)t->run.step, from);
}

static Status spiked_on(const Trainer *t, const Saving *saving)
{
    return fail(BAD_OPTION, "%lld spikes in a row up to step %lld, whose loss is above what --spike-factor "
                "or --spike-deviations allows: it has risen for good; try a lower --lr, or another limit%s%s",
                (long long)saving->spikes, (long long)t->run.step,
                saving->holds ? "; --load resumes from " : "", saving->holds ? saving->holds : "");
}

/* The checkpoint that a run goes back to: the newest that it saved, or the one that it started from, which
 * may be another program's. */
static Status rewind_find(const char *holds, char path[1024], bool *found)
{
    *found = foreign_weights_folder(holds) != NULL;
    if (!*found) return checkpoint_find_silent(holds, path, found);
    snprintf(path, 1024, "%s", holds);
    return OK;
}

/* Back to the last checkpoint, and on with the samples after those of the spike. Without a checkpoint, the
 * skipped step is all that can be done. */
static Status rewind_run(Trainer *t, Report *report, Saving *saving)
{
    char path[1024];
    bool found = false;
    int64_t step = t->run.step, samples = t->run.samples;
    if (saving->holds) TRY(agree(t->comms.world, rewind_find(saving->holds, path, &found)));
    if (!found && t->mesh.rank == 0)
        log_line("step %lld: there is no checkpoint to go back to, so that the step is skipped alone; "
                 "--save DIR and --save-interval N make them", (long long)step);
    if (!found) return OK;                                                /* same on every rank */
    if (++saving->rewinds > REWINDS_MAX)
        return fail(BAD_OPTION, "%d rewinds from loss spikes to step %lld without a checkpoint after it; try "
                    "a lower --lr, or --spike-action skip", REWINDS_MAX, (long long)saving->saved);
    watchdog_work(t->comms.world, "loading");
    Status status = trainer_load(t, path);                                /* same on every rank */
    watchdog_work(t->comms.world, NULL);
    TRY(status);                                                          /* same on every rank */
    trainer_set_position(t, t->run.step, samples);
    report_rewind(report, t, step);
    saving->back = true;
    return OK;
}

/* For all ranks, the message of the lowest rank whose data could not be read. The weights are those after
 * t->run.step, which is saved before the run ends. */
static Status unreadable_data(Trainer *t, Saving *saving)
{
    bool lost = t->config->save && t->run.step > saving->saved && !saving->in_row;
    if (lost && save(t, saving) != OK && t->mesh.rank == 0) log_line("%s", fail_text());
    return agree(t->comms.world, t->input.failed == OK ? OK : fail(t->input.failed, "%s", t->input.failure));
}

/* Whether the run may continue after a step: not after unreadable data on any rank, and not after
 * SKIPS_MAX skipped steps. The step with bad data has been computed on zeros and has changed no weights
 * (train/step.c), so that it does not count; nor does an overflow, after which the loss scale is smaller. */
static Status check_step(Trainer *t, Report *report, StepReport done, RunFlags flags, Saving *saving)
{
    if (flags.failed) t->run.step--, t->run.samples -= done.samples;
    if (flags.failed) return unreadable_data(t, saving);
    saving->spikes = done.spike ? saving->spikes + 1 : 0;
    if (saving->spikes >= SKIPS_MAX) return spiked_on(t, saving);
    if (done.spike) return t->config->spike.rewinds ? rewind_run(t, report, saving) : OK;
    if (!done.overflow) saving->in_row = done.skipped ? saving->in_row + 1 : 0;
    if (saving->in_row == 1 && !t->config->no_replay) replay_step(t);            /* <-> all axes */
    return saving->in_row < SKIPS_MAX ? OK : diverged(t, saving);
}

static bool evaluates_after(const TrainConfig *config, int64_t step)
{
    return at_interval(step, config->eval_interval) && step >= config->eval_from;
}

/* DUE_ bits of what follows the present step. Samples are not made of weights that a skipped step may have
 * broken. */
static uint64_t follows_step(const Trainer *t, const Saving *saving)
{
    const TrainConfig *config = t->config;
    bool valid = config->skip_train || evaluates_after(config, t->run.step);
    bool test  = config->skip_train || t->run.step == t->run.steps;
    bool samples = !config->skip_train && at_interval(t->run.step, config->sampler.interval) &&
        !saving->in_row;
    uint64_t due = (uint64_t)samples << DUE_SAMPLES;
    for (int set = SPLIT_VALID; set < DATA_SETS; set++) {
        bool follows = set == SPLIT_TEST ? test : valid;
        due |= (uint64_t)(follows && train_config_takes(config, set)) << set;
    }
    return due;
}

/* A signal gives up an evaluation, which may take minutes, because schedulers kill a job soon after
 * their first signal; it stays due. Data that a rank could not read ends the run before its loss is
 * reported. */
static Status evaluate_set(Trainer *t, Report *report, Saving *saving, int set)
{
    double loss = trainer_evaluate_split(t, set);                                /* <-> all axes */
    bool given_up = t->signal != 0;      /* trainer_join_flags also sees one that came after the last batch */
    bool counts = set == SPLIT_VALID || set == SPLITS;              /* of several sets the first one */
    bool best = counts && !given_up && best_beaten(&saving->best, loss);
    RunFlags mine = { .failed = t->input.failed != OK, .best = best };
    RunFlags flags = trainer_join_flags(t, mine);                                /* <-> all axes */
    if (flags.failed) return unreadable_data(t, saving);
    if (given_up) return OK;
    if (counts) {
        t->run.valid_loss = loss;
        bool lower = isfinite(loss) && (loss < t->run.evaluations.lowest || t->run.evaluations.lowest == 0);
        t->run.evaluations = lower ? (EvaluationLosses){ loss, 0 }
                               : (EvaluationLosses){ t->run.evaluations.lowest,
                                                    t->run.evaluations.since + 1 };
    }
    saving->best.due = saving->best.due || (flags.best && saving->in_row == 0);
    t->run.due &= ~(UINT64_C(1) << set);
    report_evaluation(report, t, set, loss, t->valid.bits_per_byte);
    return OK;
}

/* The data sets that are due, one after the other, the test split last, until a signal comes. */
static Status evaluate(Trainer *t, Report *report, Saving *saving)
{
    for (int i = 0; i < DATA_SETS && !t->signal; i++) {
        int set = (SPLIT_TEST + 1 + i) % DATA_SETS;
        if (t->run.due >> set & 1) TRY(evaluate_set(t, report, saving, set));        /* same on every rank */
    }
    if (t->signal && t->run.due & ~(UINT64_C(1) << DUE_SAMPLES) && t->mesh.rank == 0)
        log_line("step %lld: the evaluation is stopped by a signal", (long long)t->run.step);
    return OK;
}

/* ---- the loop ---- */
/* INTERRUPTED, with the way to continue. The signal is recorded for the exit code, since another rank
 * may have received it. saving: of this run; loaded: --load has its checkpoint. */
static Status interrupted(const Trainer *t, const Saving *saving, bool loaded)
{
    const TrainConfig *config = t->config;
    long long   step  = t->run.step;
    bool trained = t->run.step > saving->first;
    const char *holds = trained || saving->saves > 0 ? config->save : loaded ? config->load : NULL;
    status_signal(t->signal);
    if (holds)
        return fail(INTERRUPTED, "stopped by a signal after step %lld; --load %s resumes from there",
                    step, holds);
    if (!trained)
        return fail(INTERRUPTED, "stopped by a signal before the first step; nothing was saved yet");
    return fail(INTERRUPTED,
                "stopped by a signal after step %lld; nothing was saved, since --save was not given", step);
}

/* Whether the run has waited for a lower validation loss as long as it may. */
static bool waited(const Trainer *t)
{
    return t->config->patience > 0 && t->run.evaluations.since >= t->config->patience;
}

static void report_waited(const Trainer *t, const char *then)
{
    if (t->mesh.rank == 0)
        log_line("step %lld: %lld evaluations in a row without a validation loss below %.4f, which is what "
                 "--early-stopping-patience %lld allows: %s", (long long)t->run.step,
                 (long long)t->run.evaluations.since, t->run.evaluations.lowest,
                 (long long)t->config->patience, then);
}

/* One step that is computed and reported. over: the run has lasted as long as it may. */
static Status do_step(Trainer *t, Report *report, Profile *profile, Saving *saving, bool *over)
{
    seam_point("step");
    profile_begin(profile, t);                                                   /* <-> world */
    t->run.valid_loss = 0;
    t->run.due = 0;
    StepReport done = trainer_step(t);                                           /* <-> all axes */
    profile_end(profile, t);
    RunFlags flags = trainer_step_flags(t);                                      /* <-> all axes */
    *over = flags.expired;
    if (!flags.failed) report_step(report, t, done);
    if (profile_write(profile, t)) report_pause(report, t, "profile");           /* <-> world */
    return check_step(t, report, done, flags, saving);                           /* same on every rank */
}

/* Whether --iterations-to-skip has the next step: its samples are consumed, and nothing is computed. */
static bool leave_out(Trainer *t)
{
    const TrainConfig *config = t->config;
    bool out = false;
    for (int i = 0; i < config->left_outs; i++) out |= config->left_out[i] == t->run.step + 1;
    if (!out) return false;
    trainer_leave_out(t);
    t->run.valid_loss = 0;
    t->run.due = 0;
    if (t->mesh.rank == 0)
        log_line("step %lld is left out, with its %lld samples", (long long)t->run.step,
                 (long long)t->run.batch);
    return true;
}

/* Text by the present weights, where it is due. Where a signal wants the run to end it stays due. */
static void make_samples(Trainer *t, Report *report)
{
    const Sampler *sampler = &t->config->sampler;
    if (!(t->run.due >> DUE_SAMPLES & 1) || t->signal) return;
    report->sampled_step = t->run.step;
    trainer_parameters(t, true);                                                 /* <-> shard */
    sampler->make(sampler, t, report_sample, report);                            /* <-> all axes */
    trainer_parameters(t, false);                                                /* <-> shard */
    t->work |= WORK_SAMPLES;
    t->run.due &= ~(UINT64_C(1) << DUE_SAMPLES);
    report_pause(report, t, "samples");
}

static Status save_step(Trainer *t, Report *report, Saving *saving)
{
    TRY(save(t, saving));
    report_pause(report, t, "save");
    return OK;
}

/* What a signal prevented after the step of the checkpoint. The step is saved again, as in a run that no
 * signal came to: its evaluation may make it the best one. */
static Status make_up(Trainer *t, Report *report, Saving *saving)
{
    t->run.due &= follows_step(t, saving);                 /* options may say otherwise than those before */
    uint64_t due = t->run.due;
    if (due == 0 || t->signal) return OK;
    if (t->mesh.rank == 0)
        log_line("step %lld: what a signal stopped after this step is done now", (long long)t->run.step);
    TRY(evaluate(t, report, saving));                                            /* same on every rank */
    make_samples(t, report);                                                     /* <-> all axes */
    report_commit(report);
    return t->config->save && t->run.due != due ? save_step(t, report, saving) : OK;
}

/* A signal is looked for once per step, in the message that also carries errors, so that all ranks stop
 * after the same step. The last step of a run is always saved; at an interval a skipped step is not. */
static Status steps(Trainer *t, Report *report, Profile *profile, bool loaded)
{
    const TrainConfig *config = t->config;
    Saving saving = { .first = t->run.step, .saved = t->run.step, .holds = loaded ? config->load : NULL,
                      .best = best_open(t) };
    trainer_join_flags(t, (RunFlags){ 0 });                                      /* <-> all axes */
    if (config->skip_train) t->run.due = follows_step(t, &saving);
    if (config->skip_train) return evaluate(t, report, &saving);                 /* same on every rank */
    TRY(make_up(t, report, &saving));                                            /* same on every rank */
    bool stop = t->signal != 0;
    if (t->run.step < t->run.steps && waited(t) && !stop) {
        report_waited(t, "the run has ended; a larger number continues it");
        return OK;
    }
    while (t->run.step < t->run.steps && !stop) {
        bool over = saving.back = false;
        if (!leave_out(t))
            TRY(do_step(t, report, profile, &saving, &over));         /* <-> all axes; same on every rank */
        if (over && t->mesh.rank == 0)
            log_line("step %lld: --exit-duration-in-mins %g are over: the run saves and ends",
                     (long long)t->run.step, config->exit_minutes);
        stop = t->signal || over;
        if (saving.back) continue;      /* what follows a step has followed this one, with these weights */
        t->run.due = follows_step(t, &saving);
        TRY(evaluate(t, report, &saving));                                       /* same on every rank */
        make_samples(t, report);                                                 /* <-> all axes */
        report_commit(report);
        stop = t->signal || over || at_interval(t->run.step, config->exit_interval) || waited(t);
        if (waited(t)) report_waited(t, "the run saves and ends");
        bool last = stop || t->run.step == t->run.steps;
        bool due = saving.best.due || (at_interval(t->run.step, config->save_interval) && saving.in_row == 0);
        if (config->save && (due || last)) TRY(save_step(t, report, &saving));   /* same on every rank */
    }
    if (!t->signal || (t->run.step >= t->run.steps && !t->run.due)) return OK;
    return interrupted(t, &saving, loaded);
}

/* ---- the run ---- */
static bool arenas_are_full(const Trainer *t, const size_t *bytes)
{
    for (int i = 0; i < ARENAS; i++)
        if (t->arena[i].peak != (bytes ? bytes[i] : t->arena[i].size)) return false;
    return true;
}

/* The arenas must have been filled to the byte that the dry run predicted; anything else is a fault of
 * the program in which users of --dry-run cannot trust its result. Collective, because memory differs
 * between ranks. A run that ended before its first evaluation, or before a root of Shampoo was renewed, has
 * not used the memory of these: it is compared with a dry run of what it did. */
static void compare_with_dry_run(Trainer *t)
{
    ArenaSizes done;
    bool off = !arenas_are_full(t, NULL);
    if (off && trainer_measure_done(&done, t) == OK) off = !arenas_are_full(t, done.bytes);
    if (trainer_join_flags(t, (RunFlags){ .memory = off }).memory && t->mesh.rank == 0) /* <-> all axes */
        log_line("a rank used more or less memory than its dry run predicted; please report this with the "
                 "options of the run");
}

/* Loads, locks --save, trains. Loading and locking are file I/O, for which the watchdog has other limits. */
static Status run(Trainer *t)
{
    Report report;
    Profile profile = { .file = -1 };
    char loaded[1024];
    int lock = -1;
    bool resumed;
    watchdog_work(t->comms.world, "loading");
    Status status = load(t, loaded, &resumed);
    watchdog_work(t->comms.world, "looking at --save");
    if (status == OK) status = claim(t, loaded, resumed, &lock);
    watchdog_work(t->comms.world, NULL);
    if (status == OK && t->mesh.rank == 0) report_start(t);
    if (status == OK) status = agree(t->comms.world, profile_open(&profile, t));
    if (status == OK) status = agree(t->comms.world, report_open(&report, t, resumed ? loaded : NULL));
    if (status == OK) {
        int64_t first = t->run.step;
        status = steps(t, &report, &profile, resumed);
        if (status == OK && t->run.step > first) compare_with_dry_run(t);
        if (status == OK) report_untrained(&report, t);
        status = report_close(&report, t, status);  /* rank 0 may fail alone: no collective follows */
    }
    profile_close(&profile, t);
    if (lock >= 0) close(lock);
    return status;
}

Status loop_run(const TrainConfig *config, Transport *transport, const volatile sig_atomic_t *stop)
{
    Trainer t;
    int64_t started = seam.clock();
    Status status = trainer_start(&t, config, transport);
    t.stop = stop;
    t.run.started = started;
    if (status == OK) status = run(&t);
    trainer_close(&t);
    return status;
}
