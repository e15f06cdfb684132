/* Dropout on a GPU: one thread for each vector of elements. The mask is computed from a key and the elements'
 * numbers, forward and backward, and never stored.
 * T rows   C channels */
#include "tensor/cuda/random.h"
#include "tensor/cuda/vector.h"

/* y = residual + drop(x + bias); a thread reads all that it needs before it writes, so y may be either */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
dropout_forward_kernel(DropoutForward a, const StepState *step_state)
{
    const int64_t C = a.y_TC.dim[1];
    const Place   at = place_of<N>(C);
    if (at.t >= a.y_TC.dim[0]) return;
    float x[N], bias[N], residual[N], factor[N];
    load(x, gpu_row<T>(a.x_TC, at.t) + at.c);
    load_or_zero<T>(bias, a.bias_C, at.c);
    if (present(a.residual_TC)) load(residual, gpu_row<T>(a.residual_TC, at.t) + at.c);
    if (a.p > 0) {
        const uint64_t token = (uint64_t)*gpu_row<int32_t>(a.dropout_index_i, at.t);
        dropout_factors(factor, dropout_mask(step_state, a.site, a.p), token * (uint64_t)C + (uint64_t)at.c);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        x[i] += bias[i];
        if (a.p > 0) x[i] *= factor[i];
        if (present(a.residual_TC)) x[i] += residual[i];
    }
    store(gpu_row<T>(a.y_TC, at.t) + at.c, x);
}

extern "C" void cuda_dropout_forward(Queue *q, const DropoutForward *a)
{
    const int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    const Dtype   dtype = a->y_TC.dtype;
    GPU_WANT(a->y_TC, dtype, T, C);
    GPU_WANT(a->x_TC, dtype, T, C);
    if (tensor_present(a->residual_TC)) GPU_WANT(a->residual_TC, dtype, T, C);
    if (tensor_present(a->bias_C)) GPU_WANT(a->bias_C, dtype, C);
    if (a->p > 0) GPU_WANT(a->dropout_index_i, I32, T);
    if (T == 0) return;
    const bool wide = all_rows_aligned(C, a->y_TC, a->x_TC, a->residual_TC, a->bias_C);
    by_vector(dtype, wide, [&](auto zero, auto n) {
        const auto dropout_forward = dropout_forward_kernel<decltype(zero), n>;
        GPU_LAUNCH(dropout_forward, vector_blocks(T, C, n), GPU_THREADS, gpu_stream_of(q), *a, q->step_state);
    });
}

/* dx = drop(dy) */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
dropout_backward_kernel(DropoutBackward a, const StepState *step_state)
{
    const int64_t C = a.dx_TC.dim[1];
    const Place   at = place_of<N>(C);
    if (at.t >= a.dx_TC.dim[0]) return;
    float x[N], factor[N];
    load(x, gpu_row<T>(a.dy_TC, at.t) + at.c);
    if (a.p > 0) {
        const uint64_t token = (uint64_t)*gpu_row<int32_t>(a.dropout_index_i, at.t);
        dropout_factors(factor, dropout_mask(step_state, a.site, a.p), token * (uint64_t)C + (uint64_t)at.c);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] *= factor[i];
    }
    store(gpu_row<T>(a.dx_TC, at.t) + at.c, x);
}

extern "C" void cuda_dropout_backward(Queue *q, const DropoutBackward *a)
{
    const int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    const Dtype   dtype = a->dx_TC.dtype;
    GPU_WANT(a->dx_TC, dtype, T, C);
    GPU_WANT(a->dy_TC, dtype, T, C);
    if (a->p > 0) GPU_WANT(a->dropout_index_i, I32, T);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(C, a->dx_TC, a->dy_TC), [&](auto zero, auto n) {
        const auto dropout_backward = dropout_backward_kernel<decltype(zero), n>;
        GPU_LAUNCH(dropout_backward, vector_blocks(T, C, n), GPU_THREADS, gpu_stream_of(q), *a, q->step_state);
    });
}
