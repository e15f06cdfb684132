/* The AdamW update on a GPU.   N elements of a flat parameter block
 * What changes from step to step is read from the StepState in device memory and not from the arguments,
 * so a step captured as a CUDA graph can be replayed. */
#include "tensor/cuda/block.h"

/* Enough blocks to fill a GPU; each thread strides over the elements (a grid-stride loop). */
constexpr int64_t MOST_BLOCKS = 1024;

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,
 * w -= lr (decay w + mhat / (sqrt(vhat) + epsilon)),  mhat = m / (1 - beta1^t),  vhat = v / (1 - beta2^t)  */
__global__ void __launch_bounds__(GPU_THREADS) adamw_kernel(Adamw a, const StepState *step_state)
{
    GPU_SHARED(float, correct, 2);
    if (step_state->skip) return;          /* the same for all threads, so no barrier is left waiting */
    if (threadIdx.x < 2) {                 /* pow in double is slow: two threads compute it for the block */
        const double beta = threadIdx.x ? a.beta2 : a.beta1;
        correct[threadIdx.x] = (float)(1.0 / (1.0 - pow(beta, (double)(step_state->updates + 1))));
    }
    __syncthreads();
    const float lr = (float)step_state->lr, factor = (float)step_state->factor;
    const float shrink = (float)(1.0 - step_state->lr * a.decay);
    const float beta1 = (float)a.beta1, rest1 = (float)(1.0 - a.beta1), epsilon = (float)a.epsilon;
    const float beta2 = (float)a.beta2, rest2 = (float)(1.0 - a.beta2);
    float *w = (float *)a.w_N.data, *m = (float *)a.m_N.data, *v = (float *)a.v_N.data;
    const float  *g_N = (const float *)a.g_N.data;
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step  = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = first; i < a.w_N.dim[0]; i += step) {
        const float g = g_N[i] * factor;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        w[i] = shrink * w[i] - lr * (m[i] * correct[0]) / (sqrtf(v[i] * correct[1]) + epsilon);
    }
}

extern "C" void cuda_adamw(Queue *q, const Adamw *a)
{
    const int64_t N = a->w_N.dim[0];
    GPU_WANT(a->w_N, F32, N);
    GPU_WANT(a->m_N, F32, N);
    GPU_WANT(a->v_N, F32, N);
    GPU_WANT(a->g_N, F32, N);
    CHECK(!tensor_present(a->param_N) && !a->stochastic, "the GPU's update writes F32 alone");
    const int64_t all = (N + GPU_THREADS - 1) / GPU_THREADS;
    const unsigned blocks = (unsigned)(all < MOST_BLOCKS ? all : MOST_BLOCKS);
    if (N > 0) GPU_LAUNCH(adamw_kernel, blocks, GPU_THREADS, gpu_stream_of(q), *a, q->step_state);
}
