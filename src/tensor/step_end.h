#ifndef TENSOR_STEP_END_H
#define TENSOR_STEP_END_H
/* The decisions at the end of a step's gradients, clipping, skipping and loss scaling, for hosts and GPUs:
 * the operation clip_and_skip. */
#include <math.h>
#include "tensor/step_state.h"

#if defined(__CUDACC__) || defined(__HIPCC__)
#define STEP_END static inline __host__ __device__
#else
#define STEP_END static inline
#endif

STEP_END void gradient_scale_set(StepState *s)
{
    s->gradient_scale = s->loss.scale > 0 ? s->loss.scale / s->token_scale : 1;
}

/* At the start of a run or after loading: gradient_scale from loss.scale. tokens: of a global batch. */
STEP_END void step_state_scale(StepState *s, int64_t tokens)
{
    s->token_scale = 1;
    while (s->token_scale < (double)tokens) s->token_scale *= 2;
    gradient_scale_set(s);
}

/* In the order of Megatron-LM's DynamicGradScaler.update: an overflow resets the count of finite steps and
 * uses up one of the hysteresis; from the last one on every overflow halves the scale. A resumed run may have
 * a shorter window than the steps that were counted before. */
STEP_END void loss_scale_update(LossScale *loss, const LossScaling *scaling, bool overflow)
{
    if (overflow) {
        loss->growth = 0;
        if (loss->hysteresis > 0) loss->hysteresis--;
        if (loss->hysteresis == 0) loss->scale = fmin(loss->scale, fmax(loss->scale / 2, scaling->minimum));
    } else if (++loss->growth >= scaling->window) {
        loss->growth     = 0;
        loss->hysteresis = scaling->hysteresis;
        loss->scale     *= 2;
    }
}

/* |x| is below infinity; false for NaN. */
STEP_END bool is_number(double x) { return fabs(x) <= 1.7976931348623157e308; }

/* Ends the gradients of a step: sums = { loss sum, tokens, squared gradients as they are in memory }; tokens
 * are NaN where a rank could not read its data. Sets factor, skip, unread and the loss scale of the next
 * step; report = { mean loss, tokens, gradient norm, skip }, in which skip is SKIP_OVERFLOW if the loss is
 * finite and the scale is dynamic, so that a smaller one may help, and SKIP_SPIKE if all is finite and the
 * mean loss above loss_limit. norm = sqrt(squares) / tokens / gradient_scale,   factor = min(1, clip / norm)
 * / tokens / gradient_scale Gradients are sums over tokens, so dividing by the tokens gives the gradient of
 * the mean loss. Every rank has the same sums and therefore decides alike, without a message. */
STEP_END void step_state_end(StepState *s, const double sums[3], double clip, LossScaling scaling,
                             double report[4])
{
    double tokens = sums[1], mean = sums[0] / tokens, scaled = tokens * s->gradient_scale;
    double norm = sqrt(sums[2]) / scaled;
    bool finite = is_number(mean) && is_number(norm);
    bool spike  = finite && s->loss_limit > 0 && mean > s->loss_limit;
    s->skip   = !finite || spike;
    s->unread = tokens != tokens;                                             /* NaN */
    s->factor = (clip > 0 && norm > clip ? clip / norm : 1) / scaled;
    /* The scale is in gradients alone: a loss that is not finite has another cause, and no scale mends it. */
    bool overflow = is_number(mean) && !is_number(norm), scaled_by = scaling.dynamic && is_number(mean);
    if (scaled_by) loss_scale_update(&s->loss, &scaling, overflow);
    gradient_scale_set(s);
    report[0] = mean;
    report[1] = tokens;
    report[2] = norm;
    report[3] = scaled_by && overflow ? (int)SKIP_OVERFLOW : spike ? (int)SKIP_SPIKE : s->skip;
}
#endif
