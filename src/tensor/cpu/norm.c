/* LayerNorm, and RMSNorm where mean is absent: it is LayerNorm with mean = 0 and no bias.
 * T rows   C channels   h = (x - mean) rstd, the normalized row before gain and bias
 * Sums over channels and tokens are in double, because float would lose the most digits there. */
#include "tensor/cpu/cpu.h"

/* y = h gain + bias,   rstd = 1 / sqrt(mean of (x - mean)^2 + epsilon) */
static CLONES void norm_forward_rows(void *context, int64_t begin, int64_t end)
{
    const NormForward *a = context;
    int64_t C = a->y_TC.dim[1];
    bool centred = tensor_present(a->mean_T), biased = tensor_present(a->bias_C);
    const float *gain = flat(a->gain_C), *bias = flat(a->bias_C);
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->x_TC, t);
        float *y = row(a->y_TC, t);
        double sum = 0, square = 0;
        for (int64_t c = 0; c < C && centred; c++) sum += (double)x[c];
        float mean = (float)(sum / (double)C);
        for (int64_t c = 0; c < C; c++) square += (double)(x[c] - mean) * (double)(x[c] - mean);
        float rstd = (float)(1 / sqrt(square / (double)C + a->epsilon));
        if (biased) for (int64_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gain[c] + bias[c];
        else for (int64_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gain[c];
        flat(a->rstd_T)[t] = rstd;
        if (centred) flat(a->mean_T)[t] = mean;
    }
}

CPU(norm_forward, NormForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, F32, T, C);
    WANT(a->x_TC, F32, T, C);
    WANT(a->rstd_T, F32, T);
    WANT(a->gain_C, F32, C);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, F32, T);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, F32, C);
    team_for(q->team, T, chunk_rows(C), norm_forward_rows, (void *)a);
}

/* With g = dy gain:   dx = rstd (g - mean of g - h mean of (g h)) + residual
 * RMSNorm has no mean of g, because no mean is subtracted forward. */
static CLONES void norm_backward_rows(void *context, int64_t begin, int64_t end)
{
    const NormBackwardInput *a = context;
    int64_t C = a->dx_TC.dim[1];
    bool centred = tensor_present(a->mean_T);
    const float *gain = flat(a->gain_C);
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->x_TC, t), *dy = row(a->dy_TC, t);
        float *dx = row(a->dx_TC, t), mean = centred ? flat(a->mean_T)[t] : 0, rstd = flat(a->rstd_T)[t];
        double sum_g = 0, sum_gh = 0;
        for (int64_t c = 0; c < C; c++) {
            float g = dy[c] * gain[c];
            sum_g += (double)g;
            sum_gh += (double)(g * ((x[c] - mean) * rstd));
        }
        float mean_g = centred ? (float)(sum_g / (double)C) : 0, mean_gh = (float)(sum_gh / (double)C);
        if (tensor_present(a->residual_TC)) {
            const float *residual = row(a->residual_TC, t);
            for (int64_t c = 0; c < C; c++)
                dx[c] = rstd * (dy[c] * gain[c] - mean_g - (x[c] - mean) * rstd * mean_gh) + residual[c];
        } else {
            for (int64_t c = 0; c < C; c++)
                dx[c] = rstd * (dy[c] * gain[c] - mean_g - (x[c] - mean) * rstd * mean_gh);
        }
    }
}

CPU(norm_backward_input, NormBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, F32, T, C);
    WANT(a->dy_TC, F32, T, C);
    WANT(a->x_TC, F32, T, C);
    WANT(a->rstd_T, F32, T);
    WANT(a->gain_C, F32, C);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, F32, T);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, F32, T, C);
    team_for(q->team, T, chunk_rows(C), norm_backward_rows, (void *)a);
}

/* dgain += sum over rows of dy h,   dbias += sum over rows of dy
 * A chunk of work owns columns and reads all rows in order, so that the sums have a fixed order. */
enum { COLUMNS = 64 };
static CLONES void norm_backward_columns(void *context, int64_t begin, int64_t end)
{
    const NormBackwardWeight *a = context;
    bool centred = tensor_present(a->mean_T);
    double dgain[COLUMNS] = { 0 }, dbias[COLUMNS] = { 0 };
    for (int64_t t = 0; t < a->dy_TC.dim[0]; t++) {
        const float *dy = row(a->dy_TC, t) + begin, *x = row(a->x_TC, t) + begin;
        float mean = centred ? flat(a->mean_T)[t] : 0, rstd = flat(a->rstd_T)[t];
        for (int64_t c = 0; c < end - begin; c++) {
            dgain[c] += (double)(dy[c] * ((x[c] - mean) * rstd));
            dbias[c] += (double)dy[c];
        }
    }
    for (int64_t c = begin; c < end; c++) {
        flat(a->dgain_C)[c] += (float)dgain[c - begin];
        if (tensor_present(a->dbias_C)) flat(a->dbias_C)[c] += (float)dbias[c - begin];
    }
}

CPU(norm_backward_weight, NormBackwardWeight)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1];
    WANT(a->dgain_C, F32, C);
    WANT(a->dy_TC, F32, T, C);
    WANT(a->x_TC, F32, T, C);
    WANT(a->rstd_T, F32, T);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, F32, T);
    if (tensor_present(a->dbias_C)) WANT(a->dbias_C, F32, C);
    team_for(q->team, C, COLUMNS, norm_backward_columns, (void *)a);
}
