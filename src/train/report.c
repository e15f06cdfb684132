/* The progress line of a training run, and the records of its logs. */
#include "train/step.h"
#include "train/report.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/seam.h"
#include "optim/lr.h"
#include "train/journal/process_memory.h"
#include "train/hardware_flops.h"
#include "train/rank_peak.h"

Status report_open(Report *report, const Trainer *t, const char *resumed)
{
    const TrainConfig *config = t->config;
    bool prints = t->mesh.rank == 0;
    *report = (Report){ .config = config, .prints = prints, .first_step = t->run.step,
                        .first_sample = t->run.samples, .consumed = t->run.samples,
                        .ranks = t->mesh.world };
    if (t->run.step < t->run.steps) report->peak = run_peak(t);                               /* <-> world */
    for (int causal = 0; causal < 2; causal++)
        report->hardware[causal] = hardware_flops(config, causal);
    report->started_at = report->step_at = seam.clock();
    Status status = prints ? logs_open(&report->logs, &config->logs, t->run.step) : OK;
    if (prints && status == OK) run_journal_open(&report->journal, t, report->peak, resumed);
    return status;
}

/* printf writes a NaN whose sign bit is set as "-nan". */
static double unsigned_nan(double x) { return isnan(x) ? NAN : x; }

Status report_close(Report *report, const Trainer *t, Status status)
{
    log_progress_end();
    run_journal_close(&report->journal, t, status);
    return logs_close(&report->logs, status);
}

/* Seconds since *at, which becomes the present time. */
static double lap_seconds(int64_t *at)
{
    int64_t now = seam.clock();
    double seconds = (double)(now - *at) * 1e-9;
    *at = now;
    return seconds;
}

/* The share of the peak at so many tokens per second; NAN where the peak is not known. */
static double mfu(const Report *report, double speed, bool causal)
{
    double flops = speed * model_flops(&report->config->model, causal);
    return report->peak > 0 ? flops / report->peak : NAN;
}

/* The same with what is computed again. */
static double hfu(const Report *report, double speed, bool causal)
{
    return report->peak > 0 ? speed * report->hardware[causal] / report->peak : NAN;
}

/* The means over the steps of a progress line, in the record of its last step. */
static void put_means(const Report *report, LogRecord *record)
{
    double steps = (double)report->steps, seconds = report->seconds;
    double tokens = (double)(report->samples * report->config->model.sequence), speed = tokens / seconds;
    log_put(record, FACT_mean_of_steps, steps);
    log_put(record, FACT_mean_loss, report->averaged ? report->losses / (double)report->averaged : NAN);
    log_put(record, FACT_mean_speed, speed);
    log_put(record, FACT_memory, process_memory());
    log_put(record, FACT_iteration_time, seconds / steps);
    log_put(record, FACT_tflops, 1e-12 * speed * model_flops(&report->config->model, true) / report->ranks);
    log_put(record, FACT_sample_speed, speed / (double)report->config->model.sequence);
    log_put(record, FACT_rank_speed, speed / report->ranks);
}

/* ranks: what --history has of all ranks, behind the step. FLOP are counted twice: with full attention, as
 * Megatron-LM and PaLM do, and with causal attention, which computes half of the scores. The order is that
 * of the keys in a JSON line. */
