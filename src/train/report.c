/* The progress line and the JSON lines of a training run. Errors of --metrics do not stop the training,
 * which costs more than its log; they are reported once when they happen, and by the exit code. */
#include "train/report.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "train/megatron_line.h"
#include "train/rank_peak.h"

/* Ends a line that an earlier run left incomplete (killed, or a full disk), so that the first line of
 * this run is valid JSON. */
static void end_half_line(int fd, const char *path)
{
    struct stat about;
    char last = '\n';
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0) return;
    int read_only = open(path, O_RDONLY | O_CLOEXEC);
    bool known = read_only >= 0 && pread(read_only, &last, 1, about.st_size - 1) == 1;
    if (known && last != '\n' && write(fd, "\n", 1) != 1)
        log_line("--metrics %s: its last line is incomplete and cannot be ended: %s", path, strerror(errno));
    if (read_only >= 0) close(read_only);
}

/* ---- the peak ---- */

/* FLOP/s of the cores of all ranks: those on other hosts count as this one's. */
static double peak_of_run(const Trainer *t)
{
    char how[120] = "by jotun bench peak";
    RankPeak r = rank_peak(t, false);
    if (!r.kept)
        snprintf(how, sizeof how, "measured in %d ms; jotun bench peak measures longer and keeps the result",
                 RANK_PEAK_MS);
    if (r.flops > 0)
        log_line("MFU is a share of %.1f GFLOP/s, the %s peak of %d thread%s on this machine, %s",
                 1e-9 * r.flops, r.type == BF16 ? "bf16" : "fp32", r.threads, r.threads == 1 ? "" : "s", how);
    return r.flops / r.ranks * t->mesh.world;
}

