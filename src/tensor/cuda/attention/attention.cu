/* The attention operations: the checks of their arguments, which kernels are taken, and delta.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o */
#include "tensor/cuda/attention/flash.h"
#include "tensor/cuda/attention/tiled.h"

static void check_shared(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &key_range_i,
                         const Tensor &sample_i, const AttentionRule &rule)
{
    const int64_t B = q.dim[0], S = q.dim[1], H = q.dim[2], D = q.dim[3];
    const int64_t U = k.dim[1], G = k.dim[2], E = v.dim[3];
    GPU_WANT(q, q.dtype, B, S, H, D);
    GPU_WANT(k, q.dtype, B, U, G, D);
    GPU_WANT(v, q.dtype, B, U, G, E);
    CHECK(G > 0 && H % G == 0, "%lld query heads cannot share %lld key-value heads evenly", (long long)H,
          (long long)G);
    CHECK(D <= MOST_CHANNELS && E <= MOST_CHANNELS, "heads of %lld and %lld channels: the GPU takes up to %d",
          (long long)D, (long long)E, (int)MOST_CHANNELS);
    if (tensor_present(key_range_i)) GPU_WANT(key_range_i, I32, B, S, 2);
    if (rule.p > 0) GPU_WANT(sample_i, I32, B);
    CHECK(S < INT32_MAX && U < INT32_MAX, "%lld queries, %lld keys", (long long)S, (long long)U);
}

static void check_forward(const AttentionForward *a)
{
    const int64_t B = a->q.dim[0], S = a->q.dim[1], H = a->q.dim[2], E = a->v.dim[3];
    check_shared(a->q, a->k, a->v, a->key_range_i, a->sample_i, a->rule);
    if (tensor_present(a->key_distance_i)) GPU_WANT(a->key_distance_i, I32, B, S == 1 ? a->k.dim[1] : 0);
    GPU_WANT(a->o, a->o.dtype, B, S, H, E);
    GPU_WANT(a->lse, F32, B, S, H);
}

static void check_backward(const AttentionBackward *a)
{
    const int64_t B = a->q.dim[0], S = a->q.dim[1], H = a->q.dim[2], D = a->q.dim[3], E = a->v.dim[3];
    const int64_t U = a->k.dim[1], G = a->k.dim[2];
    check_shared(a->q, a->k, a->v, a->key_range_i, a->sample_i, a->rule);
    GPU_WANT(a->dq, a->dq.dtype, B, S, H, D);
    GPU_WANT(a->dk, a->dk.dtype, B, U, G, D);
    GPU_WANT(a->dv, a->dv.dtype, B, U, G, E);
    GPU_WANT(a->d_o, a->q.dtype, B, S, H, E);
    GPU_WANT(a->lse, F32, B, S, H);
    GPU_WANT(a->delta, F32, B, S, H);
}

extern "C" void cuda_attention_forward(Queue *q, const AttentionForward *a)
{
    check_forward(a);
    if (a->q.dim[0] * a->q.dim[1] * a->q.dim[2] == 0) return;
    if (flash_refuses_forward(a)) tiled_forward(q, a);
    else                          flash_forward(q, a);
}

extern "C" void cuda_attention_backward(Queue *q, const AttentionBackward *a)
{
    check_backward(a);
    if (a->q.dim[0] * a->q.dim[1] * a->q.dim[2] == 0 || a->k.dim[1] == 0) return;
    if (flash_refuses_backward(a)) tiled_backward(q, a);
    else                           flash_backward(q, a);
}

extern "C" const char *cuda_attention_forward_slow(const AttentionForward *a)
{
    return flash_refuses_forward(a);
}

extern "C" const char *cuda_attention_backward_slow(const AttentionBackward *a)
{
    return flash_refuses_backward(a);
}

/* ---- delta = sum over channels of o do: eight threads for each row ---- */
enum { DELTA_LANES = 8 };