static LogRecord record_step(Report *report, const Trainer *t, double seconds, StepReport r, bool progress,
                             const LogRecord *ranks)
{
    const ModelConfig *model = &report->config->model;
    double speed = (double)(r.samples * model->sequence) / seconds;
    LogRecord record = log_record(t->run.step, t->run.samples, NULL);
    log_put(&record, FACT_loss, r.loss);
    log_put(&record, FACT_lr, r.lr);
    if (report->config->lr.decoupled) log_put(&record, FACT_decoupled_lr, r.decoupled_lr);
    log_put(&record, FACT_grad_norm, r.norm);
    if (r.zeros >= 0) log_put(&record, FACT_zeros, r.zeros);
    if (report->config->params_norm) log_put(&record, FACT_params_norm, r.params_norm);
    log_put(&record, FACT_tokens, (double)trainer_tokens(t, t->run.samples));
    log_put(&record, FACT_seconds, seconds);
    log_put(&record, FACT_data_seconds, r.waited);
    log_put(&record, FACT_speed, speed);
    log_put(&record, FACT_flops_full, speed * model_flops(model, false));
    log_put(&record, FACT_flops_causal, speed * model_flops(model, true));
    log_put(&record, FACT_mfu_full, mfu(report, speed, false));
    log_put(&record, FACT_mfu_causal, mfu(report, speed, true));
    if (report->peak > 0) log_put(&record, FACT_hfu_full, hfu(report, speed, false));
    if (report->peak > 0) log_put(&record, FACT_hfu_causal, hfu(report, speed, true));
    if (progress) put_means(report, &record);
    if (r.skipped) log_put(&record, FACT_skipped, 1);
    if (r.loss_scale > 0) log_put(&record, FACT_loss_scale, r.loss_scale);
    if (model->experts > 0) {
        log_put(&record, FACT_expert_load, r.moe.load);
        log_put(&record, FACT_dropped_share, r.moe.dropped);
        log_put(&record, FACT_balance_loss, r.moe.balance);
        log_put(&record, FACT_z_loss, r.moe.z);
    }
    for (int64_t k = 0; k < model->mtp; k++) log_put(&record, (LogFact)(FACT_mtp_1 + k), r.mtp[k]);
    log_put(&record, FACT_samples, (double)t->run.samples);
    log_put(&record, FACT_batch, (double)r.samples);
    log_put(&record, FACT_any_scale, r.loss_scale > 0 ? r.loss_scale : 1);
    log_put(&record, FACT_world, report->ranks);
    for (int i = 1; i < ranks->count; i++) log_put(&record, ranks->value[i].fact, ranks->value[i].value);
    logs_add(&report->logs, &record);
    return record;
}

/* The progress line. The fields that people look for come first, because a narrow terminal truncates the
 * end. */
static void progress_step(Report *report, const Trainer *t, StepReport r)
{
    const TrainConfig *config = report->config;
    char   left[24], memory[24], share[64] = "", scale[80] = "", experts[48] = "";
    char   mtp[24 + 12 * MTP_MOST] = "";
    double speed   = (double)(report->samples * config->model.sequence) / report->seconds;
    double seconds = (double)(report->step_at - report->started_at) * 1e-9;
    double left_of_run = (double)(trainer_samples_at_end(t) - t->run.samples);
    double sample_seconds = seconds / (double)(t->run.samples - report->first_sample);
    double loss = report->averaged ? report->losses / (double)report->averaged : r.loss;
    if (report->peak > 0)
        snprintf(share, sizeof share, "  MFU %.1f %% (causal %.1f %%)", 100 * mfu(report, speed, false),
                 100 * mfu(report, speed, true));
    if (report->peak > 0 && report->hardware[0] > model_flops(&config->model, false))
        snprintf(share + strlen(share), sizeof share - strlen(share), "  HFU %.1f %%",
                 100 * hfu(report, speed, false));
    if (r.loss_scale > 0)
        snprintf(scale, sizeof scale, "  loss scale %g  %lld skipped", r.loss_scale,
                 (long long)(report->steps - report->averaged));
    if (config->model.experts > 0)
        snprintf(experts, sizeof experts, "  load %.2f  dropped %.1f %%", r.moe.load, 100 * r.moe.dropped);
    for (int64_t k = 0; k < config->model.mtp; k++)
        snprintf(mtp + strlen(mtp), sizeof mtp - strlen(mtp), "%s%.4f", k == 0 ? "  mtp " : " ", r.mtp[k]);
    log_progress("step %lld/%lld  %s left  loss %.4f%s  %.0f tokens/s  lr %.2e  grad %.3f%s%s  %lld samples  "
                 "data %.1f ms  %.1f GFLOP/s%s  %s", (long long)t->run.step, (long long)t->run.steps,
                 log_time(left, sample_seconds * left_of_run), unsigned_nan(loss), mtp, speed, r.lr,
                 unsigned_nan(r.norm), scale, experts, (long long)t->run.samples, 1e3 * r.waited,
                 1e-9 * speed * model_flops(&config->model, false), share,
                 log_bytes(memory, process_memory()));
}

