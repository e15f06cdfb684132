/* The end of a step on a GPU: clipping, and the updates of AdamW and SGD (others: tensor/cuda/optimizers).
 * What changes from step to step is read from the StepState in device memory and not from the arguments, so a
 * step captured as a CUDA graph can be replayed.
 * N elements of a flat parameter block */
#include "tensor/cuda/update.h"
#include "tensor/step_end.h"

/* ---- clipping ---- */
/* A thread for each sum, which adds in rank order. */
__global__ void sums_kernel(SumsTotal a)
{
    for (int64_t i = threadIdx.x; i < a.sums_RS.dim[1]; i += blockDim.x) {
        double total = 0;
        for (int64_t r = 0; r < a.sums_RS.dim[0]; r++) total += gpu_row<double>(a.sums_RS, r)[i];
        ((double *)a.total_S.data)[i] = total;
    }
}

extern "C" void cuda_sums_total(Queue *q, const SumsTotal *a)
{
    GPU_WANT(a->total_S, F64, a->sums_RS.dim[1]);
    GPU_WANT(a->sums_RS, F64, a->sums_RS.dim[0], a->sums_RS.dim[1]);
    GPU_LAUNCH(sums_kernel, 1, 64, gpu_stream_of(q), *a);
}

__global__ void largest_kernel(SumsLargest a)
{
    for (int64_t i = threadIdx.x; i < a.sums_RS.dim[1]; i += blockDim.x) {
        double most = gpu_row<double>(a.sums_RS, 0)[i];
        for (int64_t r = 1; r < a.sums_RS.dim[0]; r++) most = fmax(most, gpu_row<double>(a.sums_RS, r)[i]);
        ((double *)a.most_S.data)[i] = most;
    }
}

extern "C" void cuda_sums_largest(Queue *q, const SumsLargest *a)
{
    GPU_WANT(a->most_S, F64, a->sums_RS.dim[1]);
    GPU_WANT(a->sums_RS, F64, a->sums_RS.dim[0], a->sums_RS.dim[1]);
    GPU_LAUNCH(largest_kernel, 1, 64, gpu_stream_of(q), *a);
}

__global__ void clip_kernel(ClipAndSkip a, StepState *step_state)
{
    if (threadIdx.x != 0) return;
    step_state_end(step_state, (const double *)a.sums_3.data, a.clip, a.scaling, (double *)a.report_4.data);
}

extern "C" void cuda_clip_and_skip(Queue *q, const ClipAndSkip *a)
{
    GPU_WANT(a->report_4, F64, 4);
    GPU_WANT(a->sums_3, F64, 3);
    GPU_LAUNCH(clip_kernel, 1, 64, gpu_stream_of(q), *a, q->step_state);
}

/* ---- AdamW ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,   w -= lr decay w,
 * w -= lr mhat / (sqrt(vhat) + epsilon),  mhat = m / (1 - beta1^t),  vhat = v / (1 - beta2^t);  param = w;
 * coupled: g += decay w instead of w -= lr decay w */
