/* LayerNorm, and RMSNorm where mean is absent: it is LayerNorm with mean = 0 and no bias.
 * T rows   C channels   h = (x - mean) rstd, the normalized row before gain and bias
 * Sums over channels and tokens are in double, because float would lose the most digits there. */
#include "tensor/cpu/cpu.h"

/* sum of x, and of (x - mean)^2, over the channels of row t */
INLINE double norm_sum(TileBuffer *buffer, Tensor x_TC, int64_t t)
{
    Doubles sum = { 0 };
    for (int64_t first = 0; first < x_TC.dim[1]; first += TILE) {
        int64_t n = tile_count(x_TC.dim[1], first);
        const float *x = tile_read(buffer, x_TC, t, first, n);
        int64_t c = 0;
        for (; c + LANES <= n; c += LANES) sum += doubles_of(x + c);
        for (; c < n; c++) sum[c % LANES] += (double)x[c];
    }
    return lanes_total(&sum);
}

INLINE double norm_squares(TileBuffer *buffer, Tensor x_TC, int64_t t, float mean)
{
    Doubles sum = { 0 };
    for (int64_t first = 0; first < x_TC.dim[1]; first += TILE) {
        int64_t n = tile_count(x_TC.dim[1], first);
        const float *x = tile_read(buffer, x_TC, t, first, n);
        int64_t c = 0;
        for (; c + LANES <= n; c += LANES) {
            Doubles off = __builtin_convertvector(*(const Vec *)(x + c) - mean, Doubles);
            sum += off * off;
        }
        for (; c < n; c++) sum[c % LANES] += (double)(x[c] - mean) * (double)(x[c] - mean);
    }
    return lanes_total(&sum);
}

/* y = h gain + bias,   rstd = 1 / sqrt(mean of (x - mean)^2 + epsilon) */
static CLONES void norm_forward_rows(void *context, int64_t begin, int64_t end)
{
    const NormForward *a = context;
    int64_t C = a->y_TC.dim[1];
    bool centred = tensor_present(a->mean_T), biased = tensor_present(a->bias_C);
    TileBuffer x_tile, y_tile, gain_tile, bias_tile;
    for (int64_t t = begin; t < end; t++) {
        float mean = centred ? (float)(norm_sum(&x_tile, a->x_TC, t) / (double)C) : 0;
        float rstd = (float)(1 / sqrt(norm_squares(&x_tile, a->x_TC, t, mean) / (double)C + a->epsilon));
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->x_TC, t, first, n);
            const float *gain = tile_read(&gain_tile, a->gain_C, 0, first, n);
            const float *bias = biased ? tile_read(&bias_tile, a->bias_C, 0, first, n) : NULL;
            float *y = tile_begin(&y_tile, a->y_TC, t, first);
            if (biased) for (int64_t c = 0; c < n; c++) y[c] = (x[c] - mean) * rstd * gain[c] + bias[c];
            else for (int64_t c = 0; c < n; c++) y[c] = (x[c] - mean) * rstd * gain[c];
            tile_end(&y_tile, a->y_TC, t, first, n);
        }
        flat(a->rstd_T)[t] = rstd;
        if (centred) flat(a->mean_T)[t] = mean;
    }
}

CPU(norm_forward, NormForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    WANT(a->gain_C, C);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, T);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, C);
    team_for(q->team, T, chunk_rows(C), norm_forward_rows, (void *)a);
}

/* With g = dy gain:   dx = rstd (g - mean of g - h mean of (g h)) + residual
 * RMSNorm has no mean of g, because no mean is subtracted forward. */
