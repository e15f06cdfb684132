/* The end of a step: gradient clipping and the updates of AdamW, SGD, Lion, LAMB and Muon.
 * N elements of a flat parameter block   R ranks   S sums */
#include "tensor/step_end.h"
#include "tensor/ref/ref.h"

REF(sums_total, SumsTotal)
{
    int64_t R = a->sums_RS.dim[0], S = a->sums_RS.dim[1];
    WANT(a->total_S, S);
    WANT(a->sums_RS, R, S);
    const double *sums = a->sums_RS.data;
    double *total = a->total_S.data;
    for (int64_t i = 0; i < S; i++) {
        total[i] = 0;
        for (int64_t r = 0; r < R; r++) total[i] += sums[r * a->sums_RS.stride[0] + i];
    }
}

REF(sums_largest, SumsLargest)
{
    int64_t R = a->sums_RS.dim[0], S = a->sums_RS.dim[1];
    WANT(a->most_S, S);
    WANT(a->sums_RS, R, S);
    const double *sums = a->sums_RS.data;
    double *most = a->most_S.data;
    for (int64_t i = 0; i < S; i++) {
        most[i] = sums[i];
        for (int64_t r = 1; r < R; r++) most[i] = fmax(most[i], sums[r * a->sums_RS.stride[0] + i]);
    }
}

/* What is decided from the sums is the same in all back ends of a host. */
REF(clip_and_skip, ClipAndSkip)
{
    WANT(a->report_4, 4);
    WANT(a->sums_3, 3);
    step_state_end(q->step_state, a->sums_3.data, a->clip, a->scaling, a->report_4.data);
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon);   coupled: g += decay w instead */
REF(adamw, Adamw)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double t = (double)(q->step_state->updates + 1), lr = STEP_LR(q->step_state, a->decoupled);
    double decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i), *v = at1(a->v_N, i);
        double  g = *at1(a->g_N, i) * q->step_state->factor;
        if (a->coupled) g += decay * *w;
        else            *w -= lr * decay * *w;
        *m = a->beta1 * *m + (1 - a->beta1) * g;
        *v = a->beta2 * *v + (1 - a->beta2) * g * g;
        double mhat = *m / (1 - pow(a->beta1, t)), vhat = *v / (1 - pow(a->beta2, t));
        double epsilon = a->uncorrected ? a->epsilon / sqrt(1 - pow(a->beta2, t)) : a->epsilon;
        *w -= lr * mhat / (sqrt(vhat) + epsilon);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* d = g + decay w,   m = momentum m + d,   w -= lr m  or  lr (d + momentum m) */
REF(sgd, Sgd)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i);
        double d = *at1(a->g_N, i) * q->step_state->factor + decay * *w;
        *m = a->momentum * *m + d;
        *w -= STEP_LR(q->step_state, a->decoupled) * (a->nesterov ? d + a->momentum * *m : *m);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* w -= lr decay w,   w -= lr sign(beta1 m + (1 - beta1) g),   m = beta2 m + (1 - beta2) g */
REF(lion, Lion)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i), g = *at1(a->g_N, i) * q->step_state->factor;
        double  d = a->beta1 * *m + (1 - a->beta1) * g;
        *w -= lr * decay * *w;
        *w -= lr * ((d > 0) - (d < 0));
        *m = a->beta2 * *m + (1 - a->beta2) * g;
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* w -= lr decay w,   m = beta1 m + (1 - beta1) u,   w -= lr m,   v = beta2 v + (1 - beta2) g g
 * u = g / max(sqrt(v), epsilon) within +-(t - 1)^(1/4);   the first update: v = g g */
REF(adopt, Adopt)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    bool first = q->step_state->updates == 0;
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    double bound = sqrt(sqrt((double)q->step_state->updates));
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i), *v = at1(a->v_N, i);
        double  g = *at1(a->g_N, i) * q->step_state->factor;
        if (a->coupled) g += decay * *w;
        double  u = fmin(fmax(g / fmax(sqrt(*v), a->epsilon), -bound), bound);
        *v = first ? g * g : a->beta2 * *v + (1 - a->beta2) * g * g;
        if (first) continue;
        *m = a->beta1 * *m + (1 - a->beta1) * u;
        if (!a->coupled) *w -= lr * decay * *w;
        *w -= lr * *m;
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* y = (1 - beta) z + beta w,   d = g / (sqrt(vhat) + epsilon) + decay y
 * z -= lr d,   w += share (z - w),   param = y */
