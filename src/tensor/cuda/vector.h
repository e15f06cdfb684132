#ifndef TENSOR_CUDA_VECTOR_H
#define TENSOR_CUDA_VECTOR_H
/* Elements of F32 and BF16 in memory, of which a thread reads and writes 16 bytes at once where rows are
 * aligned: kernels are templates of the element type T and of the number N of elements of a vector, which is
 * WIDE<T> or 1. Numbers are computed with as float. */
#include "tensor/cuda/block.h"

struct Bf16 { uint16_t bits; };                /* an element in memory */

template <typename T> constexpr int WIDE = 16 / (int)sizeof(T);

/* Two floats rounded to bf16, the first in the lower half of the word, where it comes first in memory. */
__device__ __forceinline__ uint32_t bf16_pair(float first, float second)
{
#if defined(__CUDA_ARCH__)
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return (uint32_t)gpu_bf16_bits(first) | (uint32_t)gpu_bf16_bits(second) << 16;
#endif
}

__device__ __forceinline__ float bf16_first(uint32_t pair)  { return gpu_float_of(pair << 16); }
__device__ __forceinline__ float bf16_second(uint32_t pair) { return gpu_float_of(pair & 0xffff0000u); }

/* ---- one element ---- */
__device__ __forceinline__ float load(const float *x) { return *x; }
__device__ __forceinline__ float load(const Bf16 *x)  { return gpu_float_of((uint32_t)x->bits << 16); }
__device__ __forceinline__ void store(float *y, float value) { *y = value; }
__device__ __forceinline__ void store(Bf16 *y, float value)  { y->bits = (uint16_t)bf16_pair(value, 0); }

/* ---- N elements; a vector of more than one begins at a multiple of 16 bytes ---- */
template <int N> __device__ __forceinline__ void load(float (&to)[N], const float *x)
{
    if constexpr (N == 1) {
        to[0] = *x;
    } else {                                   /* 8 beside as many of bf16 */
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *(const float4 *)(x + i);
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        }
    }
}

template <int N> __device__ __forceinline__ void load(float (&to)[N], const Bf16 *x)
{
    if constexpr (N == 1) {
        to[0] = load(x);
    } else {
        const uint4 v = *(const uint4 *)x;
        const uint32_t pair[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
        for (int i = 0; i < 4; i++) to[2 * i] = bf16_first(pair[i]), to[2 * i + 1] = bf16_second(pair[i]);
    }
}

template <int N> __device__ __forceinline__ void store(float *y, const float (&from)[N])
{
    if constexpr (N == 1) *y = from[0];
    else *(float4 *)y = make_float4(from[0], from[1], from[2], from[3]);
}

template <int N> __device__ __forceinline__ void store(Bf16 *y, const float (&from)[N])
{
    if constexpr (N == 1) store(y, from[0]);
    else *(uint4 *)y = make_uint4(bf16_pair(from[0], from[1]), bf16_pair(from[2], from[3]),
                                  bf16_pair(from[4], from[5]), bf16_pair(from[6], from[7]));
}

/* N elements of a 1-dim tensor from column c on; zeros where it is absent. */
template <typename T, int N>
__device__ __forceinline__ void load_or_zero(float (&to)[N], const Tensor &x, int64_t c)
{
    if (present(x)) {
        load(to, (const T *)x.data + c);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) to[i] = 0;
    }
}

/* ---- elementwise kernels: one thread for each vector, in row-major order ---- */
struct Place { int64_t t, c; };                /* row, first column */

/* The place of this thread's vector; t is beyond the rows for the threads that have none. Divides in 32 bits
 * where it can, since a division of 64 takes longer than the memory access that it is for. */
template <int N> __device__ __forceinline__ Place place_of(int64_t columns)
{
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, each = (uint64_t)columns / N;
    if (i <= UINT32_MAX) {
        const uint32_t t = (uint32_t)i / (uint32_t)each;
        return Place{ t, (int64_t)((uint32_t)i - t * (uint32_t)each) * N };
    }
    return Place{ (int64_t)(i / each), (int64_t)(i % each) * N };
}

/* ---- host ---- */
static inline unsigned vector_blocks(int64_t rows, int64_t columns, int n)
{
    return blocks_for(rows * (columns / n), GPU_THREADS);
}

/* Whether rows of `columns` elements can be read by 16 bytes: x is absent, or all its rows are aligned. */
static inline bool rows_aligned(const Tensor &x, int64_t columns)
{
    if (!tensor_present(x)) return true;
    const int64_t n = 16 / (int64_t)dtype_width(x.dtype);
    bool all = (uintptr_t)x.data % 16 == 0 && columns % n == 0;
    for (int d = 0; d < 4; d++) all = all && (x.dim[d] <= 1 || x.stride[d] == 1 || x.stride[d] % n == 0);
    return all;
}

template <typename... Tensors> static inline bool all_rows_aligned(int64_t columns, const Tensors &...x)
{
    return (rows_aligned(x, columns) && ...);
}

/* Calls f with the type of elements and the width of vectors, which it reads as in
 *     by_vector(x.dtype, wide, [&](auto zero, auto n) { using T = decltype(zero); constexpr int N = n; }) */
template <int N> struct Width { constexpr operator int() const { return N; } };
template <typename F> static inline void by_vector(Dtype dtype, bool wide, F f)
{
    const bool known = dtype == F32 || dtype == BF16;
    CHECK(known, "there are kernels for F32 and BF16, and not for %s", dtype_name(dtype));
    if (dtype == F32 && wide) f(0.0f, Width<4>());
    else if (dtype == F32)    f(0.0f, Width<1>());
    else if (wide)            f(Bf16(), Width<8>());
    else                      f(Bf16(), Width<1>());
}
#endif
