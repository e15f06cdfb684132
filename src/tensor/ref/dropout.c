/* Dropout.   T rows   C channels */
#include "base/random.h"
#include "tensor/ref/ref.h"

double ref_keep(uint64_t key, uint64_t index, double p)
{
    if (p == 0) return 1;
    return random_bits(key, index) >= (uint32_t)(p * 4294967296.0) ? 1 / (1 - p) : 0;
}

/* y = residual + keep (x + bias) */
REF(dropout_forward, DropoutForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, F64, T, C);
    WANT(a->x_TC, F64, T, C);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, F64, T, C);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, F64, C);
    if (a->p > 0) WANT(a->dropout_index_i, I32, T);
    uint64_t key = dropout_key(q->step_state, a->site);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double x = *at2(a->x_TC, t, c);
            if (tensor_present(a->bias_C)) x += *at1(a->bias_C, c);
            if (a->p > 0) x *= ref_keep(key, (uint64_t)(int1(a->dropout_index_i, t) * C + c), a->p);
            if (tensor_present(a->residual_TC)) x += *at2(a->residual_TC, t, c);
            *at2(a->y_TC, t, c) = x;
        }
}

/* dx = keep dy */
REF(dropout_backward, DropoutBackward)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, F64, T, C);
    WANT(a->dy_TC, F64, T, C);
    if (a->p > 0) WANT(a->dropout_index_i, I32, T);
    uint64_t key = dropout_key(q->step_state, a->site);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double keep = a->p > 0 ? ref_keep(key, (uint64_t)(int1(a->dropout_index_i, t) * C + c), a->p) : 1;
            *at2(a->dx_TC, t, c) = keep * *at2(a->dy_TC, t, c);
        }
}
