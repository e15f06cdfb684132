/* LayerNorm and RMSNorm on a GPU. RMSNorm is LayerNorm with mean = 0 and no bias.
 * T tokens   C channels   h = (x - mean) rstd, the normalized row before gain and bias */
#include "tensor/cuda/block.h"

/* Weight gradients use one thread for each column, and divide the rows into at most 64 parts of at least
 * 16 rows, so that a GPU is busy even when C is small. */
enum { COLUMN_THREADS = 128 };
constexpr int64_t MAX_PARTS = 64, LEAST_ROWS = 16;

static void check_norm(int64_t T, int64_t C, const Tensor &mean_T, const Tensor &rstd_T, const Tensor &gain_C)
{
    if (tensor_present(mean_T)) GPU_WANT(mean_T, F32, T);
    GPU_WANT(rstd_T, F32, T);
    GPU_WANT(gain_C, F32, C);
}

/* mean = sum x / C,   rstd = 1 / sqrt(sum (x - mean)^2 / C + epsilon),   y = (x - mean) rstd gain + bias
 * One thread block for each row, which it reads three times, twice from the cache. The variance is
 * computed in two passes, because the one-pass formula E[x^2] - E[x]^2 loses digits in float. */
__global__ void __launch_bounds__(GPU_THREADS) norm_forward_kernel(NormForward a)
{
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    const int64_t t = blockIdx.x, C = a.x_TC.dim[1], first = threadIdx.x, step = blockDim.x;
    const float *x = gpu_row<float>(a.x_TC, t), *gain = (const float *)a.gain_C.data;
    float       *y = gpu_row<float>(a.y_TC, t);

    float mean = 0;
    if (present(a.mean_T)) {
        for (int64_t c = first; c < C; c += step) mean += x[c];
        mean = block_sum(part, mean) / (float)C;
    }
    float square = 0;
    for (int64_t c = first; c < C; c += step) square += (x[c] - mean) * (x[c] - mean);
    const float rstd = 1.0f / sqrtf(block_sum(part, square) / (float)C + (float)a.epsilon);

    for (int64_t c = first; c < C; c += step)
        y[c] = (x[c] - mean) * rstd * gain[c] + value_or_zero(a.bias_C, c);
    if (threadIdx.x == 0) {
        if (present(a.mean_T)) *gpu_row<float>(a.mean_T, t) = mean;
        *gpu_row<float>(a.rstd_T, t) = rstd;
    }
}

extern "C" void cuda_norm_forward(Queue *q, const NormForward *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    GPU_WANT(a->y_TC, F32, T, C);
    GPU_WANT(a->x_TC, F32, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->gain_C);
    if (tensor_present(a->bias_C)) GPU_WANT(a->bias_C, F32, C);
    if (T > 0) GPU_LAUNCH(norm_forward_kernel, blocks_for(T, 1), GPU_THREADS, gpu_stream_of(q), *a);
}

/* g = dy gain,   dx = rstd (g - mean(g) - h mean(g h)) + residual
 * One thread block for each row. RMSNorm has no mean(g), because no mean is subtracted forward. */
__global__ void __launch_bounds__(GPU_THREADS) norm_backward_input_kernel(NormBackwardInput a)
{
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    const int64_t t = blockIdx.x, C = a.x_TC.dim[1], first = threadIdx.x, step = blockDim.x;
    const float *x = gpu_row<float>(a.x_TC, t), *dy = gpu_row<float>(a.dy_TC, t);
    const float *gain = (const float *)a.gain_C.data;
    const float *residual = present(a.residual_TC) ? gpu_row<float>(a.residual_TC, t) : nullptr;
    const float  mean = value_or_zero(a.mean_T, t), rstd = *gpu_row<float>(a.rstd_T, t);
    float       *dx = gpu_row<float>(a.dx_TC, t);

    float mean_g = 0, mean_gh = 0;
    for (int64_t c = first; c < C; c += step) {
        const float g = dy[c] * gain[c];
        mean_g  += g;
        mean_gh += g * (x[c] - mean) * rstd;
    }
    mean_gh = block_sum(part, mean_gh) / (float)C;
    mean_g  = present(a.mean_T) ? block_sum(part, mean_g) / (float)C : 0.0f;

    for (int64_t c = first; c < C; c += step) {
        const float h = (x[c] - mean) * rstd, d = rstd * (dy[c] * gain[c] - mean_g - h * mean_gh);
        dx[c] = residual ? d + residual[c] : d;
    }
}

