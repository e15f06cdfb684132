/* LayerNorm, and RMSNorm where mean is absent: it is LayerNorm with mean = 0 and no bias.
 * T rows   C channels   h = (x - mean) rstd, the normalized row before gain and bias */
#include "tensor/ref/ref.h"

/* y = h (gain + gain_offset) + bias,   rstd = 1 / sqrt(mean of (x - mean)^2 + epsilon) */
REF(norm_forward, NormForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    bool centred = tensor_present(a->mean_T), biased = tensor_present(a->bias_C);
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    WANT(a->gain_C, C);
    if (centred) WANT(a->mean_T, T);
    if (biased) WANT(a->bias_C, C);
    for (int64_t t = 0; t < T; t++) {
        double mean = 0, square = 0;
        for (int64_t c = 0; c < C && centred; c++) mean += *at2(a->x_TC, t, c) / (double)C;
        for (int64_t c = 0; c < C; c++) square += pow(*at2(a->x_TC, t, c) - mean, 2) / (double)C;
        double rstd = 1 / sqrt(square + a->epsilon);
        for (int64_t c = 0; c < C; c++)
            *at2(a->y_TC, t, c) = (*at2(a->x_TC, t, c) - mean) * rstd *
                                  (*at1(a->gain_C, c) + (double)a->gain_offset) +
                                  (biased ? *at1(a->bias_C, c) : 0);
        *at1(a->rstd_T, t) = rstd;
        if (centred) *at1(a->mean_T, t) = mean;
    }
}

/* With g = dy (gain + gain_offset):   dx = rstd (g - mean of g - h mean of (g h)) + residual
 * RMSNorm has no mean of g, because no mean is subtracted forward. */
REF(norm_backward_input, NormBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    bool centred = tensor_present(a->mean_T), joined = tensor_present(a->residual_TC);
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    WANT(a->gain_C, C);
    if (centred) WANT(a->mean_T, T);
    if (joined) WANT(a->residual_TC, T, C);
    for (int64_t t = 0; t < T; t++) {
        double mean = centred ? *at1(a->mean_T, t) : 0, rstd = *at1(a->rstd_T, t), mean_g = 0, mean_gh = 0;
        for (int64_t c = 0; c < C; c++) {
            double g = *at2(a->dy_TC, t, c) * (*at1(a->gain_C, c) + (double)a->gain_offset);
            double h = (*at2(a->x_TC, t, c) - mean) * rstd;
            if (centred) mean_g += g / (double)C;
            mean_gh += g * h / (double)C;
        }
        for (int64_t c = 0; c < C; c++) {
            double g = *at2(a->dy_TC, t, c) * (*at1(a->gain_C, c) + (double)a->gain_offset);
            double h = (*at2(a->x_TC, t, c) - mean) * rstd;
            double residual = joined ? *at2(a->residual_TC, t, c) : 0;
            *at2(a->dx_TC, t, c) = rstd * (g - mean_g - h * mean_gh) + residual;
        }
    }
}

/* dgain += sum over rows of dy h,   dbias += sum over rows of dy */
REF(norm_backward_weight, NormBackwardWeight)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1];
    bool centred = tensor_present(a->mean_T), biased = tensor_present(a->dbias_C);
    WANT(a->dgain_C, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    if (centred) WANT(a->mean_T, T);
    if (biased) WANT(a->dbias_C, C);
    for (int64_t c = 0; c < C; c++) {
        double dgain = 0, dbias = 0;
        for (int64_t t = 0; t < T; t++) {
            double mean = centred ? *at1(a->mean_T, t) : 0;
            dgain += *at2(a->dy_TC, t, c) * (*at2(a->x_TC, t, c) - mean) * *at1(a->rstd_T, t);
            dbias += *at2(a->dy_TC, t, c);
        }
        *at1(a->dgain_C, c) += dgain;
        if (biased) *at1(a->dbias_C, c) += dbias;
    }
}
