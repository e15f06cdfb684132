/* Embedding lookup and its gradient on a GPU.
 * T tokens   C channels   V rows of the table, which begins at vocabulary row `first` */
#include "tensor/cuda/vector.h"

/* y = scale table[id], or y += scale table[id]; one thread for each vector. Another rank has the
 * rows of other ids, which give zero. */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
embed_forward_kernel(EmbedForward a)
{
    const Place at = place_of<N>(a.y_TC.dim[1]);
    if (at.t >= a.y_TC.dim[0]) return;
    const int64_t row = *gpu_row<int32_t>(a.id_i, at.t) - a.first;
    T *y = gpu_row<T>(a.y_TC, at.t) + at.c;
    float x[N] = {}, old[N];
    if (row >= 0 && row < a.table_VC.dim[0]) load(x, gpu_row<T>(a.table_VC, row) + at.c);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] *= (float)a.scale;
    if (a.add) {
        load(old, y);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] += old[i];
    }
    store(y, x);
}

extern "C" void cuda_embed_forward(Queue *q, const EmbedForward *a)
{
    const int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    const Dtype   dtype = a->y_TC.dtype;
    GPU_WANT(a->y_TC, dtype, T, C);
    GPU_WANT(a->id_i, I32, T);
    GPU_WANT(a->table_VC, dtype, a->table_VC.dim[0], C);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(C, a->y_TC, a->table_VC), [&](auto zero, auto n) {
        const auto embed_forward = embed_forward_kernel<decltype(zero), n>;
        GPU_LAUNCH(embed_forward, vector_blocks(T, C, n), GPU_THREADS, gpu_stream_of(q), *a);
    });
}

/* y += [sin(p w_k), cos(p w_k)], w_k = 10000^(-k / (C/2 - 1)); one thread for each pair. Angles are computed
 * in double, as RoPE's. */
template <typename T> __global__ void __launch_bounds__(GPU_THREADS)
sinusoid_forward_kernel(SinusoidForward a)
{
    const int64_t half = a.y_TC.dim[1] / 2, pairs = a.y_TC.dim[0] * half;
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= pairs) return;
    const int64_t t = i / half, k = i % half;
    const double step = 9.210340371976182736 / (double)(half - 1);
    double s, c;
    sincos((double)(*gpu_row<int32_t>(a.position_i, t) + a.first) * exp(-step * (double)k), &s, &c);
    T *y = gpu_row<T>(a.y_TC, t) + k;
    const float x[1] = { load(y) + (float)s }, z[1] = { load(y + half) + (float)c };
    store(y, x);
    store(y + half, z);
}

extern "C" void cuda_sinusoid_forward(Queue *q, const SinusoidForward *a)
{
    const int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    GPU_WANT(a->y_TC, a->y_TC.dtype, T, C);
    GPU_WANT(a->position_i, I32, T);
    CHECK(C >= 4 && C % 2 == 0, "sinusoidal positions of %lld channels", (long long)C);
    if (T == 0) return;
    by_vector(a->y_TC.dtype, false, [&](auto zero, auto) {
        const auto sinusoid_forward = sinusoid_forward_kernel<decltype(zero)>;
        GPU_LAUNCH(sinusoid_forward, (unsigned)((T * C / 2 + GPU_THREADS - 1) / GPU_THREADS), GPU_THREADS,
                   gpu_stream_of(q), *a);
    });
}

/* ---- the gradient. Float atomics would add in a different order in every run. Instead the tokens with the
 *      same id are linked into a list, and the first token of each list adds the others' gradients to the
 *      table's row in the order of tokens. Cost: up to T^2 comparisons of ids (2^30 for T = 32768, by whole
 *      warps and from the cache), one read of dy, and the length of the longest list: an id that is 5 % of T
 *      takes 0.05 T dependent reads in each of C threads. ---- */
enum { TOKENS_PER_BLOCK = 8 };             /* tokens linked by one thread block, one for each warp of 32 */

__device__ __forceinline__ int warp_min(int v)
{
    for (int mask = GPU_WARP / 2; mask > 0; mask /= 2) {
        const int other = gpu_shuffle_xor(v, mask);
        v = other < v ? other : v;
    }
    return v;
}

/* next[t] = the next token with the same id, or T;   head[t] = no token before t has the same id
 * One warp for each token: its lanes compare different tokens. */
__global__ void __launch_bounds__(GPU_THREADS) embed_link_kernel(EmbedBackward a, int *next_T, int *head_T)
{
    const int  T = (int)a.dy_TC.dim[0], warps = GPU_THREADS / GPU_WARP, lane = threadIdx.x % GPU_WARP;
    const int *id = (const int *)a.id_i.data;
    for (int t = (int)blockIdx.x * warps + threadIdx.x / GPU_WARP; t < T; t += (int)gridDim.x * warps) {
        int next = t + 1 + lane, previous = lane;
        while (next < T && id[next] != id[t]) next += GPU_WARP;
        while (previous < t && id[previous] != id[t]) previous += GPU_WARP;
        next     = warp_min(next < T ? next : T);
        previous = warp_min(previous < t ? previous : t);
        if (lane == 0) {
            next_T[t] = next;
            head_T[t] = previous == t;
        }
    }
}

/* dtable[id] += scale dy of the list's tokens. One thread block for each token and 256 channels; the
 * blocks of tokens that do not begin a list return at once. */
template <typename E> __global__ void __launch_bounds__(GPU_THREADS)
embed_add_kernel(EmbedBackward a, const int *next_T, const int *head_T)
{
    const int64_t T = a.dy_TC.dim[0], C = a.dy_TC.dim[1], c = (int64_t)blockIdx.y * GPU_THREADS + threadIdx.x;
    const int64_t table_row = *gpu_row<int>(a.id_i, blockIdx.x) - a.first;
    if (!head_T[blockIdx.x] || table_row < 0 || table_row >= a.dtable_VC.dim[0] || c >= C) return;
    float *dtable = gpu_row<float>(a.dtable_VC, table_row) + c, sum = *dtable;
    for (int64_t t = blockIdx.x; t < T; t = next_T[t])
        sum += (float)a.scale * load(gpu_row<E>(a.dy_TC, t) + c);
    *dtable = sum;
}

extern "C" size_t cuda_embed_backward_workspace(const Queue *, const EmbedBackward *a)
{
    return 2 * (size_t)a->dy_TC.dim[0] * sizeof(int);
}

extern "C" void cuda_embed_backward(Queue *q, const EmbedBackward *a)
{
    const int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1], V = a->dtable_VC.dim[0];
    GPU_WANT(a->dtable_VC, F32, V, C);
    GPU_WANT(a->id_i, I32, T);
    GPU_WANT(a->dy_TC, a->dy_TC.dtype, T, C);
    CHECK(T < INT32_MAX / 2, "%lld tokens in one embed_backward", (long long)T);
    if (T == 0) return;
    int *next = workspace_of<int>(q, 2 * T), *head = next + T;
    const dim3 grid(blocks_for(T, 1), blocks_for(C, GPU_THREADS));
    GPU_LAUNCH(embed_link_kernel, blocks_for(T, TOKENS_PER_BLOCK), GPU_THREADS, gpu_stream_of(q), *a, next, head);
    by_vector(a->dy_TC.dtype, false, [&](auto zero, auto) {
        const auto embed_add = embed_add_kernel<decltype(zero)>;
        GPU_LAUNCH(embed_add, grid, GPU_THREADS, gpu_stream_of(q), *a, next, head);
    });
}
