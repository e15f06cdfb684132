/* LayerNorm and RMSNorm on a GPU. RMSNorm is LayerNorm with mean = 0 and no bias.
 * T tokens   C channels   h = (x - mean) rstd, the normalized row before gain and bias
 * A row that fits into the registers of a warp is read once by one warp; a longer one by a thread block,
 * which reads it again from the cache. */
#include "tensor/cuda/vector.h"

/* Vectors of a row that a lane holds: up to 1,024 or 2,048 channels in bf16, and half of it in fp32 */
enum { FEW_VECTORS = 4, MANY_VECTORS = 8 };

static void check_norm(int64_t T, int64_t C, const Tensor &mean_T, const Tensor &rstd_T, const Tensor &gain_C,
                       Dtype gain_dtype)
{
    if (tensor_present(mean_T)) GPU_WANT(mean_T, F32, T);
    GPU_WANT(rstd_T, F32, T);
    GPU_WANT(gain_C, gain_dtype, C);
}

/* Calls f with the number of vectors that a lane holds, or 0 where a row is longer than a warp holds. */
template <typename F> static void by_length(int64_t C, int n, F f)
{
    if (C <= 32 * n * FEW_VECTORS)       f(Width<FEW_VECTORS>());
    else if (C <= 32 * n * MANY_VECTORS) f(Width<MANY_VECTORS>());
    else                                 f(Width<0>());
}

/* The row of this thread, its place among those that share it, and how many they are. */
struct RowShare { int64_t t; int lane, lanes; };

template <int HELD> static __device__ __forceinline__ RowShare row_share(void)
{
    if constexpr (HELD == 0) {
        return RowShare{ (int64_t)blockIdx.x, (int)threadIdx.x, GPU_THREADS };
    } else {
        const int warps = GPU_THREADS / GPU_WARP, thread = (int)threadIdx.x;
        return RowShare{ (int64_t)blockIdx.x * warps + thread / GPU_WARP, thread % GPU_WARP, GPU_WARP };
    }
}

template <int HELD> static __device__ __forceinline__ float row_sum(float *part, float v)
{
    if constexpr (HELD == 0) return block_sum(part, v);
    else return lanes_sum(v, GPU_WARP);
}

template <int HELD> static unsigned row_blocks(int64_t T)
{
    return blocks_for(T, HELD == 0 ? 1 : GPU_THREADS / GPU_HOST_WARP);
}

/* f(c, k) for the vectors of this thread: column c, number k of those that it holds */
template <int N, int HELD, typename F>
static __device__ __forceinline__ void each_vector(const RowShare &at, int64_t C, F f)
{
    if constexpr (HELD == 0) {
        for (int64_t c = at.lane * N; c < C; c += at.lanes * N) f(c, 0);
    } else {
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const int64_t c = (int64_t)(at.lane + k * at.lanes) * N;
            if (c < C) f(c, k);
        }
    }
}

/* mean = sum x / C,   rstd = 1 / sqrt(sum (x - mean)^2 / C + epsilon),
 * y = (x - mean) rstd (gain + gain_offset) + bias
 * The variance is computed in two passes, because the one-pass formula E[x^2] - E[x]^2 loses digits. */
template <typename T, int N, int HELD> __global__ void __launch_bounds__(GPU_THREADS)
norm_forward_kernel(NormForward a)
{
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    const int64_t  C = a.x_TC.dim[1];
    const RowShare at = row_share<HELD>();
    if (at.t >= a.x_TC.dim[0]) return;                      /* whole warps, which meet no barrier */
    const T *row = gpu_row<T>(a.x_TC, at.t), *gain_C = (const T *)a.gain_C.data;
    float x[HELD ? HELD : 1][N], mean = 0, square = 0;

    each_vector<N, HELD>(at, C, [&](int64_t c, int k) {
        load(x[k], row + c);
#pragma unroll
        for (int i = 0; i < N; i++) mean += x[k][i];
    });
    mean = present(a.mean_T) ? row_sum<HELD>(part, mean) / (float)C : 0.0f;
    each_vector<N, HELD>(at, C, [&](int64_t c, int k) {
        if (HELD == 0) load(x[k], row + c);
#pragma unroll
        for (int i = 0; i < N; i++) square += (x[k][i] - mean) * (x[k][i] - mean);
    });
    const float rstd = 1.0f / sqrtf(row_sum<HELD>(part, square) / (float)C + (float)a.epsilon);
    each_vector<N, HELD>(at, C, [&](int64_t c, int k) {
        float gain[N], bias[N];
        if (HELD == 0) load(x[k], row + c);
        load(gain, gain_C + c);
        load_or_zero<T>(bias, a.bias_C, c);
#pragma unroll
        for (int i = 0; i < N; i++) x[k][i] = (x[k][i] - mean) * rstd * (gain[i] + a.gain_offset) + bias[i];
        store(gpu_row<T>(a.y_TC, at.t) + c, x[k]);
    });
    if (at.lane == 0) {
        if (present(a.mean_T)) *gpu_row<float>(a.mean_T, at.t) = mean;
        *gpu_row<float>(a.rstd_T, at.t) = rstd;
    }
}