extern "C" void cuda_norm_backward_input(Queue *q, const NormBackwardInput *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    GPU_WANT(a->dx_TC, F32, T, C);
    GPU_WANT(a->dy_TC, F32, T, C);
    GPU_WANT(a->x_TC, F32, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->gain_C);
    if (tensor_present(a->residual_TC)) GPU_WANT(a->residual_TC, F32, T, C);
    if (T > 0) GPU_LAUNCH(norm_backward_input_kernel, blocks_for(T, 1), GPU_THREADS, gpu_stream_of(q), *a);
}

/* part[p] = { sum of dy h, sum of dy } over the p-th part of the rows; one thread for each column, so that
 * the threads of a warp read consecutive channels */
__global__ void __launch_bounds__(COLUMN_THREADS)
norm_parts_kernel(NormBackwardWeight a, float *part_P2C, int64_t rows)
{
    const int64_t T = a.x_TC.dim[0], C = a.x_TC.dim[1], p = blockIdx.x;
    const int64_t c = (int64_t)blockIdx.y * COLUMN_THREADS + threadIdx.x;
    if (c >= C) return;
    float dgain = 0, dbias = 0;
    for (int64_t t = p * rows; t < T && t < (p + 1) * rows; t++) {
        const float dy = gpu_row<float>(a.dy_TC, t)[c], x = gpu_row<float>(a.x_TC, t)[c];
        dgain += dy * (x - value_or_zero(a.mean_T, t)) * *gpu_row<float>(a.rstd_T, t);
        dbias += dy;
    }
    part_P2C[(2 * p) * C + c]     = dgain;
    part_P2C[(2 * p + 1) * C + c] = dbias;
}

/* dgain += sum over parts,   dbias += sum over parts, in the order of the parts */
__global__ void __launch_bounds__(COLUMN_THREADS)
norm_join_kernel(NormBackwardWeight a, const float *part_P2C, int64_t parts)
{
    const int64_t C = a.x_TC.dim[1], c = (int64_t)blockIdx.x * COLUMN_THREADS + threadIdx.x;
    if (c >= C) return;
    float dgain = 0, dbias = 0;
    for (int64_t p = 0; p < parts; p++) {
        dgain += part_P2C[(2 * p) * C + c];
        dbias += part_P2C[(2 * p + 1) * C + c];
    }
    ((float *)a.dgain_C.data)[c] += dgain;
    if (present(a.dbias_C)) ((float *)a.dbias_C.data)[c] += dbias;
}

extern "C" void cuda_norm_backward_weight(Queue *q, const NormBackwardWeight *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    GPU_WANT(a->dy_TC, F32, T, C);
    GPU_WANT(a->x_TC, F32, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->dgain_C);
    if (tensor_present(a->dbias_C)) GPU_WANT(a->dbias_C, F32, C);
    if (T == 0) return;
    /* The division into parts depends on T alone, so that every GPU adds in the same order. */
    const int64_t even = (T + MAX_PARTS - 1) / MAX_PARTS, rows = even > LEAST_ROWS ? even : LEAST_ROWS;
    const unsigned parts = blocks_for(T, rows), tiles = blocks_for(C, COLUMN_THREADS);
    float *part = workspace_of<float>(q, 2 * (int64_t)parts * C);
    GPU_LAUNCH(norm_parts_kernel, dim3(parts, tiles), COLUMN_THREADS, gpu_stream_of(q), *a, part, rows);
    GPU_LAUNCH(norm_join_kernel, tiles, COLUMN_THREADS, gpu_stream_of(q), *a, part, (int64_t)parts);
}

extern "C" size_t cuda_norm_backward_weight_workspace(const Queue *, const NormBackwardWeight *a)
{
    return (size_t)(2 * MAX_PARTS * a->x_TC.dim[1]) * sizeof(float);
}
