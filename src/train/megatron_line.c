/* Megatron-LM's log lines. */
#include "train/megatron_line.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/message.h"

/* Python prints nan and inf in this way, without a sign of nan. */
static double unsigned_nan(double x) { return isnan(x) ? NAN : x; }

int megatron_line(char *out, size_t size, const MegatronLine *l)
{
    time_t whole = (time_t)floor(l->now);
    struct tm when;
    char date[32];
    localtime_r(&whole, &when);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
    snprintf(out, size, " [%s.%06d]", date, (int)((l->now - (double)whole) * 1e6));
    message_add(out, size, " iteration %8lld/%8lld |", (long long)l->step, (long long)l->steps);
    message_add(out, size, " consumed samples: %12lld |", (long long)l->samples);
    message_add(out, size, " elapsed time per iteration (ms): %.1f |", 1e3 * l->seconds);
    if (l->flops > 0) message_add(out, size, " throughput per GPU (TFLOP/s/GPU): %.1f |", 1e-12 * l->flops);
    message_add(out, size, " learning rate: %.6E |", l->lr);
    if (!isnan(l->decoupled_lr)) message_add(out, size, " decoupled learning rate: %.6E |", l->decoupled_lr);
    message_add(out, size, " global batch size: %5lld |", (long long)l->batch);
    if (!isnan(l->loss)) message_add(out, size, " lm loss: %.6E |", l->loss);
    for (int k = 0; k < l->depths; k++) message_add(out, size, " mtp_%d loss: %.6E |", k + 1, l->mtp[k]);
    if (l->has_experts) message_add(out, size, " load_balancing_loss: %.6E |", l->moe.balance);
    if (l->has_experts && l->moe.z > 0) message_add(out, size, " z_loss: %.6E |", l->moe.z);
    message_add(out, size, " loss scale: %.1f |", l->loss_scale > 0 ? l->loss_scale : 1);
    message_add(out, size, " grad norm: %.3f |", unsigned_nan(l->norm));
    if (l->zeros >= 0) message_add(out, size, " num zeros: %lld |", (long long)l->zeros);
    if (!(l->params_norm < 0)) message_add(out, size, " params norm: %.3f |", unsigned_nan(l->params_norm));
    message_add(out, size, " number of skipped iterations: %3lld |", (long long)l->skipped);
    message_add(out, size, " number of nan iterations: %3lld |", (long long)l->not_finite);
    return (int)strlen(out);
}

int megatron_evaluation(char *out, size_t size, const char *where, double loss)
{
    double perplexity = exp(fmin(20, loss));
    return snprintf(out, size, " %s | lm loss value: %.6E | lm loss PPL: %.6E | ", where, unsigned_nan(loss),
                    unsigned_nan(perplexity));
}