extern "C" void cuda_norm_forward(Queue *q, const NormForward *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    const Dtype   dtype = a->x_TC.dtype;
    GPU_WANT(a->y_TC, dtype, T, C);
    GPU_WANT(a->x_TC, dtype, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->gain_C, dtype);
    if (tensor_present(a->bias_C)) GPU_WANT(a->bias_C, dtype, C);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(C, a->y_TC, a->x_TC, a->gain_C, a->bias_C), [&](auto zero, auto n) {
        by_length(C, n, [&](auto held) {
            const auto norm_forward = norm_forward_kernel<decltype(zero), n, held>;
            GPU_LAUNCH(norm_forward, row_blocks<held>(T), GPU_THREADS, gpu_stream_of(q), *a);
        });
    });
}

/* g = dy (gain + gain_offset),   dx = rstd (g - mean(g) - h mean(g h)) + residual
 * RMSNorm has no mean(g), because no mean is subtracted forward. */
template <typename T, int N, int HELD> __global__ void __launch_bounds__(GPU_THREADS)
norm_backward_input_kernel(NormBackwardInput a)
{
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    const int64_t  C = a.x_TC.dim[1];
    const RowShare at = row_share<HELD>();
    if (at.t >= a.x_TC.dim[0]) return;
    const T *x_row = gpu_row<T>(a.x_TC, at.t), *dy_row = gpu_row<T>(a.dy_TC, at.t);
    const float mean = value_or_zero(a.mean_T, at.t), rstd = *gpu_row<float>(a.rstd_T, at.t);
    float h[HELD ? HELD : 1][N], g[HELD ? HELD : 1][N], mean_g = 0, mean_gh = 0;

    const auto read = [&](int64_t c, int k) {               /* h and g of a vector */
        float gain[N];
        load(h[k], x_row + c);
        load(g[k], dy_row + c);
        load(gain, (const T *)a.gain_C.data + c);
#pragma unroll
        for (int i = 0; i < N; i++) h[k][i] = (h[k][i] - mean) * rstd, g[k][i] *= gain[i] + a.gain_offset;
    };
    each_vector<N, HELD>(at, C, [&](int64_t c, int k) {
        read(c, k);
#pragma unroll
        for (int i = 0; i < N; i++) mean_g += g[k][i], mean_gh += g[k][i] * h[k][i];
    });
    mean_gh = row_sum<HELD>(part, mean_gh) / (float)C;
    mean_g  = present(a.mean_T) ? row_sum<HELD>(part, mean_g) / (float)C : 0.0f;
    each_vector<N, HELD>(at, C, [&](int64_t c, int k) {
        float residual[N];
        if (HELD == 0) read(c, k);
        if (present(a.residual_TC)) load(residual, gpu_row<T>(a.residual_TC, at.t) + c);
#pragma unroll
        for (int i = 0; i < N; i++) {
            h[k][i] = rstd * (g[k][i] - mean_g - h[k][i] * mean_gh);
            if (present(a.residual_TC)) h[k][i] += residual[i];
        }
        store(gpu_row<T>(a.dx_TC, at.t) + c, h[k]);
    });
}

extern "C" void cuda_norm_backward_input(Queue *q, const NormBackwardInput *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    const Dtype   dtype = a->x_TC.dtype;
    GPU_WANT(a->dx_TC, dtype, T, C);
    GPU_WANT(a->dy_TC, dtype, T, C);
    GPU_WANT(a->x_TC, dtype, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->gain_C, dtype);
    if (tensor_present(a->residual_TC)) GPU_WANT(a->residual_TC, dtype, T, C);
    if (T == 0) return;
    const bool wide = all_rows_aligned(C, a->dx_TC, a->dy_TC, a->x_TC, a->gain_C, a->residual_TC);
    by_vector(dtype, wide, [&](auto zero, auto n) {
        by_length(C, n, [&](auto held) {
            const auto norm_backward_input = norm_backward_input_kernel<decltype(zero), n, held>;
            GPU_LAUNCH(norm_backward_input, row_blocks<held>(T), GPU_THREADS, gpu_stream_of(q), *a);
        });
    });
}

/* ---- weight gradients. Rows are divided into at most 256 parts of at least 16 rows, so that a GPU is busy
 *      even when C is small. The division depends on T alone, so every GPU adds in the same order. ---- */
enum { COLUMNS = 32, GROUPS = GPU_THREADS / COLUMNS };      /* threads of a row; rows read at once */
constexpr int64_t MOST_PARTS = 256, LEAST_ROWS = 16;

