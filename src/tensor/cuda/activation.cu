/* Activation functions and their gradients on a GPU: one thread for each element.
 * T tokens   F hidden channels
 * Gated (SwiGLU): x is [T, 2F], gate columns and then up columns, y = silu(gate) up. */
#include "tensor/cuda/block.h"

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static __device__ __forceinline__ float tanh_of_gelu(float x)
{
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));      /* sqrt(2 / pi) */
}

/* act(x), of the gate under SwiGLU */
static __device__ __forceinline__ float act_value(int kind, float x)
{
    switch (kind) {
    case ACT_GELU_TANH:    return 0.5f * x * (1.0f + tanh_of_gelu(x));
    case ACT_GELU_ERF:     return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    case ACT_SQUARED_RELU: return x < 0 ? 0.0f : x * x;             /* NaN < 0 is false: NaN stays NaN */
    default:               return x * sigmoid(x);                   /* silu, and the gate of SwiGLU */
    }
}

/* act'(x) */
static __device__ __forceinline__ float act_derivative(int kind, float x)
{
    switch (kind) {
    case ACT_GELU_TANH: {
        const float t = tanh_of_gelu(x);
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 0.134145f * x * x);
    }
    case ACT_GELU_ERF: {
        const float bell = 0.3989422804f * expf(-0.5f * x * x);     /* 1 / sqrt(2 pi) */
        return 0.5f * (1.0f + erff(x * 0.7071067812f)) + x * bell;
    }
    case ACT_SQUARED_RELU: return x < 0 ? 0.0f : 2.0f * x;
    default:               return sigmoid(x) * (1.0f + x * (1.0f - sigmoid(x)));
    }
}

static void check_kind(int kind)
{
    const bool known = kind >= ACT_GELU_TANH && kind <= ACT_SWIGLU;
    CHECK(known, "activation kind %d is not in 0 .. %d", kind, ACT_SWIGLU);
}

/* One thread for each element. Rows are the grid's x, the only side that allows more than 65535 blocks. */
static dim3 grid_of(int64_t T, int64_t F)
{
    return dim3(blocks_for(T, 1), blocks_for(F, GPU_THREADS));
}

/* y = act(x + bias);   gated: y = silu(gate) up. Threads read and write consecutive channels (coalesced). */
__global__ void __launch_bounds__(GPU_THREADS) activation_forward_kernel(ActivationForward a)
{
    const int64_t t = blockIdx.x, F = a.y_TF.dim[1], f = (int64_t)blockIdx.y * GPU_THREADS + threadIdx.x;
    if (f >= F) return;
    const float *x = gpu_row<float>(a.x_TF, t);
    const float up = a.kind == ACT_SWIGLU ? x[F + f] + value_or_zero(a.bias_F, F + f) : 1.0f;
    gpu_row<float>(a.y_TF, t)[f] = act_value(a.kind, x[f] + value_or_zero(a.bias_F, f)) * up;
}

extern "C" void cuda_activation_forward(Queue *q, const ActivationForward *a)
{
    const int64_t T = a->y_TF.dim[0], F = a->y_TF.dim[1], wide = a->kind == ACT_SWIGLU ? 2 * F : F;
    check_kind(a->kind);
    GPU_WANT(a->y_TF, F32, T, F);
    GPU_WANT(a->x_TF, F32, T, wide);
    if (tensor_present(a->bias_F)) GPU_WANT(a->bias_F, F32, wide);
    if (T > 0) GPU_LAUNCH(activation_forward_kernel, grid_of(T, F), GPU_THREADS, gpu_stream_of(q), *a);
}

/* dx = dy act'(x + bias);   gated: dgate = dy up silu'(gate),   dup = dy silu(gate)
 * dx may be dy or x, because a thread reads all that it needs before it writes. */
__global__ void __launch_bounds__(GPU_THREADS) activation_backward_kernel(ActivationBackward a)
{
    const int64_t t = blockIdx.x, F = a.dy_TF.dim[1], f = (int64_t)blockIdx.y * GPU_THREADS + threadIdx.x;
    if (f >= F) return;
    const bool   gated = a.kind == ACT_SWIGLU;
    const float *x_row = gpu_row<float>(a.x_TF, t), dy = gpu_row<float>(a.dy_TF, t)[f];
    const float  x = x_row[f] + value_or_zero(a.bias_F, f);
    const float  up = gated ? x_row[F + f] + value_or_zero(a.bias_F, F + f) : 1.0f;
    float       *dx = gpu_row<float>(a.dx_TF, t);
    dx[f] = dy * up * act_derivative(a.kind, x);
    if (gated) dx[F + f] = dy * act_value(a.kind, x);
}

extern "C" void cuda_activation_backward(Queue *q, const ActivationBackward *a)
{
    const int64_t T = a->dy_TF.dim[0], F = a->dy_TF.dim[1], wide = a->kind == ACT_SWIGLU ? 2 * F : F;
    check_kind(a->kind);
    GPU_WANT(a->dx_TF, F32, T, wide);
    GPU_WANT(a->dy_TF, F32, T, F);
    GPU_WANT(a->x_TF, F32, T, wide);
    if (tensor_present(a->bias_F)) GPU_WANT(a->bias_F, F32, wide);
    if (T > 0) GPU_LAUNCH(activation_backward_kernel, grid_of(T, F), GPU_THREADS, gpu_stream_of(q), *a);
}
