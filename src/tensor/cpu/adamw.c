/* The end of a step: gradient clipping and the AdamW update.
 * N elements of a flat parameter block   R ranks */
#include "tensor/cpu/cpu.h"

/* norm = sqrt(squares) / tokens,   factor = min(1, clip / norm) / tokens
 * Gradients are sums over tokens, so dividing by the tokens gives the norm of the gradient of the mean
 * loss. Every rank has the same sums and therefore decides alike, without a message. */
CPU(clip_and_skip, ClipAndSkip)
{
    int64_t R = a->sums_R3.dim[0];
    WANT(a->report_4, F64, 4);
    WANT(a->sums_R3, F64, R, 3);
    const double *sums = a->sums_R3.data;
    double total[3] = { 0 }, *report = a->report_4.data;
    for (int64_t r = 0; r < R; r++)
        for (int i = 0; i < 3; i++) total[i] += sums[r * a->sums_R3.stride[0] + i];
    double tokens = total[1], mean = total[0] / tokens, norm = sqrt(total[2]) / tokens;
    q->step_state->skip   = !isfinite(mean) || !isfinite(norm);
    q->step_state->factor = (a->clip > 0 && norm > a->clip ? a->clip / norm : 1) / tokens;
    report[0] = mean;
    report[1] = tokens;
    report[2] = norm;
    report[3] = q->step_state->skip;
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon)            */
typedef struct {
    float       *w, *m, *v;
    const float *g;
    float        factor, beta1, beta2, epsilon;
    float        shrink, rate, unbias;             /* 1 - lr decay,  lr / (1 - beta1^t),  1 / (1 - beta2^t) */
} AdamwUpdate;

/* The bias corrections are in rate and unbias, which are computed once a step in double. */
static CLONES void adamw_elements(void *context, int64_t begin, int64_t end)
{
    const AdamwUpdate u = *(const AdamwUpdate *)context;
    float one1 = 1 - u.beta1, one2 = 1 - u.beta2;
    for (int64_t i = begin; i < end; i++) {
        float g = u.g[i] * u.factor;
        float m = u.m[i] = u.beta1 * u.m[i] + one1 * g;
        float v = u.v[i] = u.beta2 * u.v[i] + one2 * g * g;
        u.w[i] = u.w[i] * u.shrink - u.rate * m / (sqrtf(v * u.unbias) + u.epsilon);
    }
}

CPU(adamw, Adamw)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, F32, N);
    WANT(a->m_N, F32, N);
    WANT(a->v_N, F32, N);
    WANT(a->g_N, F32, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double t = (double)(step_state->updates + 1);
    AdamwUpdate update = {
        .w = flat(a->w_N), .m = flat(a->m_N), .v = flat(a->v_N), .g = flat(a->g_N),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1,
        .beta2   = (float)a->beta2,
        .epsilon = (float)a->epsilon,
        .shrink  = (float)(1 - step_state->lr * a->decay),
        .rate    = (float)(step_state->lr / (1 - pow(a->beta1, t))),
        .unbias  = (float)(1 / (1 - pow(a->beta2, t))) };
    team_for(q->team, N, CHUNK_ELEMENTS, adamw_elements, &update);
}
