/* What a run says about itself when it starts: its layout, the arithmetic of a step and of the whole run, and
 * what of its options it may not mean. */
#include "train/report.h"
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "store/checkpoint_dir.h"
#include "train/journal/data_shares.h"

/* Samples of an epoch of the validation data; 0 where several data sets are blended. */
static int64_t validation_samples(const Trainer *t)
{
    const Loader *loader = &t->input.loader[SPLIT_VALID];
    if (!loader->blend) return loader->samples;
    return loader->blend->plain ? (loader->blend->order->plan.tokens - 1) / loader->config.sequence : 0;
}

static void log_repeated_samples(const Trainer *t)
{
    const TrainConfig *config = t->config;
    if (!train_config_takes(config, SPLIT_VALID) || config->full_validation) return;
    int64_t have = validation_samples(t), global = train_config_valid_global(config);
    int64_t reads = config->eval_iters * global;
    int64_t enough = (have + global - 1) / global;              /* the last batch may repeat some of them */
    if (have > 0 && enough < config->eval_iters)
        log_line("--eval-iters %lld: an evaluation reads %lld samples and the validation data has %lld, so "
                 "that samples repeat; --eval-iters %lld reads all of it", (long long)config->eval_iters,
                 (long long)reads, (long long)have, (long long)enough);
}

/* Epochs of the training data that the whole run reads; of several data sets those of the one that is read
 * most often, whose name is then in `of`. */
static double epochs_of_run(const Trainer *t, const char **of)
{
    double most = 0;
    *of = NULL;
    for (int i = 0; i < data_shares(t); i++) {
        DataShare d = data_share(t, i);
        if (d.epochs <= most) continue;
        most = d.epochs;
        if (data_shares(t) > 1) *of = d.name;
    }
    return most;
}

static void log_later_checkpoints(const Trainer *t)
{
    char steps[400];
    if (!t->config->save || t->run.step >= t->run.steps) return;
    if (checkpoint_dir_steps(steps, sizeof steps, t->config->save, t->run.step) != OK || !*steps) return;
    log_line("--save %s holds later checkpoints, of the steps %s: before the first save they are renamed to "
             "abandoned_step_N, which --load %s and --keep-last leave alone", t->config->save, steps,
             t->config->save);
}

/* A number in BF16 has 8 bits: a change of less than half the last one is rounded away. */
static void log_second_moment(const Trainer *t)
{
    const OptimizerSettings *s = &t->config->settings;
    if (t->precision.state[STATE_SQUARE] != BF16 || s->stochastic || 1 - s->beta2 >= 0x1p-8) return;
    log_line("--exp-avg-sq-dtype bf16 without --stochastic-rounding, --adam-beta2 %g: 1 - %g is less than "
             "2^-8, so that second moments rounded to the nearest grow and hardly decrease; "
             "--stochastic-rounding keeps their mean right, --adam-beta2 0.996 or less within 5 %%",
             s->beta2, s->beta2);
}

/* A run may be longer than its schedule, most likely one that takes its checkpoint's. Where the rate ends at
 * 0 the steps behind the decay change nothing. */
static void log_decayed(const Trainer *t)
{
    const LrSchedule *lr = &t->config->lr;
    BatchSchedule batch = trainer_batches(t);
    int64_t unit = lr->by_steps ? (int64_t)lr->step : batch.step[batch.steps - 1].size;
    int64_t end = lr->by_steps ? t->run.steps * unit : trainer_samples_at_end(t), last = end - unit;
    bool decays = lr->style != LR_CONSTANT && lr->count == LR_SAMPLES && lr->peak > 0;
    if (t->run.step >= t->run.steps || !decays || last < lr->decay) return;
    if (lr_at(lr, last) > 0 || lr_decoupled_at(lr, last) > 0) return;
    const char *name = lr->by_steps ? "step" : "sample";
    if (!lr->by_steps) unit = 1;
    log_line("the learning rate is 0 from %s %lld on, where its decay ends, and the run ends after "
             "%s %lld: the steps behind the decay change nothing; give a longer --lr-decay-iters or "
             "--lr-decay-samples, or a --min-lr%s", name,
             (long long)(lr->decay / unit), name, (long long)(end / unit), t->run.step == 0 ? "" :
             ", by --override-opt-param-scheduler in the place of --use-checkpoint-opt-param-scheduler");
}

