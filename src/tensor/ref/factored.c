/* Optimizers with second moments of rows, columns or blocks of rows: Adafactor and Adam-mini.
 * N elements of a part of a matrix   R rows   C columns   B blocks of rows */
#include "tensor/ref/ref.h"

/* row[r / group] += g g,   column[c] += g g */
REF(factor_sums, FactorSums)
{
    double f = q->step_state->factor;
    WANT(a->row_B, a->row_B.dim[0]);
    if (tensor_present(a->column_C)) WANT(a->column_C, a->column_C.dim[0]);
    WANT(a->g_N, a->g_N.dim[0]);
    for (int64_t i = 0; i < a->g_N.dim[0]; i++) {
        int64_t e = a->first + i, r = a->row0 + e / a->columns, c = a->column0 + e % a->columns;
        double  g = *at1(a->g_N, i) * f;
        *at1(a->row_B, r / a->group) += g * g;
        if (tensor_present(a->column_C)) *at1(a->column_C, c) += g * g;
    }
}

/* The decay of a moment whose window grows: 1 - t^-rate */
static double growing_beta(const Queue *q, double rate)
{
    return 1 - pow((double)(q->step_state->updates + 1), -rate);
}

/* v = b v + (1 - b) sums / count */
REF(moment_of_sums, MomentOfSums)
{
    double b = a->rate > 0 ? growing_beta(q, a->rate) : a->beta;
    WANT(a->v_B, a->v_B.dim[0]);
    WANT(a->sums_B, a->v_B.dim[0]);
    if (q->step_state->skip) return;
    for (int64_t i = 0; i < a->v_B.dim[0]; i++)
        *at1(a->v_B, i) = b * *at1(a->v_B, i) + (1 - b) * (*at1(a->sums_B, i) / a->count);
}

/* g / max(sqrt(v), epsilon),   v = row column / max(mean of row, epsilon) */
REF(factored_direction, FactoredDirection)
{
    double mean = 0;
    int64_t R = a->row_R.dim[0];
    WANT(a->row_R, R);
    WANT(a->column_C, a->column_C.dim[0]);
    WANT(a->g_N, a->g_N.dim[0]);
    if (q->step_state->skip) return;
    for (int64_t r = 0; r < R; r++) mean += *at1(a->row_R, r) / (double)R;
    for (int64_t i = 0; i < a->g_N.dim[0]; i++) {
        int64_t e = a->first + i;
        double  row = *at1(a->row_R, a->row0 + e / a->columns);
        double  v = row * *at1(a->column_C, a->column0 + e % a->columns) / fmax(mean, a->epsilon);
        *at1(a->g_N, i) = *at1(a->g_N, i) * q->step_state->factor / fmax(sqrt(v), a->epsilon);
    }
}

/* v = b v + (1 - b) g g,   g = g / max(sqrt(v), epsilon) */
REF(adafactor_direction, AdafactorDirection)
{
    double b = growing_beta(q, a->rate);
    WANT(a->g_N, a->g_N.dim[0]);
    WANT(a->v_N, a->g_N.dim[0]);
    if (q->step_state->skip) return;
    for (int64_t i = 0; i < a->g_N.dim[0]; i++) {
        double g = *at1(a->g_N, i) * q->step_state->factor, *v = at1(a->v_N, i);
        *v = b * *v + (1 - b) * g * g;
        *at1(a->g_N, i) = g / fmax(sqrt(*v), a->epsilon);
    }
}

/* w -= lr decay w,   w -= alpha u / max(1, rms(u) / clip)
 * alpha = min(lr, 1 / sqrt(t)) max(epsilon, rms(w)) */
REF(adafactor_update, AdafactorUpdate)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->u_N, N);
    WANT(a->squares_2, 2);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    double w_rms = sqrt(*at1(a->squares_2, 0) / a->count), u_rms = sqrt(*at1(a->squares_2, 1) / a->count);
    double alpha = fmin(lr, 1 / sqrt((double)(q->step_state->updates + 1))) * fmax(a->epsilon, w_rms);
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i);
        *w -= lr * decay * *w;
        *w -= alpha / fmax(1, u_rms / a->clip) * *at1(a->u_N, i);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}

/* m = beta1 m + (1 - beta1) g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon),   v = v[row / group] */
REF(block_adam, BlockAdam)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    WANT(a->v_B, a->v_B.dim[0]);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    double lr = STEP_LR(q->step_state, a->decoupled), t = (double)(q->step_state->updates + 1);
    double decay = a->decay * q->step_state->weight_decay;
    for (int64_t i = 0; i < N; i++) {
        double *w = at1(a->w_N, i), *m = at1(a->m_N, i);
        double  v = *at1(a->v_B, (a->row0 + (a->first + i) / a->columns) / a->group);
        *w -= lr * decay * *w;
        *m = a->beta1 * *m + (1 - a->beta1) * *at1(a->g_N, i) * q->step_state->factor;
        *w -= lr * (*m / (1 - pow(a->beta1, t))) / (sqrt(v / (1 - pow(a->beta2, t))) + a->epsilon);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *w;
    }
}
