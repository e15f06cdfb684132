/*  N elements.  What changes from step to step is read from the Tick in device memory, so that a captured graph replays. */
#include "tensor/cuda/block.h"

constexpr int64_t MOST_BLOCKS = 1024;      /* enough to fill any GPU; each thread then strides over the elements */

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,   w -= lr (decay w + mhat / (sqrt(vhat) + epsilon)) */
__global__ void __launch_bounds__(GPU_THREADS) adamw_kernel(Adamw a, const Tick *tick)
{
    GPU_SHARED(float, correct, 2);
    if (tick->skip) return;                /* the same for all threads */
    if (threadIdx.x < 2) correct[threadIdx.x] = (float)(1.0 / (1.0 - pow(threadIdx.x ? a.beta2 : a.beta1, (double)(tick->updates + 1))));
    __syncthreads();
    const float lr = (float)tick->lr, keep = (float)(1.0 - tick->lr * a.decay), factor = (float)tick->factor;
    const float beta1 = (float)a.beta1, beta2 = (float)a.beta2, rest1 = (float)(1.0 - a.beta1), rest2 = (float)(1.0 - a.beta2);
    const float epsilon = (float)a.epsilon;
    float *w = (float *)a.w_N.data, *m = (float *)a.m_N.data, *v = (float *)a.v_N.data;
    const float *g_N = (const float *)a.g_N.data;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.w_N.dim[0]; i += (int64_t)gridDim.x * blockDim.x) {
        const float g = g_N[i] * factor;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        w[i] = keep * w[i] - lr * (m[i] * correct[0]) / (sqrtf(v[i] * correct[1]) + epsilon);
    }
}

extern "C" void cuda_adamw(Queue *q, const Adamw *a)
{
    const int64_t N = a->w_N.dim[0];
    WANT(a->w_N, F32, N);
    WANT(a->m_N, F32, N);
    WANT(a->v_N, F32, N);
    WANT(a->g_N, F32, N);
    const int64_t blocks = (N + GPU_THREADS - 1) / GPU_THREADS;
    if (N > 0)
        GPU_LAUNCH(adamw_kernel, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), GPU_THREADS, stream_of(q), *a, q->tick);
}