/* A schedule-free optimizer averages weights instead of decaying the learning rate. */
static void log_average(const Trainer *t)
{
    if (!optimizer_averages(t->config->optimizer) || t->config->lr.style == LR_CONSTANT) return;
    log_line("--optimizer %s averages weights in place of a decay of the learning rate; give "
             "--lr-decay-style constant, unless both are wanted", t->config->optimizer->name);
}

/* Of so many samples, on each data-parallel rank */
static int64_t micros(const Trainer *t, int64_t samples)
{
    return samples / (t->config->micro * t->mesh.size.dp);
}

/* What a step is made of: "a step has 512 samples = --micro-batch-size 4 x 16 data-parallel ranks (64 ranks /
 * (tp 2 x pp 2)) x 8 micro-batches (gradient accumulation), 524288 tokens". */
static void log_step(const Trainer *t)
{
    const TrainConfig *config = t->config;
    BatchSchedule batch = trainer_batches(t);
    int64_t first = batch_schedule_at(batch, t->run.samples), last = batch.step[batch.steps - 1].size;
    int dp = t->mesh.size.dp;
    char range[2][64] = { "", "" }, of[96] = "", cp[24] = "";
    MeshSize m = t->mesh.size;
    if (m.cp > 1) snprintf(cp, sizeof cp, " x cp %d", m.cp);
    if (m.tp * m.pp * m.cp > 1)
        snprintf(of, sizeof of, " (%d ranks / (tp %d x pp %d%s))", m.tp * m.pp * m.cp * m.dp, m.tp, m.pp, cp);
    if (first != last) {
        snprintf(range[0], sizeof range[0], "%lld, later ", (long long)first);
        snprintf(range[1], sizeof range[1], "%lld, later ", (long long)micros(t, first));
    }
    log_line("a step has %s%lld samples = --micro-batch-size %lld x %d data-parallel rank%s%s x %s%lld "
             "micro-batch%s%s; %lld tokens", range[0], (long long)last, (long long)config->micro, dp,
             dp == 1 ? "" : "s", of, range[1], (long long)micros(t, last), micros(t, last) == 1 ? "" : "es",
             micros(t, last) == 1 ? "" : " (gradient accumulation)",
             (long long)(last * config->model.sequence));
}

/* The same of a batch of an evaluation, where it has sizes of its own or reads all there is: "an evaluation
 * has 10 batches of 64 samples = --eval-micro-batch-size 8 x 4 data-parallel ranks x 2 micro-batches". */
static void log_evaluation(const Trainer *t)
{
    const TrainConfig *config = t->config;
    int64_t micro = train_config_valid_micro(config), global = train_config_valid_global(config);
    int64_t each = global / (micro * t->mesh.size.dp);
    char batches[64] = "reads all samples in batches";
    bool own = config->valid_micro > 0 || config->valid_global > 0, whole = config->full_validation;
    if (config->eval_iters == 0 || !train_config_takes(config, SPLIT_VALID) || !(own || whole)) return;
    int64_t all = whole ? validation_samples(t) : 0;
    if (all > 0) snprintf(batches, sizeof batches, "reads all %lld samples in batches", (long long)all);
    if (!whole)
        snprintf(batches, sizeof batches, "has %lld batch%s", (long long)config->eval_iters,
                 config->eval_iters == 1 ? "" : "es");
    log_line("an evaluation %s of %lld samples = %s %lld x %d data-parallel rank%s x %lld micro-batch%s",
             batches, (long long)global,
             config->valid_micro ? "--eval-micro-batch-size" : "--micro-batch-size", (long long)micro,
             t->mesh.size.dp, t->mesh.size.dp == 1 ? "" : "s", (long long)each, each == 1 ? "" : "es");
}

/* The run as a whole, and what is left of it after a resume. A blend's orders have some samples beyond those
 * that the run reads (--surplus), which are no epoch. */
