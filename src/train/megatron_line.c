/* Megatron-LM's log lines. */
#include "train/megatron_line.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

__attribute__((format(printf, 4, 5)))
static int add(char *out, size_t size, int used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = (size_t)used < size ? vsnprintf(out + used, size - (size_t)used, format, arguments) : 0;
    va_end(arguments);
    return used + bytes;
}

/* Python prints nan and inf in this way, without a sign of nan. */
static double unsigned_nan(double x) { return isnan(x) ? NAN : x; }

int megatron_line(char *out, size_t size, const MegatronLine *l)
{
    time_t whole = (time_t)floor(l->now);
    struct tm when;
    char date[32];
    localtime_r(&whole, &when);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
    int n = add(out, size, 0, " [%s.%06d]", date, (int)((l->now - (double)whole) * 1e6));
    n = add(out, size, n, " iteration %8lld/%8lld |", (long long)l->step, (long long)l->steps);
    n = add(out, size, n, " consumed samples: %12lld |", (long long)l->samples);
    n = add(out, size, n, " elapsed time per iteration (ms): %.1f |", 1e3 * l->seconds);
    if (l->flops > 0) n = add(out, size, n, " throughput per GPU (TFLOP/s/GPU): %.1f |", 1e-12 * l->flops);
    n = add(out, size, n, " learning rate: %.6E |", l->lr);
    if (!isnan(l->decoupled_lr)) n = add(out, size, n, " decoupled learning rate: %.6E |", l->decoupled_lr);
    n = add(out, size, n, " global batch size: %5lld |", (long long)l->batch);
    if (!isnan(l->loss)) n = add(out, size, n, " lm loss: %.6E |", l->loss);
    for (int k = 0; k < l->depths; k++) n = add(out, size, n, " mtp_%d loss: %.6E |", k + 1, l->mtp[k]);
    if (l->has_experts) n = add(out, size, n, " load_balancing_loss: %.6E |", l->moe.balance);
    if (l->has_experts && l->moe.z > 0) n = add(out, size, n, " z_loss: %.6E |", l->moe.z);
    n = add(out, size, n, " loss scale: %.1f |", l->loss_scale > 0 ? l->loss_scale : 1);
    n = add(out, size, n, " grad norm: %.3f |", unsigned_nan(l->norm));
    if (l->zeros >= 0) n = add(out, size, n, " num zeros: %lld |", (long long)l->zeros);
    if (!(l->params_norm < 0)) n = add(out, size, n, " params norm: %.3f |", unsigned_nan(l->params_norm));
    n = add(out, size, n, " number of skipped iterations: %3lld |", (long long)l->skipped);
    return add(out, size, n, " number of nan iterations: %3lld |", (long long)l->not_finite);
}

int megatron_evaluation(char *out, size_t size, const char *where, double loss)
{
    double perplexity = exp(fmin(20, loss));
    return snprintf(out, size, " %s | lm loss value: %.6E | lm loss PPL: %.6E | ", where, unsigned_nan(loss),
                    unsigned_nan(perplexity));
}
