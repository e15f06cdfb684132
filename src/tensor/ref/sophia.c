/* Sophia.   N elements of a flat parameter block */
#include "tensor/ref/ref.h"

/* m = beta1 m + (1 - beta1) g,   w -= lr decay w,   w -= lr sign(m) min(1, |m| / (rho h + 1e-15)) */
REF(sophia, Sophia)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->h_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i);
        *m = a->beta1 * *m + (1 - a->beta1) * *at1(a->g_N, i) * q->step_state->factor;
        double step = fmin(1, fabs(*m) / (a->rho * *at1(a->h_N, i) + 1e-15));
        *w -= lr * decay * *w;
        *w -= lr * ((*m > 0) - (*m < 0)) * step;
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* h = beta2 h + (1 - beta2) tokens g g */
REF(sophia_hessian, SophiaHessian)
{
    WANT(a->h_N, a->g_N.dim[0]);
    WANT(a->g_N, a->g_N.dim[0]);
    WANT(a->tokens_1, 1);
    if (q->step_state->skip) return;
    double tokens = *(const double *)a->tokens_1.data;
    for (int64_t i = 0; i < a->g_N.dim[0]; i++) {
        double g = *at1(a->g_N, i) * q->step_state->factor, *h = at1(a->h_N, i);
        *h = a->beta2 * *h + (1 - a->beta2) * tokens * g * g;
    }
}
