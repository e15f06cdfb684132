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

/* y = h (gain + gain_offset) + bias,   rstd = 1 / sqrt(mean of (x - mean)^2 + epsilon) */
static CLONES void norm_forward_rows(void *context, int64_t begin, int64_t end)
{
    const NormForward *a = context;
    int64_t C = a->y_TC.dim[1];
    float offset = a->gain_offset;
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
            for (int64_t c = 0; c < n && biased; c++)
                y[c] = (x[c] - mean) * rstd * (gain[c] + offset) + bias[c];
            for (int64_t c = 0; c < n && !biased; c++) y[c] = (x[c] - mean) * rstd * (gain[c] + offset);
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
    team_for(q->team, T, chunk_of_few(T, C), norm_forward_rows, (void *)a);
}

/* With g = dy (gain + gain_offset):   dx = rstd (g - mean of g - h mean of (g h)) + residual
 * RMSNorm has no mean of g, because no mean is subtracted forward. */
static CLONES void norm_backward_rows(void *context, int64_t begin, int64_t end)
{
    const NormBackwardInput *a = context;
    int64_t C = a->dx_TC.dim[1];
    float offset = a->gain_offset;
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
                Vec g = *(const Vec *)(dy + c) * (*(const Vec *)(gain + c) + offset);
                sum_g += __builtin_convertvector(g, Doubles);
                sum_gh += __builtin_convertvector(g * ((*(const Vec *)(x + c) - mean) * rstd), Doubles);
            }
            for (; c < n; c++) {
                float g = dy[c] * (gain[c] + offset);
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
                dx[c] = rstd * (dy[c] * (gain[c] + offset) - mean_g - (x[c] - mean) * rstd * mean_gh)
                      + residual[c];
            for (int64_t c = 0; c < n && !added; c++)
                dx[c] = rstd * (dy[c] * (gain[c] + offset) - mean_g - (x[c] - mean) * rstd * mean_gh);
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

/* ---- of heads of queries and keys (QK norm): T tokens   n heads   D channels of a head   M statistics of a
 *      token, N gains of a channel: n or 1 ---- */

/* Channel 0 of a head, in elements from the beginning of its row */
INLINE int64_t head_at(Tensor x_TnD, int64_t i) { return i * x_TnD.stride[1]; }
INLINE float *statistic(Tensor x_TM, int64_t t, int64_t i)
{
    return (float *)x_TM.data + t * x_TM.stride[0] + (x_TM.dim[1] == 1 ? 0 : i);
}
INLINE const float *gain_read(TileBuffer *buffer, Tensor gain_ND, int64_t i, int64_t first, int64_t n)
{
    return tile_read(buffer, gain_ND, gain_ND.dim[0] == 1 ? 0 : i, first, n);
}

static void want_heads(Tensor x_TnD, Tensor y_TnD, Tensor rstd_TM, Tensor sum_TM)
{
    int64_t T = x_TnD.dim[0], n = x_TnD.dim[1], D = x_TnD.dim[2], M = sum_TM.dim[1] == 1 ? 1 : n;
    WANT(x_TnD, T, n, D);
    WANT(y_TnD, T, n, D);
    WANT(rstd_TM, T, M);
    WANT(sum_TM, T, M);
}

static void want_head_gain(Tensor gain_ND, Tensor x_TnD)
{
    WANT(gain_ND, gain_ND.dim[0] == 1 ? 1 : x_TnD.dim[1], x_TnD.dim[2]);
}

static int64_t rows_of_chunk(Tensor x_TnD) { return chunk_rows(x_TnD.dim[1] * x_TnD.dim[2]); }

/* ---- forward ---- */

INLINE double squares(TileBuffer *buffer, Tensor x_TnD, int64_t t, int64_t i)
{
    Doubles sum = { 0 };
    int64_t D = x_TnD.dim[2];
    for (int64_t first = 0; first < D; first += TILE) {
        int64_t n = tile_count(D, first), d = 0;
        const float *x = tile_read(buffer, x_TnD, t, head_at(x_TnD, i) + first, n);
        for (; d + LANES <= n; d += LANES) { Doubles v = doubles_of(x + d); sum += v * v; }
        for (; d < n; d++) sum[d % LANES] += (double)x[d] * (double)x[d];
    }
    return lanes_total(&sum);
}

static CLONES void head_sums_rows(void *context, int64_t begin, int64_t end)
{
    const HeadNormSums *a = context;
    TileBuffer buffer;
    for (int64_t t = begin; t < end; t++) {
        double all = 0;
        for (int64_t i = 0; i < a->x_TnD.dim[1]; i++) {
            double one = squares(&buffer, a->x_TnD, t, i);
            all += one;
            *statistic(a->sum_TM, t, i) = (float)(a->sum_TM.dim[1] == 1 ? all : one);
        }
    }
}

CPU(head_norm_sums, HeadNormSums)
{
    want_heads(a->x_TnD, a->x_TnD, a->sum_TM, a->sum_TM);
    team_for(q->team, a->x_TnD.dim[0], rows_of_chunk(a->x_TnD), head_sums_rows, (void *)a);
}

static CLONES void head_forward_rows(void *context, int64_t begin, int64_t end)
{
    const HeadNormForward *a = context;
    int64_t D = a->x_TnD.dim[2];
    TileBuffer x_tile, y_tile, gain_tile;
    for (int64_t t = begin; t < end; t++)
        for (int64_t i = 0; i < a->x_TnD.dim[1]; i++) {
            float rstd = (float)(1 / sqrt((double)*statistic(a->sum_TM, t, i) / a->channels + a->epsilon));
            *statistic(a->rstd_TM, t, i) = rstd;
            for (int64_t first = 0; first < D; first += TILE) {
                int64_t n = tile_count(D, first), y_at = head_at(a->y_TnD, i) + first;
                const float *x = tile_read(&x_tile, a->x_TnD, t, head_at(a->x_TnD, i) + first, n);
                const float *gain = gain_read(&gain_tile, a->gain_ND, i, first, n);
                float *y = tile_begin(&y_tile, a->y_TnD, t, y_at);
                for (int64_t d = 0; d < n; d++) y[d] = x[d] * rstd * (gain[d] + a->gain_offset);
                tile_end(&y_tile, a->y_TnD, t, y_at, n);
            }
        }
}

CPU(head_norm_forward, HeadNormForward)
{
    want_heads(a->x_TnD, a->y_TnD, a->rstd_TM, a->sum_TM);
    want_head_gain(a->gain_ND, a->x_TnD);
    team_for(q->team, a->x_TnD.dim[0], rows_of_chunk(a->x_TnD), head_forward_rows, (void *)a);
}

/* ---- backward ---- */

static CLONES void head_backward_sums_rows(void *context, int64_t begin, int64_t end)
{
    const HeadNormBackwardSums *a = context;
    int64_t D = a->x_TnD.dim[2];
    TileBuffer x_tile, dy_tile, gain_tile;
    for (int64_t t = begin; t < end; t++) {
        double all = 0;
        for (int64_t i = 0; i < a->x_TnD.dim[1]; i++) {
            float rstd = *statistic(a->rstd_TM, t, i);
            double one = 0;
            for (int64_t first = 0; first < D; first += TILE) {
                int64_t n = tile_count(D, first);
                const float *x = tile_read(&x_tile, a->x_TnD, t, head_at(a->x_TnD, i) + first, n);
                const float *dy = tile_read(&dy_tile, a->dy_TnD, t, head_at(a->dy_TnD, i) + first, n);
                const float *gain = gain_read(&gain_tile, a->gain_ND, i, first, n);
                for (int64_t d = 0; d < n; d++)
                    one += (double)(dy[d] * (gain[d] + a->gain_offset)) * (double)(x[d] * rstd);
            }
            all += one;
            *statistic(a->sum_TM, t, i) = (float)(a->sum_TM.dim[1] == 1 ? all : one);
        }
    }
}

CPU(head_norm_backward_sums, HeadNormBackwardSums)
{
    want_heads(a->x_TnD, a->dy_TnD, a->rstd_TM, a->sum_TM);
    want_head_gain(a->gain_ND, a->x_TnD);
    team_for(q->team, a->x_TnD.dim[0], rows_of_chunk(a->x_TnD), head_backward_sums_rows, (void *)a);
}

static CLONES void head_backward_rows(void *context, int64_t begin, int64_t end)
{
    const HeadNormBackwardInput *a = context;
    int64_t D = a->x_TnD.dim[2];
    TileBuffer x_tile, dy_tile, dx_tile, gain_tile;
    for (int64_t t = begin; t < end; t++)
        for (int64_t i = 0; i < a->x_TnD.dim[1]; i++) {
            float rstd = *statistic(a->rstd_TM, t, i);
            float mean = (float)((double)*statistic(a->sum_TM, t, i) / a->channels);
            for (int64_t first = 0; first < D; first += TILE) {
                int64_t n = tile_count(D, first), dx_at = head_at(a->dx_TnD, i) + first;
                const float *x = tile_read(&x_tile, a->x_TnD, t, head_at(a->x_TnD, i) + first, n);
                const float *dy = tile_read(&dy_tile, a->dy_TnD, t, head_at(a->dy_TnD, i) + first, n);
                const float *gain = gain_read(&gain_tile, a->gain_ND, i, first, n);
                float *dx = tile_begin(&dx_tile, a->dx_TnD, t, dx_at);
                for (int64_t d = 0; d < n; d++)
                    dx[d] = rstd * (dy[d] * (gain[d] + a->gain_offset) - x[d] * rstd * mean);
                tile_end(&dx_tile, a->dx_TnD, t, dx_at, n);
            }
        }
}

CPU(head_norm_backward_input, HeadNormBackwardInput)
{
    want_heads(a->x_TnD, a->dy_TnD, a->rstd_TM, a->sum_TM);
    want_heads(a->x_TnD, a->dx_TnD, a->rstd_TM, a->sum_TM);
    want_head_gain(a->gain_ND, a->x_TnD);
    team_for(q->team, a->x_TnD.dim[0], rows_of_chunk(a->x_TnD), head_backward_rows, (void *)a);
}

/* A chunk of work owns columns of the gain and reads all rows in order, and where all heads have one gain
 * their heads in order, so that the sums have a fixed order. */
static CLONES void head_gain_columns(void *context, int64_t begin, int64_t end)
{
    const HeadNormBackwardWeight *a = context;
    int64_t D = a->x_TnD.dim[2], heads = a->x_TnD.dim[1];
    bool shared = a->dgain_ND.dim[0] == 1;
    TileBuffer x_tile, dy_tile;
    while (begin < end) {
        int64_t own = begin / D, first = begin % D, n = end - begin;
        if (n > D - first) n = D - first;
        if (n > COLUMNS) n = COLUMNS;
        double sum[COLUMNS] = { 0 };
        for (int64_t t = 0; t < a->x_TnD.dim[0]; t++)
            for (int64_t i = shared ? 0 : own; i < (shared ? heads : own + 1); i++) {
                const float *x = tile_read(&x_tile, a->x_TnD, t, head_at(a->x_TnD, i) + first, n);
                const float *dy = tile_read(&dy_tile, a->dy_TnD, t, head_at(a->dy_TnD, i) + first, n);
                float rstd = *statistic(a->rstd_TM, t, i);
                for (int64_t d = 0; d < n; d++) sum[d] += (double)(dy[d] * (x[d] * rstd));
            }
        float *dgain = row(a->dgain_ND, shared ? 0 : own) + first;
        for (int64_t d = 0; d < n; d++) dgain[d] += (float)sum[d];
        begin += n;
    }
}

CPU(head_norm_backward_weight, HeadNormBackwardWeight)
{
    want_heads(a->x_TnD, a->dy_TnD, a->rstd_TM, a->rstd_TM);
    want_head_gain(a->dgain_ND, a->x_TnD);
    team_for(q->team, a->dgain_ND.dim[0] * a->x_TnD.dim[2], COLUMNS, head_gain_columns, (void *)a);
}
