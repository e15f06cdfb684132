/* AdamW whose states are 8-bit codes, on a GPU.
 * N elements   B blocks of them */
#include "tensor/cuda/update.h"
#include "tensor/dynamic_code.h"

/* A thread for each element of a block of codes. */
static_assert((int)GPU_THREADS == (int)CODE_BLOCK, "a thread block is a block of codes");

/* The tables of both kinds of codes, with signs and without, in shared memory. */
struct CodeTables { float *value, *middle; };

/* Threads compute a part each; all must call. */
__device__ __forceinline__ void tables_make(const CodeTables &table)
{
    for (int t = (int)threadIdx.x; t < 2 * CODE_VALUES; t += GPU_THREADS)
        table.value[t] = code_value(t % CODE_VALUES, t < CODE_VALUES);
    __syncthreads();
    for (int t = (int)threadIdx.x; t < 2 * CODE_VALUES; t += GPU_THREADS)
        table.middle[t] = t % CODE_VALUES == CODE_VALUES - 1
                              ? INFINITY : code_middle_float(table.value[t], table.value[t + 1]);
    __syncthreads();
}

/* How many middles are below x / scale: its code. The last middle is infinity. */
__device__ __forceinline__ uint8_t code_of(const float *middle, float x, float scale)
{
    const float ratio = x / (scale > 0 ? scale : 1.0f);
    int at = 0;
#pragma unroll
    for (int step = CODE_VALUES / 2; step > 0; step /= 2) at += middle[at + step - 1] < ratio ? step : 0;
    return (uint8_t)at;
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g, of the values of codes
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon);   without w:   g = mhat / (sqrt(vhat) + epsilon)
 * A thread block takes blocks of codes that are gridDim.x apart, so that it makes the tables once. Every
 * thread has read the scales of a block before the barriers of block_max, and one writes them after. */
template <typename P> __global__ void __launch_bounds__(GPU_THREADS)
adam8bit_kernel(Adam8bit a, const StepState *step_state)
{
    GPU_SHARED(float, value, 2 * CODE_VALUES);
    GPU_SHARED(float, middle, 2 * CODE_VALUES);
    GPU_SHARED(float, part, GPU_MAX_WARPS);
    GPU_SHARED(double, correct, 2);
    if (step_state->skip) return;
    if (threadIdx.x < 2) correct[threadIdx.x] = bias_correction(*step_state, threadIdx.x ? a.beta2 : a.beta1);
    tables_make(CodeTables{ value, middle });
    const bool   weights = present(a.w_N);
    const double lr = weights ? step_state->lr : 1;
    const float  shrink = (float)(1 - lr * (a.decay * step_state->weight_decay));
    const float  rate = (float)(lr * correct[0]), unbias = (float)correct[1], epsilon = (float)a.epsilon;
    const float  factor = (float)step_state->factor;
    const float  beta1 = (float)a.beta1, rest1 = (float)(1 - a.beta1);
    const float  beta2 = (float)a.beta2, rest2 = (float)(1 - a.beta2);
    const int64_t N = a.g_N.dim[0], B = a.m_scale_B.dim[0];
    float *m_scale = (float *)a.m_scale_B.data, *v_scale = (float *)a.v_scale_B.data;
    uint8_t *m_code = (uint8_t *)a.m_N.data, *v_code = (uint8_t *)a.v_N.data;

    for (int64_t b = blockIdx.x; b < B; b += gridDim.x) {
        const int64_t i = b * CODE_BLOCK + threadIdx.x;
        float *g = (float *)a.g_N.data + i, m = 0, v = 0;
        if (i < N) {
            const float scaled = *g * factor;
            m = beta1 * (value[m_code[i]] * m_scale[b]) + rest1 * scaled;
            v = beta2 * (value[CODE_VALUES + v_code[i]] * v_scale[b]) + rest2 * scaled * scaled;
        }
        const float most_m = block_max(part, fabsf(m)), most_v = block_max(part, v);
        if (threadIdx.x == 0) m_scale[b] = most_m, v_scale[b] = most_v;
        if (i >= N) continue;
        const float u = rate * m / (sqrtf(v * unbias) + epsilon);
        m_code[i] = code_of(middle, m, most_m);
        v_code[i] = code_of(middle + CODE_VALUES, v, most_v);
        if (weights) {
            float *w = (float *)a.w_N.data + i;
            *w = *w * shrink - u;
            if (present(a.param_N)) store((P *)a.param_N.data + i, *w);
        } else {
            *g = u;
        }
    }
}

