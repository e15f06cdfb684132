/* Activation functions and their gradients on a GPU: one thread for each vector of elements.
 * T tokens   F hidden channels
 * Gated: x is [T, 2F], gate columns and then up columns, y = act(gate) up. */
#include "tensor/cuda/vector.h"

/* 1 / (1 + e^-x); the fast exponential's error is below that of rounding to float near 1, and relative to
 * the value far from it */
static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + gpu_fast_exp(-x));
}

/* GELU by tanh is x sigmoid(2 u), since (1 + tanh(u)) / 2 = sigmoid(2 u); u = sqrt(2 / pi) (x + 0.044715
 * x^3) */
static __device__ __forceinline__ float gate_of_gelu(float x)
{
    return sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

/* act(x); of gated activations that of the gate */
static __device__ __forceinline__ float act_value(int kind, float x)
{
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH:   return x * gate_of_gelu(x);
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF:    return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    case ACT_QUICK_GEGLU:  return x * sigmoid(1.702f * x);
    case ACT_SQUARED_RELU: return x < 0 ? 0.0f : x * x;             /* NaN < 0 is false: NaN stays NaN */
    case ACT_RELU:         return x < 0 ? 0.0f : x;
    default:               return x * sigmoid(x);                   /* silu, and the gate of SwiGLU */
    }
}

/* act'(x) */
static __device__ __forceinline__ float act_derivative(int kind, float x)
{
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH: {
        const float s = gate_of_gelu(x), bounded = x < -12 ? -12.0f : x > 12 ? 12.0f : x;
        return s + bounded * s * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * bounded * bounded);
    }
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF: {
        const float bell = 0.3989422804f * expf(-0.5f * x * x);     /* 1 / sqrt(2 pi) */
        return 0.5f * (1.0f + erff(x * 0.7071067812f)) + x * bell;
    }
    case ACT_QUICK_GEGLU: {
        const float s = sigmoid(1.702f * x);
        return s * (1.0f + 1.702f * x * (1.0f - s));
    }
    case ACT_SQUARED_RELU: return x < 0 ? 0.0f : 2.0f * x;
    case ACT_RELU:         return x <= 0 ? 0.0f : 1.0f;
    default: {
        const float s = sigmoid(x);
        return s * (1.0f + x * (1.0f - s));
    }
    }
}

static void check_kind(int kind)
{
    const bool known = kind >= ACT_GELU_TANH && kind < ACT_KINDS;
    CHECK(known, "activation kind %d is not in 0 .. %d", kind, ACT_KINDS - 1);
}

/* N elements of a row of x from column c on, plus the bias */
template <typename T, int N>
static __device__ __forceinline__ void biased(float (&to)[N], const T *x, const Tensor &bias_F, int64_t c)
{
    float bias[N];
    load(to, x + c);
    load_or_zero<T>(bias, bias_F, c);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] += bias[i];
}

/* y = act(x + bias);   gated: y = act(gate) up */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
activation_forward_kernel(ActivationForward a)
{
    const int64_t F = a.y_TF.dim[1];
    const Place   at = place_of<N>(F);
    if (at.t >= a.y_TF.dim[0]) return;
    const T *x_row = gpu_row<T>(a.x_TF, at.t);
    float x[N], up[N] = { 0 };
    biased(x, x_row, a.bias_F, at.c);
    if (ACT_GATED(a.kind)) biased(up, x_row, a.bias_F, F + at.c);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = act_value(a.kind, x[i]) * (ACT_GATED(a.kind) ? up[i] : 1.0f);
    store(gpu_row<T>(a.y_TF, at.t) + at.c, x);
}

extern "C" void cuda_activation_forward(Queue *q, const ActivationForward *a)
{
    const int64_t T = a->y_TF.dim[0], F = a->y_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    const Dtype   dtype = a->y_TF.dtype;
    check_kind(a->kind);
    GPU_WANT(a->y_TF, dtype, T, F);
    GPU_WANT(a->x_TF, dtype, T, wide);
    if (tensor_present(a->bias_F)) GPU_WANT(a->bias_F, dtype, wide);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(F, a->y_TF, a->x_TF, a->bias_F), [&](auto zero, auto n) {
        const auto activation_forward = activation_forward_kernel<decltype(zero), n>;
        GPU_LAUNCH(activation_forward, vector_blocks(T, F, n), GPU_THREADS, gpu_stream_of(q), *a);
    });
}

/* dx = dy act'(x + bias);   gated: dgate = dy up act'(gate),   dup = dy act(gate)
 * dx may be dy or x, because a thread reads all that it needs before it writes. */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
activation_backward_kernel(ActivationBackward a)
{
    const int64_t F = a.dy_TF.dim[1];
    const Place   at = place_of<N>(F);
    if (at.t >= a.dy_TF.dim[0]) return;
    const bool gated = ACT_GATED(a.kind);
    const T   *x_row = gpu_row<T>(a.x_TF, at.t);
    T         *dx_row = gpu_row<T>(a.dx_TF, at.t);
    float x[N], up[N] = { 0 }, dy[N], dup[N];
    load(dy, gpu_row<T>(a.dy_TF, at.t) + at.c);
    biased(x, x_row, a.bias_F, at.c);
    if (gated) biased(up, x_row, a.bias_F, F + at.c);
#pragma unroll
    for (int i = 0; i < N; i++) {
        dup[i] = gated ? dy[i] * act_value(a.kind, x[i]) : 0.0f;
        x[i]   = dy[i] * (gated ? up[i] : 1.0f) * act_derivative(a.kind, x[i]);
    }
    store(dx_row + at.c, x);
    if (gated) store(dx_row + F + at.c, dup);
}

extern "C" void cuda_activation_backward(Queue *q, const ActivationBackward *a)
{
    const int64_t T = a->dy_TF.dim[0], F = a->dy_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    const Dtype   dtype = a->dx_TF.dtype;
    check_kind(a->kind);
    GPU_WANT(a->dx_TF, dtype, T, wide);
    GPU_WANT(a->dy_TF, dtype, T, F);
    GPU_WANT(a->x_TF, dtype, T, wide);
    if (tensor_present(a->bias_F)) GPU_WANT(a->bias_F, dtype, wide);
    if (T == 0) return;
    by_vector(dtype, all_rows_aligned(F, a->dx_TF, a->dy_TF, a->x_TF, a->bias_F), [&](auto zero, auto n) {
        const auto activation_backward = activation_backward_kernel<decltype(zero), n>;
        GPU_LAUNCH(activation_backward, vector_blocks(T, F, n), GPU_THREADS, gpu_stream_of(q), *a);
    });
}