static int64_t rows_of_part(int64_t T)
{
    const int64_t even = (T + MOST_PARTS - 1) / MOST_PARTS;
    return even > LEAST_ROWS ? even : LEAST_ROWS;
}

extern "C" size_t cuda_norm_backward_weight_workspace(const Queue *, const NormBackwardWeight *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1], rows = rows_of_part(T);
    return (size_t)(2 * ((T + rows - 1) / rows) * C) * sizeof(float);
}

/* part[p] = { sum of dy h, sum of dy } over the p-th part of the rows. Each of 8 groups of threads adds every
 * eighth row, for the same 32 vectors of columns; the groups' sums are added in their order. */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS, 4)
norm_parts_kernel(NormBackwardWeight a, float *part_P2C, int64_t rows)
{
    GPU_SHARED(float, sums, 2 * GROUPS * COLUMNS * N);
    const int64_t rows_of_all = a.x_TC.dim[0], C = a.x_TC.dim[1], p = blockIdx.x;
    const int     column = threadIdx.x % COLUMNS, group = threadIdx.x / COLUMNS;
    const int64_t c = ((int64_t)blockIdx.y * COLUMNS + column) * N;
    const int64_t end = (p + 1) * rows < rows_of_all ? (p + 1) * rows : rows_of_all;
    float dgain[N] = {}, dbias[N] = {};
#pragma unroll 4
    for (int64_t t = p * rows + group; t < end && c < C; t += GROUPS) {
        float dy[N], x[N];
        load(dy, gpu_row<T>(a.dy_TC, t) + c);
        load(x, gpu_row<T>(a.x_TC, t) + c);
        const float mean = value_or_zero(a.mean_T, t), rstd = *gpu_row<float>(a.rstd_T, t);
#pragma unroll
        for (int i = 0; i < N; i++) dgain[i] += dy[i] * (x[i] - mean) * rstd, dbias[i] += dy[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        sums[(group * N + i) * COLUMNS + column]            = dgain[i];
        sums[((GROUPS + group) * N + i) * COLUMNS + column] = dbias[i];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 2 * N * COLUMNS; k += GPU_THREADS) {
        const int     which = k / (N * COLUMNS), in = k % (N * COLUMNS), i = in / COLUMNS;
        const int64_t to = ((int64_t)blockIdx.y * COLUMNS + in % COLUMNS) * N + i;
        float sum = 0;
        for (int g = 0; g < GROUPS; g++) sum += sums[(which * GROUPS + g) * N * COLUMNS + in];
        if (to < C) part_P2C[(2 * p + which) * C + to] = sum;
    }
}

/* dgain += sum over parts,   dbias += sum over parts: eight groups of parts, each in order */
__global__ void __launch_bounds__(GPU_THREADS)
norm_join_kernel(NormBackwardWeight a, const float *part_P2C, int64_t parts)
{
    GPU_SHARED(float, sums, GPU_THREADS);
    const int64_t C = a.x_TC.dim[1], c = (int64_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    const int     group = threadIdx.x / COLUMNS;
    const Tensor &to = blockIdx.y ? a.dbias_C : a.dgain_C;
    float sum = 0;
    for (int64_t p = group; p < parts && c < C; p += GROUPS) sum += part_P2C[(2 * p + blockIdx.y) * C + c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (group > 0 || c >= C || !present(to)) return;
    for (int g = 1; g < GROUPS; g++) sum += sums[g * COLUMNS + threadIdx.x];
    ((float *)to.data)[c] += sum;
}

extern "C" void cuda_norm_backward_weight(Queue *q, const NormBackwardWeight *a)
{
    const int64_t T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    const Dtype   dtype = a->x_TC.dtype;
    GPU_WANT(a->dy_TC, dtype, T, C);
    GPU_WANT(a->x_TC, dtype, T, C);
    check_norm(T, C, a->mean_T, a->rstd_T, a->dgain_C, F32);
    if (tensor_present(a->dbias_C)) GPU_WANT(a->dbias_C, F32, C);
    if (T == 0) return;
    const int64_t rows = rows_of_part(T), parts = blocks_for(T, rows);
    float *part = workspace_of<float>(q, 2 * parts * C);
    by_vector(dtype, all_rows_aligned(C, a->dy_TC, a->x_TC), [&](auto zero, auto n) {
        const auto norm_parts = norm_parts_kernel<decltype(zero), n>;
        const dim3 grid((unsigned)parts, blocks_for(C, COLUMNS * n));
        GPU_LAUNCH(norm_parts, grid, GPU_THREADS, gpu_stream_of(q), *a, part, rows);
    });
    GPU_LAUNCH(norm_join_kernel, dim3(blocks_for(C, COLUMNS), 2), GPU_THREADS, gpu_stream_of(q), *a, part, parts);
}