extern "C" void cuda_adam8bit(Queue *q, const Adam8bit *a)
{
    const int64_t N = a->g_N.dim[0], B = code_blocks(N);
    if (tensor_present(a->w_N)) GPU_WANT(a->w_N, F32, N);
    check_param(a->param_N, N);
    GPU_WANT(a->g_N, F32, N);
    GPU_WANT(a->m_N, U8, N);
    GPU_WANT(a->m_scale_B, F32, B);
    GPU_WANT(a->v_N, U8, N);
    GPU_WANT(a->v_scale_B, F32, B);
    if (N == 0) return;
    by_param(a->param_N, false, [&](auto zero, auto) {
        GPU_LAUNCH(adam8bit_kernel<decltype(zero)>, update_blocks(N, 1), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
    });
}

/* ---- blocks that are cut: the largest magnitude of a block is the maximum over ranks ---- */
__device__ __forceinline__ int64_t block_of(const ElementPlace &p, int64_t i)
{
    const int64_t in_rows = p.columns > 0 ? i / p.columns * p.global_columns + i % p.columns : i;
    return (p.offset + in_rows) / CODE_BLOCK;
}

/* Numbers of 0 and above are in the order of their bits, and a NaN is above all. */
__device__ __forceinline__ void raise(float *most, float x)
{
#if defined(GPU_CPU)
    *most = larger(x, *most);
#else
    atomicMax((int *)most, __float_as_int(x));
#endif
}

__global__ void __launch_bounds__(GPU_THREADS)
adam8bit_moments_kernel(Adam8bitMoments a, const StepState *step_state)
{
    GPU_SHARED(float, value, 2 * CODE_VALUES);
    if (step_state->skip) return;
    for (int t = (int)threadIdx.x; t < 2 * CODE_VALUES; t += GPU_THREADS)
        value[t] = code_value(t % CODE_VALUES, t < CODE_VALUES);
    __syncthreads();
    const int64_t N = a.g_N.dim[0], B = a.m_scale_B.dim[0];
    const float   factor = (float)step_state->factor;
    const float   beta1 = (float)a.beta1, rest1 = (float)(1 - a.beta1);
    const float   beta2 = (float)a.beta2, rest2 = (float)(1 - a.beta2);
    float *most = (float *)a.most_2B.data;
    const int64_t step = (int64_t)gridDim.x * GPU_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x; i < N; i += step) {
        const int64_t b = block_of(a.place, i);
        const float   g = ((const float *)a.g_N.data)[i] * factor;
        const float   m_code = value[((const uint8_t *)a.m_N.data)[i]];
        const float   v_code = value[CODE_VALUES + ((const uint8_t *)a.v_N.data)[i]];
        const float   m = beta1 * (m_code * ((const float *)a.m_scale_B.data)[b]) + rest1 * g;
        const float   v = beta2 * (v_code * ((const float *)a.v_scale_B.data)[b]) + rest2 * g * g;
        ((float *)a.m_wide_N.data)[i] = m;
        ((float *)a.v_wide_N.data)[i] = v;
        raise(most + b, fabsf(m));
        raise(most + B + b, v);
    }
}

extern "C" void cuda_adam8bit_moments(Queue *q, const Adam8bitMoments *a)
{
    const int64_t N = a->g_N.dim[0], B = a->m_scale_B.dim[0];
    GPU_WANT(a->m_wide_N, F32, N);
    GPU_WANT(a->v_wide_N, F32, N);
    GPU_WANT(a->most_2B, F32, 2 * B);
    GPU_WANT(a->m_N, U8, N);
    GPU_WANT(a->m_scale_B, F32, B);
    GPU_WANT(a->v_N, U8, N);
    GPU_WANT(a->v_scale_B, F32, B);
    GPU_WANT(a->g_N, F32, N);
    if (B > 0)
        gpu_check(gpuMemsetAsync(a->most_2B.data, 0, tensor_bytes(a->most_2B), gpu_stream_of(q)),
                  "gpuMemsetAsync");
    if (N > 0)
        GPU_LAUNCH(adam8bit_moments_kernel, update_blocks(N, 1), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
}

template <typename P> __global__ void __launch_bounds__(GPU_THREADS)
adam8bit_store_kernel(Adam8bitStore a, const StepState *step_state)
{
    GPU_SHARED(float, value, 2 * CODE_VALUES);
    GPU_SHARED(float, middle, 2 * CODE_VALUES);
    GPU_SHARED(double, correct, 2);
    if (step_state->skip) return;
    if (threadIdx.x < 2) correct[threadIdx.x] = bias_correction(*step_state, threadIdx.x ? a.beta2 : a.beta1);
    tables_make(CodeTables{ value, middle });
    const double  lr = step_state->lr;
    const float   shrink = (float)(1 - lr * (a.decay * step_state->weight_decay));
    const float   rate = (float)(lr * correct[0]), unbias = (float)correct[1], epsilon = (float)a.epsilon;
    const int64_t N = a.w_N.dim[0], B = a.m_scale_B.dim[0], step = (int64_t)gridDim.x * GPU_THREADS;
    const int64_t first = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    const float *most = (const float *)a.most_2B.data;
    for (int64_t b = first; b < B; b += step) {
        ((float *)a.m_scale_B.data)[b] = most[b];
        ((float *)a.v_scale_B.data)[b] = most[B + b];
    }
    for (int64_t i = first; i < N; i += step) {
        const int64_t b = block_of(a.place, i);
        const float   m = ((const float *)a.m_wide_N.data)[i], v = ((const float *)a.v_wide_N.data)[i];
        float *w = (float *)a.w_N.data + i;
        *w = *w * shrink - rate * m / (sqrtf(v * unbias) + epsilon);
        if (present(a.param_N)) store((P *)a.param_N.data + i, *w);
        ((uint8_t *)a.m_N.data)[i] = code_of(middle, m, most[b]);
        ((uint8_t *)a.v_N.data)[i] = code_of(middle + CODE_VALUES, v, most[B + b]);
    }
}

extern "C" void cuda_adam8bit_store(Queue *q, const Adam8bitStore *a)
{
    const int64_t N = a->w_N.dim[0], B = a->m_scale_B.dim[0];
    GPU_WANT(a->w_N, F32, N);
    check_param(a->param_N, N);
    GPU_WANT(a->m_N, U8, N);
    GPU_WANT(a->m_scale_B, F32, B);
    GPU_WANT(a->v_N, U8, N);
    GPU_WANT(a->v_scale_B, F32, B);
    GPU_WANT(a->m_wide_N, F32, N);
    GPU_WANT(a->v_wide_N, F32, N);
    GPU_WANT(a->most_2B, F32, 2 * B);
    if (N + B == 0) return;
    by_param(a->param_N, false, [&](auto zero, auto) {
        GPU_LAUNCH(adam8bit_store_kernel<decltype(zero)>, update_blocks(N > B ? N : B, 1), GPU_THREADS,
                   gpu_stream_of(q), *a, (const StepState *)q->step_state);
    });
}