REF(averaged_update, AveragedUpdate)
{
    int64_t N = a->w_N.dim[0];
    bool adam = tensor_present(a->v_N);
    WANT(a->w_N, N);
    WANT(a->z_N, N);
    WANT(a->g_N, N);
    WANT(a->param_N, N);
    if (adam) WANT(a->v_N, N);
    if (q->step_state->skip) return;
    double lr = q->step_state->lr, t = (double)(q->step_state->updates + 1);
    double decay = a->decay * q->step_state->weight_decay, share = q->step_state->average_share;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *z = at1(a->z_N, i), g = *at1(a->g_N, i) * q->step_state->factor, d = g;
        if (adam) {
            double *v = at1(a->v_N, i);
            *v = a->beta2 * *v + (1 - a->beta2) * g * g;
            d = g / (sqrt(*v / (1 - pow(a->beta2, t))) + a->epsilon);
        }
        *z -= lr * (d + decay * ((1 - a->beta) * *z + a->beta * *w));
        *w += share * (*z - *w);
        *at1(a->param_N, i) = (1 - a->beta) * *z + a->beta * *w;
    }
}

REF(weighted_pair, WeightedPair)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->x_N, N);
    WANT(a->z_N, N);
    for (int64_t i = 0; i < N; i++)
        *at1(a->y_N, i) = a->x_factor * *at1(a->x_N, i) + a->z_factor * *at1(a->z_N, i);
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * u = mhat / (sqrt(vhat) + epsilon) + decay w */
REF(lamb_direction, LambDirection)
{
    int64_t N = a->g_N.dim[0];
    if (tensor_present(a->w_N)) WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (q->step_state->skip) return;
    double t = (double)(q->step_state->updates + 1), decay = a->decay * q->step_state->weight_decay;
    double late = a->late_correction ? sqrt(1 - pow(a->beta2, t)) : 1;
    for (int64_t i = 0; i < N; i++) {
        double *m = at1(a->m_N, i), *v = at1(a->v_N, i), *u = at1(a->g_N, i);
        double  g = *u * q->step_state->factor;
        *m = a->beta1 * *m + (1 - a->beta1) * g;
        *v = a->beta2 * *v + (1 - a->beta2) * g * g;
        double mhat = *m / (1 - pow(a->beta1, t)), vhat = *v / (1 - pow(a->beta2, t));
        *u = mhat / (sqrt(vhat) + a->epsilon / late);
        if (tensor_present(a->w_N)) *u += decay * *at1(a->w_N, i);
    }
}

/* w -= lr ratio u,   ratio = |w| / |u| within [low, high], 1 where either is 0 */
REF(lamb_update, LambUpdate)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->u_N, N);
    WANT(a->squares_2, 2);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double w_norm = sqrt(*at1(a->squares_2, 0)), u_norm = sqrt(*at1(a->squares_2, 1)), ratio = 1;
    if (w_norm > 0 && u_norm > 0) ratio = fmin(fmax(w_norm / u_norm, a->low), a->high);
    for (int64_t i = 0; i < N; i++) {
        *at1(a->w_N, i) -= STEP_LR(q->step_state, a->decoupled) * ratio * *at1(a->u_N, i);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *at1(a->w_N, i);
    }
}

/* m = momentum m + (1 - momentum) g,   g = m  or  momentum m + (1 - momentum) g */
REF(muon_direction, MuonDirection)
{
    int64_t N = a->g_N.dim[0];
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    if (q->step_state->skip) return;
    for (int64_t i = 0; i < N; i++) {
        double *m = at1(a->m_N, i), *g = at1(a->g_N, i);
        double part = (1 - a->momentum) * (*g * q->step_state->factor);
        *m = a->momentum * *m + part;
        *g = a->nesterov ? a->momentum * *m + part : *m;
    }
}

/* w -= lr decay w,   w -= lr scale o */
REF(muon_update, MuonUpdate)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->o_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i);
        if (!a->decay_last) *w -= lr * decay * *w;
        *w -= lr * a->scale * *at1(a->o_N, i);
        if (a->decay_last) *w -= lr * decay * *w;
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* y = x / max(|x|, epsilon) */
REF(normalize, Normalize)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->x_N, N);
    WANT(a->squares_1, 1);
    double norm = fmax(sqrt(*at1(a->squares_1, 0)), a->epsilon);
    for (int64_t i = 0; i < N; i++) *at1(a->y_N, i) = q->step_state->skip ? 0 : *at1(a->x_N, i) / norm;
}

REF(scaled_sum, ScaledSum)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->x_N, N);
    for (int64_t i = 0; i < N; i++)
        *at1(a->y_N, i) = a->y_factor * *at1(a->y_N, i) + a->x_factor * *at1(a->x_N, i);
}

REF(round_sums, RoundSums)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    for (int64_t i = 0; i < a->y_N.dim[0]; i++) *at1(a->y_N, i) = *at1(a->x_N, i);
}