/* text: compat/log_names.c says what it is. */
static void write_line(LogLine kind, const LogRecord *record, const char *text)
{
    char line[1300];
    int bytes = log_other_line(line, sizeof line - 1, kind, record, text);
    line[bytes++] = '\n';
    log_write(line, (size_t)bytes);
}

/* record: of the step, at a progress line */
static void step_in_full(const Report *report, const Trainer *t, LogRecord record)
{
    const TrainConfig *config = report->config;
    double tokens = (double)(report->samples * config->model.sequence);
    double flops  = tokens / report->seconds * model_flops(&config->model, true) / report->ranks;
    log_put(&record, FACT_steps, (double)t->run.steps);
    log_put(&record, FACT_iteration_ms, 1e3 * (report->seconds / (double)report->steps));
    if (config->log_throughput) log_put(&record, FACT_rank_tflops, 1e-12 * flops);
    for (int k = 0; report->averaged && k < config->model.mtp; k++)
        log_put(&record, (LogFact)(FACT_mean_mtp_1 + k), report->mtp[k] / (double)report->averaged);
    log_put(&record, FACT_skipped_steps, (double)(report->steps - report->averaged));
    log_put(&record, FACT_nan_steps, (double)report->not_finite);
    write_line(LINE_megatron, &record, "");
}

static bool epoch_lines(const Report *report)
{
    return report->config->lines == LINES_EPOCHS || report->config->lines == LINES_EPOCHS_JSON;
}

/* Epochs as fairseq counts them: of whole steps, as many as have an epoch's samples. */
typedef struct { int64_t number, first, steps; } EpochPlace;      /* first: steps before it */

/* The epoch of a step, counted from 1. A batch that rises makes epochs of fewer steps. */
static EpochPlace epoch_of(BatchSchedule batch, int64_t samples, int64_t step)
{
    EpochPlace e = { .number = 1 };
    for (int64_t from = 0;; e.number++) {
        e.steps = batch_schedule_steps(batch, from, from + samples);
        e.steps += batch_schedule_after(batch, from, e.steps) < from + samples;
        int64_t left = step - 1 - e.first;
        bool    constant = from >= batch.step[batch.steps - 1].from;
        if (constant) e.number += left / e.steps, e.first += left / e.steps * e.steps;
        if (constant || left < e.steps) return e;
        from = batch_schedule_after(batch, from, e.steps);
        e.first += e.steps;
    }
}

/* A blend has one epoch. */
static EpochPlace epoch_place(const Trainer *t)
{
    const Loader *loader = &t->input.loader[SPLIT_TRAIN];
    int64_t samples = loader->blend ? 0 : loader->samples, step = t->run.step > 0 ? t->run.step : 1;
    return samples > 0 ? epoch_of(trainer_batches(t), samples, step) : (EpochPlace){ 1, 0, t->run.steps };
}

/* What all lines have. loss: in nats */
static LogRecord epoch_record(const Trainer *t, EpochPlace epoch, double loss)
{
    double at = (double)((t->run.step > 0 ? t->run.step : 1) - epoch.first), size = (double)epoch.steps;
    double done = (double)(epoch.number - 1) + at / size, bits = loss / M_LN2;
    LogRecord record = log_record(t->run.step, t->run.samples, NULL);
    log_put(&record, FACT_epoch, (double)epoch.number);
    log_put(&record, FACT_epoch_step, at);
    log_put(&record, FACT_epoch_steps, size);
    log_put(&record, FACT_epochs, nearbyint(done * 1000) / 1000);
    log_put(&record, FACT_updates, (double)t->step_state.updates);
    log_put(&record, FACT_loss_bits, bits);
    log_put(&record, FACT_perplexity, exp2(bits));
    return record;
}

