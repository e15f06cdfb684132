/* Linear maps of 8-bit numbers; scales and amax are in double, as is everything else here.
 * T rows   C channels in   K channels out; of fp8_scale: N, K tensors   L length of a history */
#include "tensor/ref/ref.h"

static double fp8_at(Tensor x, int64_t i, int64_t j)
{
    double value;
    dtype_convert(&value, F64, (const char *)x.data + i * x.stride[0] + j * x.stride[1], x.dtype, 1);
    return value;
}

/* amax = max(amax, |x|) */
static void amax_add(Tensor amax, Tensor x)
{
    for (int64_t t = 0; t < x.dim[0]; t++)
        for (int64_t c = 0; c < x.dim[1]; c++) *at1(amax, 0) = fmax(*at1(amax, 0), fabs(*at2(x, t, c)));
}

REF(fp8_amax, Fp8Amax)
{
    WANT(a->amax_1, 1);
    WANT(a->x_TC, a->x_TC.dim[0], a->x_TC.dim[1]);
    amax_add(a->amax_1, a->x_TC);
}

/* q = x scale, at most the largest number; fmin and fmax alone would lose a NaN */
REF(fp8_quantize, Fp8Quantize)
{
    int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    double largest = dtype_max(a->q_TC.dtype);
    WANT(a->q_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->scale_1, 1);
    if (tensor_present(a->amax_1)) WANT(a->amax_1, 1);
    if (tensor_present(a->amax_1)) amax_add(a->amax_1, a->x_TC);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double x = *at2(a->x_TC, t, c) * *at1(a->scale_1, 0);
            if (x > largest) x = largest;
            if (x < -largest) x = -largest;
            dtype_convert((char *)a->q_TC.data + t * a->q_TC.stride[0] + c, a->q_TC.dtype, &x, F64, 1);
        }
}

/* a = this amax, or the maximum of the history;  scale = largest / 2^margin / a */
static void scale_of(const Fp8Scale *s, int64_t n, int64_t k)
{
    double *scale = at2(s->scale_NK, n, k), amax = *at2(s->amax_NK, n, k), most = amax;
    int64_t L = s->history_NKL.dim[2];
    if (tensor_present(s->history_NKL)) {
        *at3(s->history_NKL, n, k, 0) = amax;
        for (int64_t l = 0; l < L && !s->most_recent; l++) most = fmax(most, *at3(s->history_NKL, n, k, l));
        for (int64_t l = 0; l < L; l++)
            *at3(s->history_NKL, n, k, l) = l == L - 1 ? amax : *at3(s->history_NKL, n, k, l + 1);
        if (L > 0) *at3(s->history_NKL, n, k, 0) = 0;
    } else {
        *scale = 1;
    }
    if (most > 0 && isfinite(most))
        *scale = fmin(dtype_max(s->format) / ldexp(most, s->margin), dtype_max(F32));
}

REF(fp8_scale, Fp8Scale)
{
    int64_t N = a->scale_NK.dim[0], K = a->scale_NK.dim[1];
    if (tensor_present(a->history_NKL) && q->step_state->unread) return;
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) scale_of(a, n, k);
}

/* y = x wT / (x_scale w_scale) + bias */
REF(fp8_matmul_forward, Fp8MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT_LINEAR(a->y_TK, a->x_TC, a->w_KC);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < K; k++) {
            double sum = 0;
            for (int64_t c = 0; c < C; c++) sum += fp8_at(a->x_TC, t, c) * fp8_at(a->w_KC, k, c);
            *at2(a->y_TK, t, k) = sum / (*at1(a->x_scale_1, 0) * *at1(a->w_scale_1, 0)) +
                                  (tensor_present(a->bias_K) ? *at1(a->bias_K, k) : 0);
        }
}

/* dx = dy w / (dy_scale w_scale) */
REF(fp8_matmul_backward_input, Fp8MatmulBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1], K = a->dy_TK.dim[1];
    WANT_LINEAR(a->dy_TK, a->dx_TC, a->w_KC);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++) sum += fp8_at(a->dy_TK, t, k) * fp8_at(a->w_KC, k, c);
            *at2(a->dx_TC, t, c) = sum / (*at1(a->dy_scale_1, 0) * *at1(a->w_scale_1, 0));
        }
}

/* dw += dyT x / (dy_scale x_scale) */
REF(fp8_matmul_backward_weight, Fp8MatmulBackwardWeight)
{
    int64_t K = a->dw_KC.dim[0], C = a->dw_KC.dim[1], T = a->x_TC.dim[0];
    WANT_LINEAR(a->dy_TK, a->x_TC, a->dw_KC);
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += fp8_at(a->dy_TK, t, k) * fp8_at(a->x_TC, t, c);
            *at2(a->dw_KC, k, c) += sum / (*at1(a->dy_scale_1, 0) * *at1(a->x_scale_1, 0));
        }
}