template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
attention_delta_kernel(AttentionDelta a)
{
    const int64_t S = a.o.dim[1], H = a.o.dim[2], E = a.o.dim[3], rows = a.o.dim[0] * S * H;
    const int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) / DELTA_LANES;
    const int64_t row = i < rows ? i : rows - 1, h = row % H, s = row / H % S, b = row / H / S;
    const T *o = gpu_row<T>(a.o, b, s, h), *d_o = gpu_row<T>(a.d_o, b, s, h);
    float sum = 0;
    for (int64_t c = threadIdx.x % DELTA_LANES * N; c < E; c += DELTA_LANES * N) {
        float x[N], y[N];
        load(x, o + c);
        load(y, d_o + c);
#pragma unroll
        for (int k = 0; k < N; k++) sum += x[k] * y[k];
    }
    sum = lanes_sum(sum, DELTA_LANES);
    if (i < rows && threadIdx.x % DELTA_LANES == 0) *gpu_row<float>(a.delta, b, s, h) = sum;
}

extern "C" void cuda_attention_delta(Queue *q, const AttentionDelta *a)
{
    const int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], E = a->o.dim[3];
    const Dtype   dtype = a->o.dtype;
    GPU_WANT(a->delta, F32, B, S, H);
    GPU_WANT(a->o, dtype, B, S, H, E);
    GPU_WANT(a->d_o, dtype, B, S, H, E);
    if (B * S * H == 0) return;
    by_vector(dtype, all_rows_aligned(E, a->o, a->d_o), [&](auto zero, auto n) {
        const auto attention_delta = attention_delta_kernel<decltype(zero), n>;
        const unsigned blocks = blocks_for(B * S * H, GPU_THREADS / DELTA_LANES);
        GPU_LAUNCH(attention_delta, blocks, GPU_THREADS, gpu_stream_of(q), *a);
    });
}

/* ---- two chunks of keys ---- */
/* new = log(exp(lse) + exp(lse2)),   o = o exp(lse - new) + o2 exp(lse2 - new)
 * Some threads for each row, which have all read its lse before one of them writes it. */
enum { MERGE_LANES = 16 };

__global__ void __launch_bounds__(GPU_THREADS) attention_merge_kernel(AttentionMerge a)
{
    const int64_t S = a.o.dim[1], H = a.o.dim[2], E = a.o.dim[3], rows = a.o.dim[0] * S * H;
    const int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) / MERGE_LANES;
    const int64_t row = i < rows ? i : rows - 1, h = row % H, s = row / H % S, b = row / H / S;
    float *lse = gpu_row<float>(a.lse, b, s, h);
    const float one = *lse, two = *gpu_row<float>(a.lse2, b, s, h), most = larger(one, two);
    __syncthreads();
    if (i >= rows || most == -INFINITY) return;            /* no key in either chunk: o stays 0 */
    const float both = most + logf(expf(one - most) + expf(two - most));
    const float part = expf(one - both), part2 = expf(two - both);
    float *o = gpu_row<float>(a.o, b, s, h);
    const float *o2 = gpu_row<float>(a.o2, b, s, h);
    for (int64_t c = threadIdx.x % MERGE_LANES; c < E; c += MERGE_LANES) o[c] = o[c] * part + o2[c] * part2;
    if (threadIdx.x % MERGE_LANES == 0) *lse = both;
}

extern "C" void cuda_attention_merge(Queue *q, const AttentionMerge *a)
{
    const int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], E = a->o.dim[3];
    GPU_WANT(a->o, F32, B, S, H, E);
    GPU_WANT(a->o2, F32, B, S, H, E);
    GPU_WANT(a->lse, F32, B, S, H);
    GPU_WANT(a->lse2, F32, B, S, H);
    if (B * S * H == 0) return;
    GPU_LAUNCH(attention_merge_kernel, blocks_for(B * S * H, GPU_THREADS / MERGE_LANES), GPU_THREADS,
               gpu_stream_of(q), *a);
}
