#ifndef TENSOR_CUDA_BLOCK_H
#define TENSOR_CUDA_BLOCK_H
/* What kernels share: access to tensors, sums and maxima over a thread block, and the checks of the
 * functions that launch them. A reduction adds in the order of lanes and warps, never by atomics, so
 * results are the same in every run. */
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/kernels.h"

enum { GPU_THREADS = 256, GPU_MAX_WARPS = GPU_THREADS / 32 };

/* ---- device: a kernel receives the op's argument struct by value, with the Tensors in it ---- */
template <typename T> __device__ __forceinline__ T *gpu_row(const Tensor &x, int64_t t)
{
    return (T *)x.data + t * x.stride[0];
}

/* Row (b, s, h) of a tensor of four dims, or an element of one of three. */
template <typename T> __device__ __forceinline__ T *gpu_row(const Tensor &x, int64_t b, int64_t s, int64_t h)
{
    return (T *)x.data + b * x.stride[0] + s * x.stride[1] + h * x.stride[2];
}

__device__ __forceinline__ bool present(const Tensor &x)
{
    return x.dim[0] != 0;
}

/* Element i of a 1-dim F32 tensor that may be absent. */
__device__ __forceinline__ float value_or_zero(const Tensor &x, int64_t i)
{
    return present(x) ? ((const float *)x.data)[i] : 0.0f;
}

/* ---- device: sums and maxima over a block; every thread of it must call and every thread gets the result.
 *      `part` is shared memory of GPU_MAX_WARPS numbers. ---- */
template <typename T> __device__ __forceinline__ T larger(T a, T b)
{
    return a > b ? a : b;
}

/* Writes each warp's partial result to shared memory. The first barrier protects the previous result from
 * being overwritten while another warp reads it, and the second makes all partial results visible. Tests
 * compile this with one of them removed and expect the error to be detected. */
template <typename T> __device__ __forceinline__ void share_warps(T *part, T v)
{
#ifndef GPU_PLANT_NO_FIRST_BARRIER
    __syncthreads();
#endif
    if (threadIdx.x % GPU_WARP == 0) part[threadIdx.x / GPU_WARP] = v;
#ifndef GPU_PLANT_NO_SECOND_BARRIER
    __syncthreads();
#endif
}

/* Sums over groups of `lanes` neighbouring lanes, of which a warp has one or more. */
template <typename T> __device__ __forceinline__ T lanes_sum(T v, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2) v += gpu_shuffle_xor(v, mask);
    return v;
}

template <typename T> __device__ __forceinline__ T lanes_max(T v, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2) v = larger(v, gpu_shuffle_xor(v, mask));
    return v;
}

template <typename T> __device__ __forceinline__ T block_sum(T *part, T v)
{
    v = lanes_sum(v, GPU_WARP);
    share_warps(part, v);
    T sum = 0;
    for (int w = 0; w < (int)blockDim.x / GPU_WARP; w++) sum += part[w];
    return sum;
}

template <typename T> __device__ __forceinline__ T block_max(T *part, T v)
{
    v = lanes_max(v, GPU_WARP);
    share_warps(part, v);
    T max = part[0];
    for (int w = 1; w < (int)blockDim.x / GPU_WARP; w++) max = larger(max, part[w]);
    return max;
}

/* ---- host ---- */
static inline GpuStream *gpu_of(Queue *q)
{
    return (GpuStream *)q->device;
}

static inline gpuStream_t gpu_stream_of(Queue *q)
{
    return (gpuStream_t)gpu_of(q)->stream;
}

/* The number of thread blocks for `items` when one block does `each` of them. */
static inline unsigned blocks_for(int64_t items, int64_t each)
{
    int64_t blocks = (items + each - 1) / each;
    CHECK(blocks <= INT32_MAX, "%lld thread blocks are more than a grid allows", (long long)blocks);
    return (unsigned)blocks;
}

/* The workspace of the running op, for count elements (see cuda_<op>_workspace in kernels.h). */
template <typename T> static inline T *workspace_of(Queue *q, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(T), have = q->op_workspace_bytes;
    CHECK(bytes <= have, "needs %zu bytes of workspace, and has %zu", bytes, have);
    return (T *)q->op_workspace;
}

/* The type and shape that an op requires of a tensor. Anything else is a bug of the caller and a CHECK on
 * the host, so that no kernel reads outside of its tensors. */
#define GPU_WANT(x, type, ...) gpu_want(#x, x, type, __VA_ARGS__)
template <typename... Dims>
static inline void gpu_want(const char *name, const Tensor &x, Dtype type, Dims... dims)
{
    const int64_t dim[] = { dims... };
    const int     n = sizeof...(dims);
    bool same = x.dtype == type && (dim[n - 1] <= 1 || x.stride[n - 1] == 1);
    for (int d = 0; d < 4; d++) same = same && x.dim[d] == (d < n ? dim[d] : 1);
    CHECK(same, "%s is %s [%lld, %lld, %lld, %lld], required is %s of %d dims, %lld to %lld, with a last stride of 1",
          name, dtype_name(x.dtype), (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2],
          (long long)x.dim[3], dtype_name(type), n, (long long)dim[0], (long long)dim[n - 1]);
}
#endif
