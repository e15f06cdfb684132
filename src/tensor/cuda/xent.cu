/* Vocabulary-parallel cross entropy on a GPU.
 * T rows   V columns held by this rank, of which the first `valid` are ids and the rest padding   R ranks */
#include "tensor/cuda/random.h"
#include "tensor/cuda/vector.h"

/* Subtracted before exp: a maximum over no numbers is -infinity, and -infinity - -infinity is NaN. */
static __device__ __forceinline__ float finite_or_zero(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

/* stats = { max, sum of exp(x - max), logit of the target or 0 }. One thread block for each row, which it
 * reads once: a thread has the largest logit so far and the sum relative to it, and rescales the sum when
 * it meets a larger one (online softmax). A NaN is never larger, is added and shows. */
template <int N> __global__ void __launch_bounds__(GPU_THREADS) xent_stats_kernel(XentStats a)
{
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    const int64_t t = blockIdx.x, target = *gpu_row<int32_t>(a.target_i, t) - a.first;
    const float  *row = gpu_row<float>(a.logits_TV, t);
    float max = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x * N; c < a.valid; c += GPU_THREADS * N) {
        float x[N], most = max, more = 0;
        load(x, row + c);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (N > 1 && c + i >= a.valid) x[i] = -INFINITY;
            most = larger(x[i], most);
        }
        const float base = finite_or_zero(most);
#pragma unroll
        for (int i = 0; i < N; i++) more += expf(x[i] - base);
        sum = sum * expf(max - base) + more;
        max = most;
    }
    const float row_max = block_max(part, max);
    const float row_sum = block_sum(part, sum * expf(max - finite_or_zero(row_max)));
    if (threadIdx.x == 0) {
        float *stats = gpu_row<float>(a.stats_T3, t);
        stats[0] = row_max;
        stats[1] = row_sum;
        stats[2] = target >= 0 && target < a.valid ? row[target] : 0.0f;
    }
}

extern "C" void cuda_xent_stats(Queue *q, const XentStats *a)
{
    const int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    GPU_WANT(a->stats_T3, F32, T, 3);
    GPU_WANT(a->logits_TV, F32, T, V);
    GPU_WANT(a->target_i, I32, T);
    CHECK(a->valid >= 0 && a->valid <= V, "%lld valid columns of %lld", (long long)a->valid, (long long)V);
    if (T == 0) return;
    const bool wide = rows_aligned(a->logits_TV, V);
    const auto xent_stats = wide ? xent_stats_kernel<WIDE<float>> : xent_stats_kernel<1>;
    GPU_LAUNCH(xent_stats, blocks_for(T, 1), GPU_THREADS, gpu_stream_of(q), *a);
}

/* lse = max + log(sum over ranks),   loss = lse - target; one thread for each row
 * A rank whose columns are all padding has max -infinity and sum 0, and is left out because -infinity -
 * max may be NaN. */
__global__ void __launch_bounds__(GPU_THREADS) xent_forward_kernel(XentForward a)
{
    const int64_t R = a.stats_RT3.dim[0], T = a.stats_RT3.dim[1];
    const int64_t t = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (t >= T) return;
    float max = -INFINITY, sum = 0, target = 0;
    for (int64_t r = 0; r < R; r++)
        max = larger(max, gpu_row<float>(a.stats_RT3, r)[t * a.stats_RT3.stride[1]]);
    for (int64_t r = 0; r < R; r++) {
        const float *stats = gpu_row<float>(a.stats_RT3, r) + t * a.stats_RT3.stride[1];
        if (stats[1] != 0) sum += stats[1] * expf(stats[0] - max);
        target += stats[2];
    }
    const float lse = max + logf(sum);
    *gpu_row<float>(a.lse_T, t)  = lse;
    *gpu_row<float>(a.loss_T, t) = lse - target;
}

extern "C" void cuda_xent_forward(Queue *q, const XentForward *a)
{
    const int64_t R = a->stats_RT3.dim[0], T = a->stats_RT3.dim[1];
    GPU_WANT(a->loss_T, F32, T);
    GPU_WANT(a->lse_T, F32, T);
    GPU_WANT(a->stats_RT3, F32, R, T, 3);
    if (T > 0) GPU_LAUNCH(xent_forward_kernel, blocks_for(T, GPU_THREADS), GPU_THREADS, gpu_stream_of(q), *a);
}

/* The first id whose cumulative probability exceeds a random number. A thread block for each row adds tiles
 * of columns until their sum exceeds it, and one thread finds the column within the last tile. All ranks'
 * parts are added in rank order, by each thread. */