static CLONES void norm_backward_rows(void *context, int64_t begin, int64_t end)
{
    const NormBackwardInput *a = context;
    int64_t C = a->dx_TC.dim[1];
    bool centred = tensor_present(a->mean_T), added = tensor_present(a->residual_TC);
    TileBuffer x_tile, dy_tile, dx_tile, gain_tile, residual_tile;
    for (int64_t t = begin; t < end; t++) {
        float  mean = centred ? flat(a->mean_T)[t] : 0, rstd = flat(a->rstd_T)[t];
        Doubles sum_g = { 0 }, sum_gh = { 0 };
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->x_TC, t, first, n);
            const float *dy = tile_read(&dy_tile, a->dy_TC, t, first, n);
            const float *gain = tile_read(&gain_tile, a->gain_C, 0, first, n);
            int64_t c = 0;
            for (; c + LANES <= n; c += LANES) {
                Vec g = *(const Vec *)(dy + c) * *(const Vec *)(gain + c);
                sum_g += __builtin_convertvector(g, Doubles);
                sum_gh += __builtin_convertvector(g * ((*(const Vec *)(x + c) - mean) * rstd), Doubles);
            }
            for (; c < n; c++) {
                float g = dy[c] * gain[c];
                sum_g[c % LANES] += (double)g;
                sum_gh[c % LANES] += (double)(g * ((x[c] - mean) * rstd));
            }
        }
        float mean_g = centred ? (float)(lanes_total(&sum_g) / (double)C) : 0;
        float mean_gh = (float)(lanes_total(&sum_gh) / (double)C);
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->x_TC, t, first, n);
            const float *dy = tile_read(&dy_tile, a->dy_TC, t, first, n);
            const float *gain = tile_read(&gain_tile, a->gain_C, 0, first, n);
            const float *residual = added ? tile_read(&residual_tile, a->residual_TC, t, first, n) : NULL;
            float *dx = tile_begin(&dx_tile, a->dx_TC, t, first);
            for (int64_t c = 0; c < n && added; c++)
                dx[c] = rstd * (dy[c] * gain[c] - mean_g - (x[c] - mean) * rstd * mean_gh) + residual[c];
            for (int64_t c = 0; c < n && !added; c++)
                dx[c] = rstd * (dy[c] * gain[c] - mean_g - (x[c] - mean) * rstd * mean_gh);
            tile_end(&dx_tile, a->dx_TC, t, first, n);
        }
    }
}

CPU(norm_backward_input, NormBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    WANT(a->gain_C, C);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, T);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, T, C);
    team_for(q->team, T, chunk_rows(C), norm_backward_rows, (void *)a);
}

/* dgain += sum over rows of dy h,   dbias += sum over rows of dy
 * A chunk of work owns columns and reads all rows in order, so that the sums have a fixed order. */
INLINE void norm_backward_strip(const NormBackwardWeight *a, int64_t first, int64_t columns)
{
    bool centred = tensor_present(a->mean_T);
    double dgain[COLUMNS] = { 0 }, dbias[COLUMNS] = { 0 };
    TileBuffer dy_tile, x_tile;
    for (int64_t t = 0; t < a->dy_TC.dim[0]; t++) {
        const float *dy = tile_read(&dy_tile, a->dy_TC, t, first, columns);
        const float *x = tile_read(&x_tile, a->x_TC, t, first, columns);
        float mean = centred ? flat(a->mean_T)[t] : 0, rstd = flat(a->rstd_T)[t];
        for (int64_t c = 0; c < columns; c++) {
            dgain[c] += (double)(dy[c] * ((x[c] - mean) * rstd));
            dbias[c] += (double)dy[c];
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        flat(a->dgain_C)[first + c] += (float)dgain[c];
        if (tensor_present(a->dbias_C)) flat(a->dbias_C)[first + c] += (float)dbias[c];
    }
}

static CLONES void norm_backward_columns(void *context, int64_t begin, int64_t end)
{
    if (end - begin == COLUMNS) norm_backward_strip(context, begin, COLUMNS);
    else norm_backward_strip(context, begin, end - begin);
}

CPU(norm_backward_weight, NormBackwardWeight)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1];
    WANT(a->dgain_C, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->rstd_T, T);
    if (tensor_present(a->mean_T)) WANT(a->mean_T, T);
    if (tensor_present(a->dbias_C)) WANT(a->dbias_C, C);
    team_for(q->team, C, COLUMNS, norm_backward_columns, (void *)a);
}