/* The line of the steps in *sums, which begin again. The norm is a mean, and NaN where every step was
 * skipped. As in fairseq, the learning rate and the loss scale are those that the next update will have. */
static void epoch_line(const Report *report, const Trainer *t, EpochSums *sums, bool ends)
{
    const TrainConfig *config = report->config;
    bool   json = config->lines == LINES_EPOCHS_JSON;
    double steps = (double)sums->steps, seconds = sums->seconds > 0 ? sums->seconds : 1e-9;
    double each = sums->steps > 0 ? steps : 1;
    LogRecord record = epoch_record(t, epoch_place(t), sums->losses / sums->tokens);
    log_put(&record, FACT_mean_speed, sums->tokens / seconds);
    log_put(&record, FACT_update_speed, steps / seconds);
    log_put(&record, FACT_step_tokens, sums->tokens / each);
    log_put(&record, FACT_step_samples, (double)sums->samples / each);
    log_put(&record, FACT_lr, lr_at(&config->lr, t->run.updated_samples));
    log_put(&record, FACT_grad_norm, sums->norms / steps);
    if (config->clip > 0) log_put(&record, FACT_clipped_percent, 100 * (double)sums->clipped / steps);
    if (t->step_state.loss.scale > 0) log_put(&record, FACT_loss_scale, t->step_state.loss.scale);
    log_put(&record, FACT_seconds, sums->seconds);
    log_put(&record, FACT_run_seconds, seam_seconds_since(report->started_at));
    if (ends) write_line(json ? LINE_epoch_end_json : LINE_epoch_end, &record, "train");
    else      write_line(json ? LINE_epoch_step_json : LINE_epoch_step, &record, "");
    *sums = (EpochSums){ 0 };
}

/* Lines within an epoch are at multiples of the interval alone, in updates; the epoch's own line ends it, and
 * the run. */
static void epoch_step(Report *report, const Trainer *t, StepReport r)
{
    EpochPlace epoch = epoch_place(t);
    if (!r.skipped && t->step_state.updates % report->config->log_interval == 0)
        epoch_line(report, t, &report->line, false);
    if (t->run.step - epoch.first == epoch.steps || t->run.step == t->run.steps)
        epoch_line(report, t, &report->epoch, true);
}

static void epoch_add(EpochSums *sums, StepReport r, double clip, double seconds)
{
    sums->seconds += seconds;
    if (r.skipped) return;
    sums->losses  += r.loss * r.tokens;
    sums->tokens  += r.tokens;
    sums->norms   += r.norm;
    sums->clipped += clip > 0 && r.norm > clip;
    sums->samples += r.samples;
    sums->steps++;
}

/* An overflow in fairseq's words. scale: that of the next step */
static void epoch_overflow(double scale)
{
    char text[200];
    LogRecord record = log_record(0, 0, NULL);
    snprintf(text, sizeof text,
             "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: %.15g%s", scale,
             scale == floor(scale) ? ".0" : "");
    write_line(LINE_overflow_message, &record, text);
}

