#ifndef TENSOR_KERNEL_FAMILY_H
#define TENSOR_KERNEL_FAMILY_H
/* The kernels of the cpu back end come in families, one for each set of instructions. A run has one family
 * for all its ops (Queue.kernels), since the bits of its results depend on it. All families but `portable`
 * have a fused multiply-add and give the same bits in fp32; in bf16 avx512-bf16 differs from them. */
#include <stdbool.h>
#include <stdint.h>

/* Best first. KERNELS_AUTO: the best that this machine runs (kernel_family_best).
 * KERNELS_EMULATED is for tests alone: the source
 * of avx512 and avx512-bf16 with their instructions in plain C (cpu/emulated.h); it has the bits of
 * avx512-bf16. */
typedef enum {
    KERNELS_AUTO, KERNELS_AVX512_BF16, KERNELS_AVX512, KERNELS_AVX2, KERNELS_NEON, KERNELS_PORTABLE,
    KERNELS_EMULATED, KERNEL_FAMILIES
} KernelFamily;

/* "auto", "avx512-bf16", "avx512", "avx2", "neon", "portable", "emulated" */
const char  *kernel_family_name (KernelFamily family);
/* KERNELS_AUTO where no family has this name. */
KernelFamily kernel_family_named(const char *name);
/* Whether this machine has the family's instructions; portable runs everywhere. KERNELS_AUTO and
 * KERNELS_EMULATED: false. */
bool         kernel_family_runs (KernelFamily family);
/* Whether the kernels can be called, as tests do: also those emulated, and those of neon compiled for x86-64,
 * whose bits are not neon's, because the multiply-add is not fused there. */
bool         kernel_family_callable(KernelFamily family);
/* Whether products of bf16 take pairs: avx512-bf16 and its emulation. */
bool         kernel_family_has_pairs(KernelFamily family);
/* The first that this machine runs; avx512-bf16 not on Intel's processors, whose dot products of bf16 are
 * slower than multiply-adds of fp32. */
KernelFamily kernel_family_best (void);
/* Whether fp32 results have the same bits. */
bool         kernel_family_alike(KernelFamily one, KernelFamily other);
/* The names of the families whose bits (1 << family) are set: "avx2, neon, portable". */
const char  *kernel_family_list (char out[96], uint32_t families);
#endif
