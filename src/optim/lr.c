/* The schedules of learning rate and weight decay. */
#include "optim/lr.h"
#include <math.h>
#include "base/exponential.h"
#include "base/sine.h"

/* (cos(pi x) + 1) / 2, which falls from 1 at x = 0 to 0 at x = 1 */
static double cosine_fall(double x) { return 0.5 * (sine_cosine(M_PI * x).cosine + 1); }

/* What is left of peak - low at the share q of WSD's decay: 1 - q, (cos(pi q) + 1) / 2, 2 (1/2)^q - 1, or
 * 1 - sqrt(q). */
static double wsd_left(WsdStyle style, double q)
{
    switch (style) {
    case WSD_LINEAR:      return 1 - q;
    case WSD_COSINE:      return cosine_fall(q);
    case WSD_MINUS_SQRT:  return 1 - sqrt(q);
    case WSD_EXPONENTIAL: break;
    }
    return 2 * natural_power(0.5, q) - 1;
}

/* Logarithmic warm-up, with k steps done of W: init + (peak - init) ln k / ln W, init before the second step.
 */
static double log_warmup(const LrSchedule *s, double n)
{
    double share = natural_log(fmax(n / s->step, 1)) / natural_log(fmax(s->warmup / s->step, 2));
    return s->init + (s->peak - s->init) * fmin(share, 1);
}

/* DeepSpeed advances its scheduler after each step, and the second step has the value of the first: with n
 * samples done and m = n - step at least 0, linear warm-up is init + (peak - init) m / W, of two steps at
 * least, and then WarmupLR has the peak, WarmupDecayLR low + (peak - low) (D - m) / (D - W), WarmupCosineLR
 * low + (peak - low) (cos(pi (n - W) / (D - W)) + 1) / 2, and 0 in the first step of all. */
static double lr_delayed_at(const LrSchedule *s, double n)
{
    double warmup = fmax(s->warmup, 2 * s->step), decay = (double)s->decay, m = fmax(0, n - s->step);
    if (s->style == LR_COSINE && n < s->step) return 0;
    if (m < warmup && s->warmup_style == WARMUP_LOG) return log_warmup(s, n);
    if (m < warmup)               return s->init + (s->peak - s->init) * m / warmup;
    if (s->style == LR_CONSTANT)  return s->peak;
    double rest = fmax(s->step, decay - warmup);
    double left = s->style == LR_LINEAR ? fmax(0, (decay - m) / rest)
                                        : cosine_fall(fmin(1, (n - warmup) / rest));
    return s->low + left * (s->peak - s->low);
}

/* AnnealingLR of Megatron-LM 1 (learning_rates.py), whose decay towards 0 takes D samples behind W of
 * warm-up, ends with sample D - W of the run, and is nowhere below `low`: peak m / W during warm-up, where
 * m = min(n, D - W), then with r = m - W: peak (D - r) / D, or peak (cos(pi r / D) + 1) / 2. */
static double lr_clipped_at(const LrSchedule *s, double n)
{
    double decay = (double)s->decay, m = fmin(n, decay - s->warmup), left = 1;
    if (s->warmup > 0 && n <= s->warmup) return s->init + (s->peak - s->init) * m / s->warmup;
    if (s->style == LR_LINEAR) left = (decay - (m - s->warmup)) / decay;
    if (s->style == LR_COSINE) left = cosine_fall((m - s->warmup) / decay);
    return fmax(s->low, s->peak * left);
}

/* With n samples done, W of warm-up and decay until sample D: during warm-up init + (peak - init) n / W; then
 * low + (peak - low) c, where, with r = (n - W) / (D - W), c = 1 - r for linear, (cos(pi r) + 1) / 2 for
 * cosine, and for WSD 1 until its decay begins. inverse-square-root: peak sqrt(max(W, 1)) / sqrt(n), at least
 * low. */
static double lr_after(const LrSchedule *s, double n)
{
    if (s->rule == LR_DELAYED) return lr_delayed_at(s, n);
    if (s->rule == LR_CLIPPED) return lr_clipped_at(s, n);
    if (s->warmup > 0 && n <= s->warmup && s->warmup_style == WARMUP_LOG) return log_warmup(s, n);
    if (s->warmup > 0 && n <= s->warmup) return s->init + (s->peak - s->init) * n / s->warmup;
    if (s->style == LR_CONSTANT) return s->peak;
    if (n > (double)s->decay) return s->low;
    if (s->style == LR_INVERSE_SQUARE_ROOT)
        return fmax(s->low, s->peak * sqrt(fmax(s->warmup, 1)) / sqrt(fmax(n, 1)));
    double part = (n - s->warmup) / ((double)s->decay - s->warmup), left = 1;
    double begin = (double)(s->decay - s->wsd_decay);
    if (s->style == LR_LINEAR) left = 1 - part;
    if (s->style == LR_COSINE) left = cosine_fall(part);
    if (s->style == LR_WSD && n > begin)
        left = wsd_left(s->wsd, (n - begin) / (double)s->wsd_decay);
    return s->low + left * (s->peak - s->low);
}

/* The tokens that count of the first n samples, in whole samples. */
static double counted(const LrSchedule *s, double n)
{
    double steps = floor(n / s->step), rest = n - steps * s->step;
    double sum   = (double)length_sum(&s->lengths, (int64_t)steps) * s->step;
    return (sum + rest * (double)length_at(&s->lengths, (int64_t)steps + 1)) / (double)s->lengths.most;
}

/* A warm-up in samples before a decay in tokens ends at the tokens of its samples. */
double lr_at(const LrSchedule *s, int64_t done)
{
    LrSchedule own = *s;
    bool before = s->count == LR_SAMPLES || (s->count == LR_DECAY_TOKENS && (double)done <= s->warmup);
    if (before) return lr_after(s, (double)done);
    if (s->count == LR_DECAY_TOKENS) own.warmup = counted(s, s->warmup);
    return lr_after(&own, counted(s, (double)done));
}

double lr_decoupled_at(const LrSchedule *s, int64_t done)
{
    LrSchedule own = *s;
    if (s->decoupled) own.peak = s->decoupled_peak, own.low = s->decoupled_low;
    return lr_at(&own, done);
}

/* With n of N samples done: start + (end - start) c, where c = n / N for linear and (cos(pi (1 - n / N)) + 1)
 * / 2 for cosine. */
double weight_decay_at(const WeightDecaySchedule *s, int64_t done)
{
    if (s->style == WEIGHT_DECAY_CONSTANT || done > s->samples) return s->end;
    double part = (double)done / (double)s->samples;
    double rise = s->style == WEIGHT_DECAY_LINEAR ? part : cosine_fall(1 - part);
    return s->start + rise * (s->end - s->start);
}