void report_step(Report *report, Trainer *t, StepReport r)
{
    int64_t step = t->run.step;
    double seconds = lap_seconds(&report->step_at);
    bool   progress = step % report->config->log_interval == 0 || step == t->run.steps ||
                      step == report->first_step + 1;
    LogRecord ranks = log_record(t->run.step, t->run.samples, NULL);
    RankNumbers mine = { r.own_loss, seconds, r.waited,
                         report->config->logs.history ? process_memory() : 0 };
    rank_numbers_put(&ranks, t, mine);                                           /* <-> tp, dp+cp, pp */
    if (!report->prints) return;
    report->steps++;
    report->samples += r.samples;
    report->seconds += seconds;
    epoch_add(&report->line, r, report->config->clip, seconds);
    epoch_add(&report->epoch, r, report->config->clip, seconds);
    if (r.estimate.left_out) {
        log_progress_end();
        log_line("step %lld: the loss %g of an estimate of the Hessian, or its gradient norm %g, is %s; the "
                 "estimate is left out", (long long)step, unsigned_nan(r.estimate.loss),
                 unsigned_nan(r.estimate.norm), r.estimate.spike ? "a spike" : "not finite");
    }
    if (!r.skipped) {                                 /* a loss that is not finite would spoil the mean */
        report->losses += r.loss;
        for (int k = 0; k < MTP_MOST; k++) report->mtp[k] += r.mtp[k];
        report->averaged++;
    } else {
        report->skipped++;
        report->not_finite += !r.overflow && !r.spike;
        log_progress_end();
        if (r.spike)
            log_line("step %lld: loss %g is a spike, the running mean is %.4f; the step is skipped and the "
                     "weights are unchanged", (long long)step, r.loss, r.mean);
        else if (r.overflow && epoch_lines(report))
            epoch_overflow(t->step_state.loss.scale);
        else if (r.overflow)
            log_line("step %lld: gradients overflow at loss scale %g; the step is skipped and the weights "
                     "are unchanged", (long long)step, r.loss_scale);
        else
            log_line("step %lld: loss %g, gradient norm %g: not finite; the step is skipped and the weights "
                     "are unchanged", (long long)step, unsigned_nan(r.loss), unsigned_nan(r.norm));
    }
    LogRecord record = record_step(report, t, seconds, r, progress, &ranks);
    run_journal_step(&report->journal, t, r, seconds);
    report->consumed = t->run.samples;
    if (epoch_lines(report)) {
        epoch_step(report, t, r);
        progress = step % report->config->log_interval == 0;
    }
    if (!progress) return;
    if (report->config->lines == LINES_MEGATRON) step_in_full(report, t, record);
    else if (!epoch_lines(report))               progress_step(report, t, r);
    report->losses   = report->seconds = 0;
    report->averaged = report->steps   = report->samples = report->not_finite = 0;
    memset(report->mtp, 0, sizeof report->mtp);
}

/* The logs remove what they have of later steps, as at a resume. */
void report_rewind(Report *report, const Trainer *t, int64_t from)
{
    int64_t to = t->run.step;
    run_journal_rewind(&report->journal, t, from, lap_seconds(&report->step_at));
    report->losses   = report->seconds = 0;
    report->averaged = report->steps   = report->samples = report->not_finite = 0;
    memset(report->mtp, 0, sizeof report->mtp);
    report->line = (EpochSums){ 0 };
    if (!report->prints) return;
    log_line("step %lld: back to the checkpoint of step %lld; the samples taken since are left out",
             (long long)from, (long long)to);
    Status status = logs_close(&report->logs, OK);
    if (status == OK) status = logs_open(&report->logs, &report->config->logs, to);
    if (status == OK) return;
    log_line("%s; training continues without logs", fail_text());
    report->logs = (Logs){ 0 };
}

/* A run that trained nothing must not look like one that did. */
void report_untrained(const Report *report, const Trainer *t)
{
    double scale = t->step_state.loss.scale, lower = scale < 65536 ? scale : 65536;
    long long steps = t->run.step - report->first_step;
    const char *were = steps == 1 ? " was" : "s were";
    if (!report->prints || steps == 0 || report->skipped < steps) return;
    log_progress_end();
    if (t->config->scaling.dynamic)
        log_line("warning: the weights are untrained by this run: all its %lld step%s skipped, and the "
                 "loss scale is now %g; give more steps, or begin with --initial-loss-scale %g", steps, were,
                 scale, lower);
    else if (scale > 0)
        log_line("warning: the weights are untrained by this run: all its %lld step%s skipped; give a "
                 "--loss-scale below %g, or none, so that it is dynamic", steps, were, scale);
    else
        log_line("warning: the weights are untrained by this run: all its %lld step%s skipped, since no "
                 "loss and gradient norm was finite; give a smaller --init-method-std, or an earlier "
                 "checkpoint as --load", steps, were);
}

