#ifndef TENSOR_CUDA_VECTOR_H
#define TENSOR_CUDA_VECTOR_H
/* Elements of F32, BF16 and F16 in memory, of which a thread reads and writes 16 bytes at once where rows are
 * aligned: kernels are templates of the element type T and of the number N of elements of a vector, which is
 * WIDE<T> or 1. Numbers are computed with as float. */
#include "tensor/cuda/block.h"
#if !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
#include "tensor/half.h"
#endif

struct Bf16 { uint16_t bits; };                /* elements in memory */
struct Fp16 { uint16_t bits; };

template <typename T> constexpr int WIDE = 16 / (int)sizeof(T);
template <typename T> constexpr Dtype DTYPE_OF = F32;
template <> constexpr Dtype DTYPE_OF<Bf16> = BF16;
template <> constexpr Dtype DTYPE_OF<Fp16> = F16;

/* ---- two elements in a word, the first in the lower half, where it comes first in memory. Rounded to the
 * nearest, ties to even; what is too large for fp16 becomes infinity ---- */
template <typename T> __device__ __forceinline__ uint32_t pair_of(float first, float second);
template <typename T> __device__ __forceinline__ float first_of(uint32_t pair);
template <typename T> __device__ __forceinline__ float second_of(uint32_t pair);

template <> __device__ __forceinline__ uint32_t pair_of<Bf16>(float first, float second)
{
#if defined(__CUDA_ARCH__)
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return (uint32_t)gpu_bf16_bits(first) | (uint32_t)gpu_bf16_bits(second) << 16;
#endif
}

template <> __device__ __forceinline__ float first_of<Bf16>(uint32_t pair)
{
    return gpu_float_of(pair << 16);
}

template <> __device__ __forceinline__ float second_of<Bf16>(uint32_t pair)
{
    return gpu_float_of(pair & 0xffff0000u);
}

template <> __device__ __forceinline__ uint32_t pair_of<Fp16>(float first, float second)
{
#if defined(__CUDA_ARCH__)
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#elif defined(__HIP_DEVICE_COMPILE__)
    const _Float16 half[2] = { (_Float16)first, (_Float16)second };
    uint32_t pair;
    memcpy(&pair, half, sizeof pair);
    return pair;
#else
    return (uint32_t)f16_encode(first) | (uint32_t)f16_encode(second) << 16;
#endif
}

template <> __device__ __forceinline__ float first_of<Fp16>(uint32_t pair)
{
#if defined(__CUDA_ARCH__)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)pair));
    return x;
#elif defined(__HIP_DEVICE_COMPILE__)
    const uint16_t bits = (uint16_t)pair;
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
#else
    return f16_decode((uint16_t)pair);
#endif
}

template <> __device__ __forceinline__ float second_of<Fp16>(uint32_t pair)
{
    return first_of<Fp16>(pair >> 16);
}

/* ---- one element ---- */
__device__ __forceinline__ float load(const float *x) { return *x; }
__device__ __forceinline__ void store(float *y, float value) { *y = value; }
template <typename T> __device__ __forceinline__ float load(const T *x) { return first_of<T>(x->bits); }
template <typename T> __device__ __forceinline__ void store(T *y, float value)
{
    y->bits = (uint16_t)pair_of<T>(value, 0);
}

/* ---- N elements; a vector of more than one begins at a multiple of 16 bytes ---- */
template <int N> __device__ __forceinline__ void load(float (&to)[N], const float *x)
{
    if constexpr (N == 1) {
        to[0] = *x;
    } else {                                   /* 8 beside as many of 16 bits */
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *(const float4 *)(x + i);
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        }
    }
}

template <int N, typename T> __device__ __forceinline__ void load(float (&to)[N], const T *x)
{
    if constexpr (N == 1) {
        to[0] = load(x);
    } else {
        const uint4 v = *(const uint4 *)x;
        const uint32_t pair[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
        for (int i = 0; i < 4; i++) to[2 * i] = first_of<T>(pair[i]), to[2 * i + 1] = second_of<T>(pair[i]);
    }
}

template <int N> __device__ __forceinline__ void store(float *y, const float (&from)[N])
{
    if constexpr (N == 1) *y = from[0];
    else *(float4 *)y = make_float4(from[0], from[1], from[2], from[3]);
}

template <int N, typename T> __device__ __forceinline__ void store(T *y, const float (&from)[N])
{
    if constexpr (N == 1) store(y, from[0]);
    else *(uint4 *)y = make_uint4(pair_of<T>(from[0], from[1]), pair_of<T>(from[2], from[3]),
                                  pair_of<T>(from[4], from[5]), pair_of<T>(from[6], from[7]));
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

/* Calls f with an element of the type. */
template <typename F> static inline void by_type(Dtype dtype, F f)
{
    const bool known = dtype == F32 || dtype == BF16 || dtype == F16;
    CHECK(known, "there are kernels for F32, BF16 and F16, and not for %s", dtype_name(dtype));
    if (dtype == F32)       f(0.0f);
    else if (dtype == BF16) f(Bf16());
    else                    f(Fp16());
}

/* Calls f with the type of elements and the width of vectors, which it reads as in
 *     by_vector(x.dtype, wide, [&](auto zero, auto n) { using T = decltype(zero); constexpr int N = n; }) */
template <int N> struct Width { constexpr operator int() const { return N; } };
template <typename F> static inline void by_vector(Dtype dtype, bool wide, F f)
{
    by_type(dtype, [&](auto zero) {
        if (wide) f(zero, Width<WIDE<decltype(zero)>>());
        else      f(zero, Width<1>());
    });
}
#endif
