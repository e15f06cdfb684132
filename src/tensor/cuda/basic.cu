/* Fill, copy, conversions and sums on a GPU.
 * N elements of a flat tensor   R ranks   T rows   K columns */
#include "tensor/cuda/vector.h"
#include "tensor/checksum.h"

/* ---- any strides: one thread for each element, in row-major order of y ---- */
struct Bytes2 { uint16_t bits; };              /* elements that are only moved, by their width */
struct Bytes8 { uint64_t bits; };

struct Strided {
    int64_t dim[4], y_stride[4], x_stride[4], count;
    void       *y;
    const void *x;
};

__device__ __forceinline__ void offsets_of(const Strided &a, int64_t i, int64_t *y, int64_t *x)
{
    *y = *x = 0;
    for (int d = 3; d >= 0; d--) {
        const int64_t at = i % a.dim[d];
        i  /= a.dim[d];
        *y += at * a.y_stride[d];
        *x += at * a.x_stride[d];
    }
}

template <typename T> __global__ void __launch_bounds__(GPU_THREADS) strided_copy_kernel(Strided a)
{
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    int64_t y, x;
    if (i >= a.count) return;
    offsets_of(a, i, &y, &x);
    ((T *)a.y)[y] = a.x ? ((const T *)a.x)[x] : T{};
}

template <typename Y, typename X> __global__ void __launch_bounds__(GPU_THREADS) strided_add_kernel(Strided a)
{
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    int64_t y, x;
    if (i >= a.count) return;
    offsets_of(a, i, &y, &x);
    Y *to = (Y *)a.y + y;
    store(to, load(to) + load((const X *)a.x + x));
}

static Strided strided(const Tensor &y, const Tensor &x)
{
    Strided a = {};
    for (int d = 0; d < 4; d++) {
        CHECK(y.dim[d] == x.dim[d], "dim %d is %lld and %lld", d, (long long)y.dim[d], (long long)x.dim[d]);
        a.dim[d]      = y.dim[d];
        a.y_stride[d] = y.stride[d];
        a.x_stride[d] = x.stride[d];
    }
    a.count = tensor_count(y);
    a.y     = y.data;
    a.x     = x.data;
    return a;
}

static void strided_copy(Queue *q, const Strided &a, size_t width)
{
    const unsigned blocks = blocks_for(a.count, GPU_THREADS);
    gpuStream_t stream = gpu_stream_of(q);
    if (width == 2)      GPU_LAUNCH(strided_copy_kernel<Bytes2>, blocks, GPU_THREADS, stream, a);
    else if (width == 4) GPU_LAUNCH(strided_copy_kernel<float>, blocks, GPU_THREADS, stream, a);
    else if (width == 8) GPU_LAUNCH(strided_copy_kernel<Bytes8>, blocks, GPU_THREADS, stream, a);
    else CHECK(false, "elements of %zu bytes are not copied on a GPU", width);
}

extern "C" void cuda_fill_zero(Queue *q, const FillZero *a)
{
    if (tensor_count(a->y) == 0) return;
    if (tensor_contiguous(a->y)) {
        gpu_check(gpuMemsetAsync(a->y.data, 0, tensor_bytes(a->y), gpu_stream_of(q)), "gpuMemsetAsync");
        return;
    }
    Strided s = strided(a->y, a->y);
    s.x = nullptr;
    strided_copy(q, s, dtype_width(a->y.dtype));
}

extern "C" void cuda_copy_strided(Queue *q, const CopyStrided *a)
{
    CHECK(a->y.dtype == a->x.dtype, "%s and %s do not mix", dtype_name(a->y.dtype), dtype_name(a->x.dtype));
    const Strided s = strided(a->y, a->x);
    if (s.count == 0) return;
    if (tensor_contiguous(a->y) && tensor_contiguous(a->x))
        gpu_copy(gpu_of(q), a->y.data, a->x.data, tensor_bytes(a->y));
    else strided_copy(q, s, dtype_width(a->y.dtype));
}

/* Calls f with the types of two tensors, each F32, BF16 or F16, as in by_vector. */
template <typename F> static void by_types(Dtype y, Dtype x, F f)
{
    by_vector(y, false, [&](auto to, auto) { by_vector(x, false, [&](auto from, auto) { f(to, from); }); });
}

