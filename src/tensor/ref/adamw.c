/* The end of a step: gradient clipping and the AdamW update.
 * N elements of a flat parameter block   R ranks */
#include "tensor/ref/ref.h"

/* norm = sqrt(squares) / tokens,   factor = min(1, clip / norm) / tokens
 * Gradients are sums over tokens, so dividing by the tokens gives the norm of the gradient of the mean
 * loss. */
REF(clip_and_skip, ClipAndSkip)
{
    int64_t R = a->sums_R3.dim[0];
    WANT(a->report_4, F64, 4);
    WANT(a->sums_R3, F64, R, 3);
    double loss = 0, tokens = 0, squares = 0;
    for (int64_t r = 0; r < R; r++) {
        loss += *at2(a->sums_R3, r, 0);
        tokens += *at2(a->sums_R3, r, 1);
        squares += *at2(a->sums_R3, r, 2);
    }
    double mean = loss / tokens, norm = sqrt(squares) / tokens;
    /* Every rank has the same sums and therefore decides alike, without a message. */
    q->step_state->skip = !isfinite(mean) || !isfinite(norm);
    q->step_state->factor = (a->clip > 0 && norm > a->clip ? a->clip / norm : 1) / tokens;
    *at1(a->report_4, 0) = mean;
    *at1(a->report_4, 1) = tokens;
    *at1(a->report_4, 2) = norm;
    *at1(a->report_4, 3) = q->step_state->skip;
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon)            */
REF(adamw, Adamw)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, F64, N);
    WANT(a->m_N, F64, N);
    WANT(a->v_N, F64, N);
    WANT(a->g_N, F64, N);
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
    }
}
