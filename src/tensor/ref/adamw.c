/* The end of a step: gradient clipping and the AdamW update.
 * N elements of a flat parameter block   R ranks */
#include "tensor/ref/ref.h"

/* Adds in rank order; what is decided from the sums is the same in all back ends of a host. */
REF(clip_and_skip, ClipAndSkip)
{
    int64_t R = a->sums_R3.dim[0];
    WANT(a->report_4, 4);
    WANT(a->sums_R3, R, 3);
    const double *sums = a->sums_R3.data;
    double total[3] = { 0 };
    for (int64_t r = 0; r < R; r++)
        for (int i = 0; i < 3; i++) total[i] += sums[r * a->sums_R3.stride[0] + i];
    step_state_end(q->step_state, total, a->clip, a->scaling, a->report_4.data);
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon)            */
REF(adamw, Adamw)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double t = (double)(q->step_state->updates + 1), lr = q->step_state->lr;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i), *v = at1(a->v_N, i);
        double  g = *at1(a->g_N, i) * q->step_state->factor;
        *w -= lr * a->decay * *w;
        *m = a->beta1 * *m + (1 - a->beta1) * g;
        *v = a->beta2 * *v + (1 - a->beta2) * g * g;
        double mhat = *m / (1 - pow(a->beta1, t)), vhat = *v / (1 - pow(a->beta2, t));
        *w -= lr * mhat / (sqrt(vhat) + a->epsilon);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}