template <typename P, int N> __global__ void __launch_bounds__(GPU_THREADS)
adamw_kernel(Adamw a, const StepState *step_state)
{
    GPU_SHARED(float, correct, 2);
    if (step_state->skip) return;          /* the same for all threads, so no barrier is left waiting */
    if (threadIdx.x < 2) {                 /* pow in double is slow: two threads compute it for the block */
        const double beta = threadIdx.x ? a.beta2 : a.beta1;
        correct[threadIdx.x] = (float)(1.0 / (1.0 - pow(beta, (double)(step_state->updates + 1))));
    }
    __syncthreads();
    const double decay = a.decay * step_state->weight_decay, lr = STEP_LR(step_state, a.decoupled);
    const float factor = (float)step_state->factor, shrink = (float)(1.0 - lr * (a.coupled ? 0 : decay));
    const float l2 = (float)(a.coupled ? decay : 0);
    const float rate = (float)lr * correct[0], unbias = correct[1];
    const float epsilon = a.uncorrected ? (float)a.epsilon * sqrtf(unbias) : (float)a.epsilon;
    const float beta1 = (float)a.beta1, rest1 = (float)(1.0 - a.beta1);
    const float beta2 = (float)a.beta2, rest2 = (float)(1.0 - a.beta2);
    float *w_N = (float *)a.w_N.data, *m_N = (float *)a.m_N.data, *v_N = (float *)a.v_N.data;
    const float  *g_N = (const float *)a.g_N.data;
    const int64_t step = (int64_t)gridDim.x * GPU_THREADS * N;

    for (int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) * N; i < a.w_N.dim[0]; i += step) {
        float w[N], m[N], v[N], g[N];
        load(w, w_N + i);
        load(m, m_N + i);
        load(v, v_N + i);
        load(g, g_N + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float scaled = g[k] * factor + l2 * w[k];
            m[k] = beta1 * m[k] + rest1 * scaled;
            v[k] = beta2 * v[k] + rest2 * scaled * scaled;
            w[k] = w[k] * shrink - rate * m[k] / (sqrtf(v[k] * unbias) + epsilon);
        }
        store(w_N + i, w);
        store(m_N + i, m);
        store(v_N + i, v);
        if (present(a.param_N)) store_param((P *)a.param_N.data + i, w);
    }
}

/* ---- SGD ---- */
/* d = g + decay w,   m = momentum m + d,   w -= lr m  or  lr (d + momentum m);  param = w */
template <typename P, int N> __global__ void __launch_bounds__(GPU_THREADS)
sgd_kernel(Sgd a, const StepState *step_state)
{
    if (step_state->skip) return;
    const float factor = (float)step_state->factor, lr = (float)STEP_LR(step_state, a.decoupled);
    const float momentum = (float)a.momentum, decay = (float)(a.decay * step_state->weight_decay);
    float *w_N = (float *)a.w_N.data, *m_N = (float *)a.m_N.data;
    const float  *g_N = (const float *)a.g_N.data;
    const int64_t step = (int64_t)gridDim.x * GPU_THREADS * N;

    for (int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) * N; i < a.w_N.dim[0]; i += step) {
        float w[N], m[N], g[N];
        load(w, w_N + i);
        load(m, m_N + i);
        load(g, g_N + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float d = g[k] * factor + decay * w[k];
            m[k] = momentum * m[k] + d;
            w[k] -= lr * (a.nesterov ? d + momentum * m[k] : m[k]);
        }
        store(w_N + i, w);
        store(m_N + i, m);
        if (present(a.param_N)) store_param((P *)a.param_N.data + i, w);
    }
}

/* ---- both ---- */
extern "C" void cuda_adamw(Queue *q, const Adamw *a)
{
    const int64_t N = a->w_N.dim[0];
    GPU_WANT(a->w_N, F32, N);
    GPU_WANT(a->m_N, F32, N);
    GPU_WANT(a->v_N, F32, N);
    GPU_WANT(a->g_N, F32, N);
    check_param(a->param_N, N);
    if (N == 0) return;
    const bool wide = wide_flat(a->w_N, N) && wide_flat(a->m_N, N) && wide_flat(a->v_N, N) &&
                      wide_flat(a->g_N, N) && wide_flat(a->param_N, N);
    by_param(a->param_N, wide, [&](auto zero, auto n) {
        constexpr int W = n;
        GPU_LAUNCH((adamw_kernel<decltype(zero), W>), update_blocks(N, W), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
    });
}

extern "C" void cuda_sgd(Queue *q, const Sgd *a)
{
    const int64_t N = a->w_N.dim[0];
    GPU_WANT(a->w_N, F32, N);
    GPU_WANT(a->m_N, F32, N);
    GPU_WANT(a->g_N, F32, N);
    check_param(a->param_N, N);
    if (N == 0) return;
    const bool wide = wide_flat(a->w_N, N) && wide_flat(a->m_N, N) && wide_flat(a->g_N, N) &&
                      wide_flat(a->param_N, N);
    by_param(a->param_N, wide, [&](auto zero, auto n) {
        constexpr int W = n;
        GPU_LAUNCH((sgd_kernel<decltype(zero), W>), update_blocks(N, W), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
    });
}