Status report_open(Report *report, const Trainer *t)
{
    const TrainConfig *config = t->config;
    bool prints = t->mesh.rank == 0;
    *report = (Report){ .config = config, .ranks = t->mesh.world, .metrics = -1, .prints = prints,
                         .first_step = t->step, .first_sample = t->samples };
    if (prints && t->step < t->steps) report->peak = peak_of_run(t);
    report->started_at = report->step_at = seam.clock();
    if (!prints || !config->metrics) return OK;
    report->metrics = open(config->metrics, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (report->metrics < 0)
        return fail(BAD_FILE, "--metrics %s cannot be opened: %s", config->metrics, strerror(errno));
    end_half_line(report->metrics, config->metrics);
    return OK;
}

/* printf writes a NaN whose sign bit is set as "-nan". */
static double unsigned_nan(double x) { return isnan(x) ? NAN : x; }

/* Counts a lost line and reports the first one only: a full disk stays full for the rest of the run. */
static void metrics_lost(Report *report, int why)
{
    if (report->lost++ > 0) return;
    report->write_errno = why;
    log_line("--metrics %s: lines are lost from here on: %s; training continues", report->config->metrics,
             strerror(why));
}

Status report_close(Report *report, Status status)
{
    const char *path = report->config->metrics;
    log_progress_end();
    if (report->metrics >= 0 && close(report->metrics) != 0) metrics_lost(report, errno);
    if (report->lost == 0 || status != OK) return status;
    const char *save = report->config->save;
    return fail(IO_FAILED, "--metrics %s lacks %lld lines of this run: %s; the training itself is done%s%s",
                path, (long long)report->lost, strerror(report->write_errno), save ? " and saved in " : "",
                save ? save : "");
}

/* One write() for each line, so that a killed run leaves only complete lines. Where a full disk takes a
 * part of the line, that part is removed again by ftruncate. O_APPEND makes the file position
 * irrelevant. */
static void metrics_line(Report *report, const char *text, int length)
{
    int written = 0;
    ssize_t n = 1;
    if (report->metrics < 0) return;
    while (written < length && (n > 0 || (n < 0 && errno == EINTR))) {
        n = write(report->metrics, text + written, (size_t)(length - written));
        if (n > 0) written += (int)n;
    }
    if (written == length) return;
    int why = n < 0 ? errno : ENOSPC;
    struct stat about;
    if (written > 0 && fstat(report->metrics, &about) == 0 && S_ISREG(about.st_mode) &&
        ftruncate(report->metrics, about.st_size - written) != 0)
        log_line("--metrics %s ends with an incomplete line, which cannot be removed: %s",
                 report->config->metrics, strerror(errno));
    metrics_lost(report, why);
}

/* JSON has no NaN and no infinity: they are written as null. 17 digits restore the same double. */
static const char *json_number(char out[32], double x)
{
    snprintf(out, 32, isfinite(x) ? "%.17g" : "null", x);
    return out;
}

/* Seconds since *at, which becomes the present time. */
static double seconds_since(int64_t *at)
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

/* Resident memory of this process in bytes; 0 where the system does not tell. */
static double memory_in_use(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* The means over the steps of a progress line, in the JSON line of its last step. */
static void metrics_means(const Report *report, char out[160], bool progress)
{
    char loss[32];
    double tokens = (double)(report->samples * report->config->model.sequence);
    out[0] = 0;
    if (progress)
        snprintf(out, 160, ",\"mean_of_steps\":%lld,\"mean_loss\":%s,\"mean_tokens_per_second\":%.1f,"
                 "\"memory_bytes\":%.0f", (long long)report->steps,
                 json_number(loss, report->averaged ? report->losses / (double)report->averaged : NAN),
                 tokens / report->seconds, memory_in_use());
}

static void metrics_experts(char out[200], MoeReport r)
{
    char load[32], balance[32], z[32];
    snprintf(out, 200, ",\"expert_load_max_over_mean\":%s,\"dropped_share\":%.6g,\"load_balancing_loss\":%s,"
             "\"z_loss\":%s", json_number(load, r.load), r.dropped, json_number(balance, r.balance),
             json_number(z, r.z));
}

/* FLOP are counted twice: with full attention, as Megatron-LM and PaLM do, and with causal attention, which
 * computes half of the scores. */
static void metrics_step(Report *report, const Trainer *t, double seconds, StepReport r, bool progress)
{
    const ModelConfig *model = &report->config->model;
    double speed = (double)(r.samples * model->sequence) / seconds;
    char line[1000], loss[32], norm[32], full[32], causal[32], means[160], scale[48] = "";
    char experts[200] = "";
    metrics_means(report, means, progress);
    if (model->experts > 0) metrics_experts(experts, r.moe);
    if (r.loss_scale > 0) snprintf(scale, sizeof scale, ",\"loss_scale\":%.17g", r.loss_scale);
    int n = snprintf(line, sizeof line,
        "{\"step\":%lld,\"loss\":%s,\"lr\":%.17g,\"grad_norm\":%s,\"tokens\":%lld,\"seconds\":%.6f,"
        "\"data_seconds\":%.6f,\"tokens_per_second\":%.1f,\"model_flops_per_second_full\":%.6g,"
        "\"model_flops_per_second_causal\":%.6g,\"mfu_full\":%s,\"mfu_causal\":%s%s%s%s%s}\n",
        (long long)t->step, json_number(loss, r.loss), r.lr, json_number(norm, r.norm),
        (long long)(t->samples * model->sequence), seconds, r.waited, speed,
        speed * model_flops(model, false), speed * model_flops(model, true),
        json_number(full, mfu(report, speed, false)), json_number(causal, mfu(report, speed, true)), means,
        r.skipped ? ",\"skipped\":true" : "", scale, experts);
    metrics_line(report, line, n);
}

/* The progress line. The fields that people look for come first, because a narrow terminal truncates the
 * end. */
static void progress_step(Report *report, const Trainer *t, StepReport r)
{
    const TrainConfig *config = report->config;
    char   left[24], memory[24], share[64] = "", scale[80] = "", experts[48] = "";
    double speed   = (double)(report->samples * config->model.sequence) / report->seconds;
    double seconds = (double)(report->step_at - report->started_at) * 1e-9;
    double left_of_run = (double)(trainer_samples_at_end(t) - t->samples);
    double sample_seconds = seconds / (double)(t->samples - report->first_sample);
    double loss = report->averaged ? report->losses / (double)report->averaged : r.loss;
    if (report->peak > 0)
        snprintf(share, sizeof share, "  MFU %.1f %% (causal %.1f %%)", 100 * mfu(report, speed, false),
                 100 * mfu(report, speed, true));
    if (r.loss_scale > 0)
        snprintf(scale, sizeof scale, "  loss scale %g  %lld skipped", r.loss_scale,
                 (long long)(report->steps - report->averaged));
    if (config->model.experts > 0)
        snprintf(experts, sizeof experts, "  load %.2f  dropped %.1f %%", r.moe.load, 100 * r.moe.dropped);
    log_progress("step %lld/%lld  %s left  loss %.4f  %.0f tokens/s  lr %.2e  grad %.3f%s%s  %lld samples  "
                 "data %.1f ms  %.1f GFLOP/s%s  %s", (long long)t->step, (long long)t->steps,
                 log_time(left, sample_seconds * left_of_run), unsigned_nan(loss), speed, r.lr,
                 unsigned_nan(r.norm), scale, experts, (long long)t->samples, 1e3 * r.waited,
                 1e-9 * speed * model_flops(&config->model, false), share,
                 log_bytes(memory, memory_in_use()));
}

static void megatron_step(const Report *report, const Trainer *t, StepReport r)
{
    const TrainConfig *config = report->config;
    char line[1000];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double tokens = (double)(report->samples * config->model.sequence);
    double flops  = tokens / report->seconds * model_flops(&config->model, true) / report->ranks;
    int n = megatron_line(line, sizeof line - 1, &(MegatronLine){ .step = t->step, .steps = t->steps,
        .samples = t->samples, .batch = r.samples, .skipped = report->steps - report->averaged,
        .not_finite = report->not_finite, .seconds = report->seconds / (double)report->steps,
        .flops = config->log_throughput ? flops : 0, .lr = r.lr,
        .loss = report->averaged ? report->losses / (double)report->averaged : NAN,
        .loss_scale = r.loss_scale, .norm = r.norm, .moe = r.moe, .has_experts = config->model.experts > 0,
        .now = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec });
    line[n++] = '\n';
    log_write(line, (size_t)n);
}

void report_step(Report *report, const Trainer *t, StepReport r)
{
    int64_t step = t->step;
    double seconds = seconds_since(&report->step_at);
    bool   progress = step % report->config->log_interval == 0 || step == t->steps ||
                      step == report->first_step + 1;
    if (!report->prints) return;
    report->steps++;
    report->samples += r.samples;
    report->seconds += seconds;
    if (!r.skipped) {                                 /* a loss that is not finite would spoil the mean */
        report->losses += r.loss;
        report->averaged++;
    } else {
        report->skipped++;
        report->not_finite += !r.overflow;
        log_progress_end();
        if (r.overflow)
            log_line("step %lld: gradients overflow at loss scale %g; the step is skipped and the weights "
                     "are unchanged", (long long)step, r.loss_scale);
        else
            log_line("step %lld: loss %g, gradient norm %g: not finite; the step is skipped and the weights "
                     "are unchanged", (long long)step, unsigned_nan(r.loss), unsigned_nan(r.norm));
    }
    metrics_step(report, t, seconds, r, progress);
    if (!progress) return;
    if (report->config->megatron_lines) megatron_step(report, t, r);
    else                                progress_step(report, t, r);
    report->losses   = report->seconds = 0;
    report->averaged = report->steps   = report->samples = report->not_finite = 0;
}

/* A run that trained nothing must not look like one that did. */
void report_untrained(const Report *report, const Trainer *t)
{
    double scale = t->step_state.loss.scale, lower = scale < 65536 ? scale : 65536;
    long long steps = t->step - report->first_step;
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

void report_pause(Report *report)
{
    seconds_since(&report->step_at);
}

/* Between lines of dashes as long as the line. */
static void megatron_blocks(int64_t step, SplitKind kind, double loss)
{
    char where[80], line[400], dashes[400], all[1300];
    snprintf(where, sizeof where, "%s loss at iteration %lld", kind == SPLIT_VALID ? "validation" : "test",
             (long long)step);
    int n = megatron_evaluation(line, sizeof line, where, loss);
    memset(dashes, '-', (size_t)n);
    dashes[n] = 0;
    n = snprintf(all, sizeof all, "%s\n%s\n%s\n", dashes, line, dashes);
    log_write(all, (size_t)n);
}

void report_evaluation(Report *report, int64_t step, SplitKind kind, double loss)
{
    char line[256], mean[32], perplexity[32];
    report_pause(report);
    if (!report->prints) return;
    int n = snprintf(line, sizeof line, "{\"step\":%lld,\"split\":\"%s\",\"loss\":%s,\"perplexity\":%s}\n",
                     (long long)step, split_name(kind), json_number(mean, loss),
                     json_number(perplexity, exp(loss)));
    metrics_line(report, line, n);
    log_progress_end();
    if (report->config->megatron_lines) {
        megatron_blocks(step, kind, loss);
        return;
    }
    log_line("step %lld: %s loss %.4f, perplexity %.3f", (long long)step,
             kind == SPLIT_VALID ? "validation" : split_name(kind), unsigned_nan(loss),
             unsigned_nan(exp(loss)));
}