static void log_run(const Trainer *t)
{
    int64_t samples = trainer_samples_at_end(t);
    char left[80] = "";
    const char *of;
    double epochs = epochs_of_run(t, &of);
    if (t->run.step > t->run.steps) return;  /* a longer run was saved: a line says that it ends */
    if (t->run.step > 0 && t->run.step < t->run.steps)
        snprintf(left, sizeof left, "; %lld step%s and %lld samples are left",
                 (long long)(t->run.steps - t->run.step), t->run.steps - t->run.step == 1 ? "" : "s",
                 (long long)(samples - t->run.samples));
    log_line("the run has %lld step%s: %lld samples, %lld tokens, %.3g epochs of %s%s%s",
             (long long)t->run.steps,
             t->run.steps == 1 ? "" : "s", (long long)samples, (long long)trainer_tokens(t, samples), epochs,
             of ? of : "its training data", epochs > (of ? 1.05 : 1) ? ", so that samples repeat" : "", left);
}

/* "tp 2 with --sp, cp 2 by a2a, dp 1, pp 2 by 1f1b"; how is said of more than one rank alone. */
static const char *layout_text(char out[160], const Trainer *t)
{
    const TrainConfig *config = t->config;
    MeshSize m = t->mesh.size;
    char cp[40] = "", pp[60] = "";
    const char *keys = config->gather ? "allgather" : config->ulysses <= 1 ? "p2p" :
                       config->ulysses == m.cp ? "a2a" : "a2a+p2p";
    if (m.cp > 1) snprintf(cp, sizeof cp, " by %s", keys);
    if (m.pp > 1) snprintf(pp, sizeof pp, " by %s", schedule_name(config->schedule));
    if (m.pp > 1 && config->chunks > 1) snprintf(pp + strlen(pp), 24, " of %d chunks", config->chunks);
    snprintf(out, 160, "tp %d%s, cp %d%s, dp %d, pp %d%s", m.tp,
             m.tp > 1 && config->sequence_parallel ? " with --sp" : "", m.cp, cp, m.dp, m.pp, pp);
    return out;
}

void report_start(const Trainer *t)
{
    MeshSize m = t->mesh.size;
    double bytes = 0;
    char text[24], groups[40] = "", layout[160];
    bool cpu = t->queue.backend == &cpu_backend;
    if (t->config->hybrid_shard > 0)
        snprintf(groups, sizeof groups, " in groups of %d ranks", t->config->hybrid_shard);
    for (int i = 0; i < ARENAS; i++) bytes += (double)t->arena[i].size;
    char experts[120] = "";
    const ModelConfig *model = &t->config->model;
    if (model->experts > 0)
        snprintf(experts, sizeof experts, " (%lld of a token), %lld experts: etp %d, ep %d, edp %d",
                 (long long)model_active_parameters(model), (long long)model->experts, m.etp, m.ep, m.edp);
    log_line("%lld parameters%s; %d rank%s: %s, ZeRO %d%s; %s on rank 0; "
             "device %s, %s, %s, %s%s%d thread%s per rank",
             (long long)model_parameters(model), experts, t->mesh.world, t->mesh.world == 1 ? "" : "s",
             layout_text(layout, t), t->config->zero, groups, log_bytes(text, bytes), t->config->device,
             train_config_type(t->config), t->config->optimizer->name,
             cpu ? kernel_family_name(t->queue.kernels) : "",
             cpu ? " kernels, " : "", t->config->threads, t->config->threads == 1 ? "" : "s");
    if (t->config->verbose)
        log_line("%s of this process lie in huge pages, which are asked for its arenas; the system gives "
                 "them as /sys/kernel/mm/transparent_hugepage/enabled says",
                 log_bytes(text, arena_huge_bytes()));
    if (t->config->changed)
        log_line("resumes with other options than the checkpoint's: %s; the results differ from those of an "
                 "unchanged run", t->config->changed);
    log_step(t);
    log_evaluation(t);
    log_run(t);
    log_decayed(t);
    log_second_moment(t);
    log_average(t);
    log_repeated_samples(t);
    log_later_checkpoints(t);
    if (!t->config->save) log_line("--save was not given: the model will not be saved");
    if (t->run.step >= t->run.steps && t->config->samples > 0)
        log_line("--train-samples %lld: the checkpoint is after sample %lld, so no whole step is left to "
                 "train; more samples continue", (long long)t->config->samples, (long long)t->run.samples);
    else if (t->run.step >= t->run.steps)
        log_line("--train-iters %lld: the checkpoint is after step %lld, so nothing is left to train; a "
                 "larger --train-iters continues", (long long)t->run.steps, (long long)t->run.step);
}