void report_commit(Report *report) { logs_commit(&report->logs); }

void report_pause(Report *report, const Trainer *t, const char *what)
{
    run_journal_pause(&report->journal, t, what, lap_seconds(&report->step_at));
}

/* Between lines of dashes as long as the line. Its perplexity has a limit. */
static void evaluation_between_dashes(int64_t step, const char *split, double loss)
{
    char line[400], dashes[sizeof line], all[1300];
    LogRecord record = log_record(step, 0, split);
    log_put(&record, FACT_evaluation_loss, loss);
    log_put(&record, FACT_perplexity, exp(fmin(20, loss)));
    int n = log_other_line(line, sizeof line, LINE_megatron_evaluation, &record, split);
    memset(dashes, '-', (size_t)n);
    dashes[n] = 0;
    n = snprintf(all, sizeof all, "%s\n%s\n%s\n", dashes, line, dashes);
    log_write(all, (size_t)n);
}

/* Texts are as long as they are, and may have newlines: they are printed in quotes as JSON has them. */
void report_sample(void *context, int64_t number, const char *prompt, const char *text)
{
    Report *report = context;
    LogSample sample = log_sample(report->sampled_step, number, prompt, text);
    char *from = log_quoted(prompt), *made = log_quoted(text);
    size_t room = strlen(from) + strlen(made) + 100;
    char *line = malloc(room);
    CHECK(line, "no memory for a text of %zu bytes", room);
    int n = snprintf(line, room, "jotun: step %lld: sample %lld of %s: %s\n",
                     (long long)report->sampled_step, (long long)number, from, made);
    log_progress_end();
    log_write(line, (size_t)n);
    logs_add_sample(&report->logs, &sample);
    run_journal_sample(&report->journal, &sample);
    free(line);
    free(from);
    free(made);
}

void report_evaluation(Report *report, const Trainer *t, int set, double loss, double bits)
{
    int64_t step = t->run.step;
    char per_byte[48] = "";
    char number[16], of[80] = "";
    const char *name = train_config_set_name(number, report->config, set);
    const char *split = set_split(set) == SPLIT_VALID ? "validation" : split_name(set_split(set));
    double seconds = lap_seconds(&report->step_at);
    if (!report->prints) return;
    LogRecord record = log_record(step, report->consumed, *name ? name : split_name(set_split(set)));
    run_journal_evaluation(&report->journal, t, record.split, loss, bits, seconds);
    log_put(&record, FACT_evaluation_loss, loss);
    log_put(&record, FACT_perplexity, exp(loss));
    if (bits > 0) log_put(&record, FACT_bits_per_byte, bits);
    if (bits > 0) snprintf(per_byte, sizeof per_byte, ", %.4f bits per byte", unsigned_nan(bits));
    logs_add(&report->logs, &record);
    log_progress_end();
    if (report->config->lines == LINES_MEGATRON) {
        evaluation_between_dashes(step, *name ? name : split, loss);
        return;
    }
    if (epoch_lines(report)) {
        LogRecord line = epoch_record(t, epoch_place(t), loss);
        if (t->run.evaluations.lowest > 0) log_put(&line, FACT_lowest_bits,
                                                   t->run.evaluations.lowest / M_LN2);
        write_line(report->config->lines == LINES_EPOCHS_JSON ? LINE_epoch_end_json : LINE_epoch_evaluation,
                   &line, record.split);
        return;
    }
    if (*name) snprintf(of, sizeof of, " of %s", name);
    log_line("step %lld: %s loss%s %.4f, perplexity %.3f%s", (long long)step, split, of, unsigned_nan(loss),
             unsigned_nan(exp(loss)), per_byte);
}