extern "C" void cuda_accumulate(Queue *q, const Accumulate *a)
{
    const Strided s = strided(a->y, a->x);
    if (s.count == 0) return;
    by_types(a->y.dtype, a->x.dtype, [&](auto to, auto from) {
        GPU_LAUNCH((strided_add_kernel<decltype(to), decltype(from)>), blocks_for(s.count, GPU_THREADS),
                   GPU_THREADS, gpu_stream_of(q), s);
    });
}

/* ---- flat ---- */
template <typename Y, typename X, int N> __global__ void __launch_bounds__(GPU_THREADS)
convert_kernel(Y *y, const X *x, int64_t n)
{
    const int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) * N;
    for (int k = 0; k < N && i + k < n; k++) store(y + i + k, load(x + i + k));
}

extern "C" void cuda_convert(Queue *q, const Convert *a)
{
    const int64_t n = a->y_N.dim[0];
    GPU_WANT(a->y_N, a->y_N.dtype, n);
    GPU_WANT(a->x_N, a->x_N.dtype, n);
    if (n == 0) return;
    by_types(a->y_N.dtype, a->x_N.dtype, [&](auto to, auto from) {
        using Y = decltype(to);
        using X = decltype(from);
        GPU_LAUNCH((convert_kernel<Y, X, 4>), blocks_for(n, 4 * GPU_THREADS), GPU_THREADS, gpu_stream_of(q),
                   (Y *)a->y_N.data, (const X *)a->x_N.data, n);
    });
}

/* ---- sums in double ---- */
/* Elements that a thread block sums; a thread adds those that are GPU_THREADS apart. */
constexpr int64_t SQUARE_BLOCK = 4096;

template <typename X> __global__ void __launch_bounds__(GPU_THREADS)
square_blocks_kernel(double *sum, const X *x, int64_t n)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    const int64_t first = (int64_t)blockIdx.x * SQUARE_BLOCK;
    const int64_t end   = first + SQUARE_BLOCK < n ? first + SQUARE_BLOCK : n;
    double squares = 0;
    for (int64_t i = first + threadIdx.x; i < end; i += GPU_THREADS) {
        const double value = load(x + i);
        squares += value * value;
    }
    squares = block_sum(part, squares);
    if (threadIdx.x == 0) sum[blockIdx.x] = squares;
}

/* out += the sum of all blocks; a single thread block, so its order is always the same */
__global__ void __launch_bounds__(GPU_THREADS) square_join_kernel(double *out, const double *sum,
                                                                  int64_t blocks)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    double all = 0;
    for (int64_t b = threadIdx.x; b < blocks; b += GPU_THREADS) all += sum[b];
    all = block_sum(part, all);
    if (threadIdx.x == 0) *out += all;
}

extern "C" size_t cuda_square_sum_workspace(const Queue *, const SquareSum *a)
{
    return (size_t)((a->x_N.dim[0] + SQUARE_BLOCK - 1) / SQUARE_BLOCK) * sizeof(double);
}

extern "C" void cuda_square_sum(Queue *q, const SquareSum *a)
{
    const int64_t n = a->x_N.dim[0];
    GPU_WANT(a->out_1, F64, 1);
    GPU_WANT(a->x_N, a->x_N.dtype, n);
    if (n == 0) return;
    const unsigned blocks = blocks_for(n, SQUARE_BLOCK);
    double *sum = workspace_of<double>(q, blocks);
    by_vector(a->x_N.dtype, false, [&](auto zero, auto) {
        using X = decltype(zero);
        GPU_LAUNCH((square_blocks_kernel<X>), blocks, GPU_THREADS, gpu_stream_of(q), sum, (const X *)a->x_N.data, n);
    });
    GPU_LAUNCH(square_join_kernel, 1, GPU_THREADS, gpu_stream_of(q), (double *)a->out_1.data, (const double *)sum,
               (int64_t)blocks);
}

/* ---- checksums ---- */
/* A block sums as many words as those of a square sum. */
__global__ void __launch_bounds__(GPU_THREADS) checksum_blocks_kernel(uint64_t *sum, const char *x,
                                                                      uint64_t bytes)
{
    GPU_SHARED(uint64_t, part, GPU_MAX_WARPS);
    const uint64_t words = (bytes + CHECKSUM_WORD - 1) / CHECKSUM_WORD;
    const uint64_t first = (uint64_t)blockIdx.x * SQUARE_BLOCK;
    const uint64_t end = first + SQUARE_BLOCK < words ? first + SQUARE_BLOCK : words;
    uint64_t own = 0;
    for (uint64_t i = first + threadIdx.x; i < end; i += GPU_THREADS) own += checksum_word(x, i, bytes);
    own = block_sum(part, own);
    if (threadIdx.x == 0) sum[blockIdx.x] = own;
}

