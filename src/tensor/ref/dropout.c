/* Dropout (Srivastava et al. 2014), inverted: what is kept is scaled by 1 / (1 - p), so evaluation needs
 * no scaling.
 * T rows   C channels */
#include "base/random.h"
#include "tensor/ref/ref.h"

/* p 2^32 is truncated to a 32-bit threshold, in every back end alike, so that masks are the same bits. */
double ref_dropout(uint64_t key, uint64_t index, double p)
{
    if (p == 0) return 1;
    return random_bits(key, index) >= (uint32_t)(p * 4294967296.0) ? 1 / (1 - p) : 0;
}

/* y = residual + drop(x + bias) */
REF(dropout_forward, DropoutForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, T, C);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, C);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    uint64_t key = dropout_key(q->step_state, a->site);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double x = *at2(a->x_TC, t, c);
            if (tensor_present(a->bias_C)) x += *at1(a->bias_C, c);
            if (a->p > 0) x *= ref_dropout(key, (uint64_t)(int1(a->dropout_index_i, t) * C + c), a->p);
            if (tensor_present(a->residual_TC)) x += *at2(a->residual_TC, t, c);
            *at2(a->y_TC, t, c) = x;
        }
}

/* dx = drop(dy) with the mask of the forward op, which is computed again instead of stored */
REF(dropout_backward, DropoutBackward)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    uint64_t key = dropout_key(q->step_state, a->site);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double factor = 1;
            if (a->p > 0) factor = ref_dropout(key, (uint64_t)(int1(a->dropout_index_i, t) * C + c), a->p);
            *at2(a->dx_TC, t, c) = factor * *at2(a->dy_TC, t, c);
        }
}
