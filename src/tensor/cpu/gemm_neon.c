/* NEON of AArch64. Registers: 24 sums, 3 vectors of b, 1 broadcast = 28 of 32. Elsewhere the same source is
 * compiled by way of compilers' vectors, without a fused multiply-add, so that tests can run its blocking. */
#ifdef __ARM_NEON
#include <arm_neon.h>
#define MULTIPLY_ADD(a, b, sum) (Vec)vfmaq_f32((float32x4_t)(sum), (float32x4_t)(a), (float32x4_t)(b))
#else
#define MULTIPLY_ADD(a, b, sum) ((a) * (b) + (sum))
#endif
#define FAMILY  gemm_neon
#define LANES   4
#define ROWS    8
#define VECTORS 3
#include "tensor/cpu/gemm_kernel.inc"