__global__ void __launch_bounds__(GPU_THREADS) checksum_join_kernel(float *out, const uint64_t *sum,
                                                                    int64_t blocks)
{
    GPU_SHARED(uint64_t, part, GPU_MAX_WARPS);
    uint64_t all = 0;
    for (int64_t b = threadIdx.x; b < blocks; b += GPU_THREADS) all += sum[b];
    all = block_sum(part, all);
    if (threadIdx.x == 0) out[0] = (float)checksum_number(all), out[1] = -out[0];
}

static int64_t checksum_blocks(const Checksum *a)
{
    return ((int64_t)tensor_bytes(a->x_N) / CHECKSUM_WORD + SQUARE_BLOCK) / SQUARE_BLOCK;
}

extern "C" size_t cuda_checksum_workspace(const Queue *, const Checksum *a)
{
    return (size_t)checksum_blocks(a) * sizeof(uint64_t);
}

extern "C" void cuda_checksum(Queue *q, const Checksum *a)
{
    const int64_t blocks = checksum_blocks(a);
    GPU_WANT(a->sum_2, F32, 2);
    uint64_t *sum = workspace_of<uint64_t>(q, blocks);
    GPU_LAUNCH(checksum_blocks_kernel, (unsigned)blocks, GPU_THREADS, gpu_stream_of(q), sum,
               (const char *)a->x_N.data, (uint64_t)tensor_bytes(a->x_N));
    GPU_LAUNCH(checksum_join_kernel, 1, GPU_THREADS, gpu_stream_of(q), (float *)a->sum_2.data,
               (const uint64_t *)sum, blocks);
}

__global__ void __launch_bounds__(GPU_THREADS) weighted_sum_kernel(WeightedSum a)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    const float *x = (const float *)a.x_T.data, *weight = (const float *)a.loss_weight_T.data;
    double sum = 0, all = 0;
    for (int64_t t = threadIdx.x; t < a.x_T.dim[0]; t += GPU_THREADS) {
        sum += (double)x[t] * (double)weight[t];
        all += (double)weight[t];
    }
    sum = block_sum(part, sum);
    all = block_sum(part, all);
    double *out = (double *)a.out_2.data;
    if (threadIdx.x == 0) {
        out[0] += sum;
        out[1] += all;
    }
}

extern "C" void cuda_weighted_sum(Queue *q, const WeightedSum *a)
{
    const int64_t T = a->x_T.dim[0];
    GPU_WANT(a->out_2, F64, 2);
    GPU_WANT(a->x_T, F32, T);
    GPU_WANT(a->loss_weight_T, F32, T);
    if (T > 0) GPU_LAUNCH(weighted_sum_kernel, 1, GPU_THREADS, gpu_stream_of(q), *a);
}

/* ---- the gradient of a bias: column sums ----
 * A thread block sums a tile of columns over one part of the rows: BIAS_ROWS rows at a time, N neighbouring
 * columns a thread. The division into parts depends on T alone. */
constexpr int     BIAS_ROWS = 8, BIAS_LANES = GPU_THREADS / BIAS_ROWS;
constexpr int64_t MOST_PARTS = 128, LEAST_ROWS = 64;

static int64_t bias_rows(int64_t T)
{
    const int64_t even = (T + MOST_PARTS - 1) / MOST_PARTS;
    return even > LEAST_ROWS ? even : LEAST_ROWS;
}

