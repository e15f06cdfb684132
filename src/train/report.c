#include "train/report.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"

Status report_open(Report *report, const TrainConfig *config, bool speaks, int64_t first_step)
{
    *report = (Report){ .config = config, .metrics = -1, .speaks = speaks, .first_step = first_step, .started_at = seam.clock(), .step_at = seam.clock() };
    if (!speaks || !config->metrics) return OK;
    report->metrics = open(config->metrics, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (report->metrics < 0) return fail(BAD_FILE, "--metrics %s cannot be opened: %s", config->metrics, strerror(errno));
    return OK;
}

void report_close(Report *report)
{
    log_progress_end();
    if (report->metrics >= 0) close(report->metrics);
}

/* One write a line, so that lines of a killed run are whole */
static void metrics_line(Report *report, const char *text, int length)
{
    if (report->metrics < 0) return;
    if (write(report->metrics, text, (size_t)length) != length)
        log_line("--metrics %s: a line was lost: %s", report->config->metrics, strerror(errno));
}

/* JSON has no NaN: null stands for it */
static const char *number(char out[32], double x)
{
    snprintf(out, 32, isfinite(x) ? "%.17g" : "null", x);
    return out;
}

static double seconds_since(int64_t *at)
{
    int64_t now = seam.clock();
    double seconds = (double)(now - *at) * 1e-9;
    *at = now;
    return seconds;
}

void report_step(Report *report, int64_t step, double lr, StepReport r)
{
    const TrainConfig *config = report->config;
    double seconds = seconds_since(&report->step_at), speed = (double)trainer_step_tokens(config) / seconds;
    if (!report->speaks) return;
    char line[512], a[32], b[32], time[24];
    int n = snprintf(line, sizeof line, "{\"step\":%lld,\"loss\":%s,\"lr\":%.17g,\"grad_norm\":%s,\"tokens\":%lld,\"seconds\":%.6f,\"data_seconds\":%.6f,"
        "\"tokens_per_second\":%.1f,\"model_flops_full\":%.6g,\"model_flops_causal\":%.6g,\"mfu_full\":null,\"mfu_causal\":null%s}\n",
        (long long)step, number(a, r.loss), lr, number(b, r.norm), (long long)(step * trainer_step_tokens(config)), seconds, r.waited, speed,
        speed * model_flops(&config->model, false), speed * model_flops(&config->model, true), r.skipped ? ",\"skipped\":true" : "");
    metrics_line(report, line, n);
    if (r.skipped) { log_progress_end(); log_line("step %lld: loss %g, gradient norm %g: not finite, weights are left as they were", (long long)step, r.loss, r.norm); }
    if (step % config->log_interval != 0 && step != config->steps && step != report->first_step + 1) return;
    double each = (double)(report->step_at - report->started_at) * 1e-9 / (double)(step - report->first_step);
    log_progress("step %lld/%lld  loss %.4f  lr %.2e  grad %.3f  %.0f tokens/s  data %.1f ms  %.1f GFLOP/s  %s left", (long long)step, (long long)config->steps,
        r.loss, lr, r.norm, speed, 1e3 * r.waited, 1e-9 * speed * model_flops(&config->model, false), log_time(time, each * (double)(config->steps - step)));
}

void report_pause(Report *report) { seconds_since(&report->step_at); }

void report_evaluation(Report *report, int64_t step, SplitKind kind, double loss)
{
    char line[256], a[32], b[32];
    report_pause(report);
    if (!report->speaks) return;
    int n = snprintf(line, sizeof line, "{\"step\":%lld,\"split\":\"%s\",\"loss\":%s,\"perplexity\":%s}\n", (long long)step, split_word(kind), number(a, loss), number(b, exp(loss)));
    metrics_line(report, line, n);
    log_progress_end();
    log_line("step %lld: %s loss %.4f, perplexity %.3f", (long long)step, kind == SPLIT_VALID ? "validation" : split_word(kind), loss, exp(loss));
}