constexpr int64_t DRAW_TILE = 4 * GPU_THREADS;
__global__ void __launch_bounds__(GPU_THREADS) xent_draw_kernel(XentDraw a, const StepState *step_state)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    const int64_t t = blockIdx.x, R = a.stats_RT3.dim[0], each = a.stats_RT3.stride[1];
    const float  *row = gpu_row<float>(a.logits_TV, t);
    int32_t *target = gpu_row<int32_t>(a.target_i, t);
    float  max = -INFINITY;
    double total = 0, before = 0, own = 0;
    for (int64_t r = 0; r < R; r++) max = larger(max, gpu_row<float>(a.stats_RT3, r)[t * each]);
    for (int64_t r = 0; r < R; r++) {
        const float *stats = gpu_row<float>(a.stats_RT3, r) + t * each;
        const double sum = (double)stats[1] * exp((double)stats[0] - (double)max);
        if (r == a.rank) before = total, own = sum;
        total += sum;
    }
    const uint64_t key = gpu_dropout_key(step_state, a.site);
    const double wanted = gpu_random_uniform(key, (uint64_t)*gpu_row<int32_t>(a.index_i, t)) * total;
    if (wanted < before || wanted >= before + own) {           /* another rank has it */
        if (threadIdx.x == 0) *target = -1;
        return;
    }
    int64_t first = 0;
    double  sum = 0;
    for (;; first += DRAW_TILE) {
        double more = 0;
        for (int64_t c = first + threadIdx.x; c < first + DRAW_TILE && c < a.valid; c += GPU_THREADS)
            more += (double)expf(row[c] - max);
        more = block_sum(part, more);
        if (before + (sum + more) > wanted || first + DRAW_TILE >= a.valid) break;
        sum += more;
    }
    if (threadIdx.x != 0) return;
    int64_t c = first;
    for (; c + 1 < a.valid && c + 1 < first + DRAW_TILE; c++) {
        sum += (double)expf(row[c] - max);
        if (before + sum > wanted) break;
    }
    *target = (int32_t)(a.first + c);
}

extern "C" void cuda_xent_draw(Queue *q, const XentDraw *a)
{
    const int64_t R = a->stats_RT3.dim[0], T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    GPU_WANT(a->target_i, I32, T);
    GPU_WANT(a->logits_TV, F32, T, V);
    GPU_WANT(a->stats_RT3, F32, R, T, 3);
    GPU_WANT(a->index_i, I32, T);
    CHECK(a->valid >= 0 && a->valid <= V, "%lld valid columns of %lld", (long long)a->valid, (long long)V);
    if (T > 0)
        GPU_LAUNCH(xent_draw_kernel, blocks_for(T, 1), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
}

/* x = softcap tanh(x / softcap); one thread for each vector */
template <int N> __global__ void __launch_bounds__(GPU_THREADS) logit_softcap_kernel(LogitSoftcap a)
{
    const Place at = place_of<N>(a.x_TV.dim[1]);
    if (at.t >= a.x_TV.dim[0]) return;
    float *row = gpu_row<float>(a.x_TV, at.t) + at.c, x[N];
    load(x, row);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = (float)a.softcap * tanhf(x[i] / (float)a.softcap);
    store(row, x);
}

extern "C" void cuda_logit_softcap(Queue *q, const LogitSoftcap *a)
{
    const int64_t T = a->x_TV.dim[0], V = a->x_TV.dim[1];
    GPU_WANT(a->x_TV, F32, T, V);
    if (T == 0) return;
    by_vector(F32, all_rows_aligned(V, a->x_TV), [&](auto, auto n) {
        const auto logit_softcap = logit_softcap_kernel<n>;
        GPU_LAUNCH(logit_softcap, vector_blocks(T, V, n), GPU_THREADS, gpu_stream_of(q), *a);
    });
}

/* dlogits = (exp(x - lse) (1 + 2 z lse) - [column is target]) weight gradient_scale (1 - (x / softcap)^2),
 * and 0 in the padding; one thread for each vector, which reads all that it needs before it writes */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
xent_backward_kernel(XentBackward a, const StepState *step_state)
{
    const Place at = place_of<N>(a.logits_TV.dim[1]);
    if (at.t >= a.logits_TV.dim[0]) return;
    const int64_t target = *gpu_row<int32_t>(a.target_i, at.t) - a.first;
    const float   lse = *gpu_row<float>(a.lse_T, at.t), scale = (float)step_state->gradient_scale;
    const float   weight = *gpu_row<float>(a.loss_weight_T, at.t) * scale;
    const bool    capped = a.softcap > 0;
    const float   soft = a.z > 0 ? 1.0f + 2.0f * (float)a.z * lse : 1.0f;
    const float   inverse = capped ? 1.0f / (float)a.softcap : 0.0f;
    float x[N];
    load(x, gpu_row<float>(a.logits_TV, at.t) + at.c);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int64_t c = at.c + i;
        const float   slope = capped ? 1.0f - x[i] * inverse * (x[i] * inverse) : 1.0f;
        const float   hit = c == target ? 1.0f : 0.0f;
        x[i] = c < a.valid ? (expf(x[i] - lse) * soft - hit) * weight * slope : 0.0f;
    }
    store(gpu_row<T>(a.dlogits_TV, at.t) + at.c, x);
}

extern "C" void cuda_xent_backward(Queue *q, const XentBackward *a)
{
    const int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    const Dtype   dtype = a->dlogits_TV.dtype;
    GPU_WANT(a->dlogits_TV, dtype, T, V);
    GPU_WANT(a->logits_TV, F32, T, V);
    GPU_WANT(a->lse_T, F32, T);
    GPU_WANT(a->target_i, I32, T);
    GPU_WANT(a->loss_weight_T, F32, T);
    CHECK(a->valid >= 0 && a->valid <= V, "%lld valid columns of %lld", (long long)a->valid, (long long)V);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(V, a->dlogits_TV, a->logits_TV), [&](auto zero, auto n) {
        const auto xent_backward = xent_backward_kernel<decltype(zero), n>;
        GPU_LAUNCH(xent_backward, vector_blocks(T, V, n), GPU_THREADS, gpu_stream_of(q), *a, q->step_state);
    });
}