template <typename A, int N> __global__ void __launch_bounds__(GPU_THREADS)
bias_parts_kernel(BiasBackward a, float *part_PK, int64_t rows)
{
    GPU_SHARED(float, shared, GPU_THREADS * N);
    const int64_t T = a.dy_TK.dim[0], K = a.dy_TK.dim[1], p = blockIdx.x;
    const int lane = (int)threadIdx.x % BIAS_LANES, r = (int)threadIdx.x / BIAS_LANES;
    const int64_t k = ((int64_t)blockIdx.y * BIAS_LANES + lane) * N,
        end = (p + 1) * rows < T ? (p + 1) * rows : T;
    float sum[N] = {};
#pragma unroll 4
    for (int64_t t = p * rows + r; k < K && t < end; t += BIAS_ROWS) {
        float dy[N];
        load(dy, gpu_row<A>(a.dy_TK, t) + k);
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] += dy[i];
    }
    for (int i = 0; i < N; i++) shared[(r * BIAS_LANES + lane) * N + i] = sum[i];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < BIAS_LANES * N; c += GPU_THREADS) {
        float all = 0;
        for (int row = 0; row < BIAS_ROWS; row++) all += shared[row * BIAS_LANES * N + c];
        const int64_t column = (int64_t)blockIdx.y * BIAS_LANES * N + c;
        if (column < K) part_PK[p * K + column] = all;
    }
}

/* db += the sum over parts, in their order */
__global__ void __launch_bounds__(GPU_THREADS) bias_join_kernel(BiasBackward a, const float *part_PK,
                                                                int64_t parts)
{
    const int64_t K = a.db_K.dim[0], k = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (k >= K) return;
    float sum = 0;
    for (int64_t p = 0; p < parts; p++) sum += part_PK[p * K + k];
    ((float *)a.db_K.data)[k] += sum;
}

extern "C" size_t cuda_bias_backward_workspace(const Queue *, const BiasBackward *a)
{
    const int64_t T = a->dy_TK.dim[0], rows = bias_rows(T);
    return (size_t)((T + rows - 1) / rows * a->dy_TK.dim[1]) * sizeof(float);
}

extern "C" void cuda_bias_backward(Queue *q, const BiasBackward *a)
{
    const int64_t T = a->dy_TK.dim[0], K = a->dy_TK.dim[1], rows = bias_rows(T);
    GPU_WANT(a->db_K, F32, K);
    GPU_WANT(a->dy_TK, a->dy_TK.dtype, T, K);
    if (T == 0) return;
    const unsigned parts = blocks_for(T, rows);
    float *part = workspace_of<float>(q, parts * K);
    by_vector(a->dy_TK.dtype, rows_aligned(a->dy_TK, K), [&](auto zero, auto n) {
        using A = decltype(zero);
        constexpr int N = n;
        GPU_LAUNCH((bias_parts_kernel<A, N>), dim3(parts, blocks_for(K, BIAS_LANES * N)), GPU_THREADS,
                   gpu_stream_of(q), *a, part, rows);
    });
    GPU_LAUNCH(bias_join_kernel, blocks_for(K, GPU_THREADS), GPU_THREADS, gpu_stream_of(q), *a, (const float *)part,
               (int64_t)parts);
}

/* ---- over ranks: a thread for each element, which takes the ranks in order ---- */
template <typename Y, typename X, bool MOST> __global__ void __launch_bounds__(GPU_THREADS)
ranks_kernel(Y *y, const X *x, int64_t ranks, int64_t n, int64_t stride)
{
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= n) return;
    float all = load(x + i);
    for (int64_t r = 1; r < ranks; r++) {
        const float one = load(x + r * stride + i);
        all = MOST ? fmaxf(all, one) : all + one;
    }
    store(y + i, all);
}

template <bool MOST> static void over_ranks(Queue *q, const Tensor &y_N, const Tensor &x_RN)
{
    const int64_t R = x_RN.dim[0], N = x_RN.dim[1];
    GPU_WANT(y_N, y_N.dtype, N);
    GPU_WANT(x_RN, x_RN.dtype, R, N);
    if (N == 0) return;
    by_vector(y_N.dtype, false, [&](auto to, auto) {
        by_vector(x_RN.dtype, false, [&](auto from, auto) {
            using Y = decltype(to);
            using X = decltype(from);
            GPU_LAUNCH((ranks_kernel<Y, X, MOST>), blocks_for(N, GPU_THREADS), GPU_THREADS, gpu_stream_of(q),
                       (Y *)y_N.data, (const X *)x_RN.data, R, N, x_RN.stride[0]);
        });
    });
}

extern "C" void cuda_rank_sum(Queue *q, const RankSum *a) { over_ranks<false>(q, a->y_N, a->x_RN); }
extern "C" void cuda_rank_max(Queue *q, const RankMax *a) { over_ranks<true>(q, a->y_N, a->x_RN); }
