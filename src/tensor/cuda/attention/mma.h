#ifndef TENSOR_CUDA_ATTENTION_MMA_H
#define TENSOR_CUDA_ATTENTION_MMA_H
/* Matrix products of a warp on tensor cores (mma.sync m16n8k16, operands in bf16 or fp16, float sums), the
 * loads of their operands from shared memory (ldmatrix) and copies to shared memory that run beside computation
 * (cp.async). CUDA from compute capability 8.0 on has them, and the CPU shim with warps of 32; HIP has not
 * (GPU_HAS_MMA).
 *
 * Operands lie in the registers of 32 lanes. With g = lane / 4 and t = lane % 4:
 *     a[4]  of A [16, 16]: rows g, g + 8, g, g + 8; columns 2t and 2t + 1 of them, in the last two 8 more
 *     b[2]  of B [16, 8]:  column g; rows 2t and 2t + 1, then 8 more
 *     d[4]  of D [16, 8]:  row g, columns 2t and 2t + 1; then row g + 8
 * Two neighbouring tiles of D, rounded to pairs of 16 bits, are an A: a product's result is the next one's
 * operand without a move between lanes. */
#include "tensor/cuda/vector.h"

#if defined(GPU_CPU)
/* the header of the shim has them, where warps have 32 lanes */

#elif !defined(__HIP__) && !defined(__HIP_PLATFORM_AMD__)
#define GPU_HAS_MMA 1

/* d += a b of elements of the first argument's type */
#define MMA_ADD(T, type)                                                                              \
    __device__ __forceinline__ void mma_add(T, float (&d)[4], const uint32_t (&a)[4], uint32_t b0,    \
                                            uint32_t b1)                                              \
    {                                                                                                 \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                   \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                 \
    }
MMA_ADD(Bf16, "bf16")
MMA_ADD(Fp16, "f16")
#undef MMA_ADD

/* Four 8 x 8 matrices of 16 bits: lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i, of 16
 * bytes each, and lane l gets of each matrix elements 2 (l % 4) and one more of row l / 4. */
__device__ __forceinline__ void mma_load(uint32_t (&to)[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

/* The same of the transposed matrices */
__device__ __forceinline__ void mma_load_transposed(uint32_t (&to)[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

/* 4 or 16 bytes from global to shared memory; zeros, and `from` is not read, where `there` is false. Done
 * after async_wait. */
template <int BYTES> __device__ __forceinline__ void async_copy(void *to, const void *from, bool there)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to), bytes = there ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     :: "r"(at), "l"(from), "r"(bytes) : "memory");
}

/* Ends a group of this thread's copies */
__device__ __forceinline__ void async_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Returns when all groups of this thread but the last LEFT are done; other threads see it after a barrier. */
template <int LEFT> __device__ __forceinline__ void async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
#endif
#endif
