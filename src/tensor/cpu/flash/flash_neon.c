/* NEON of AArch64; elsewhere by compilers' vectors without a fused multiply-add, as gemm_neon.c. */
#ifdef __ARM_NEON
#include <arm_neon.h>
#define MULTIPLY_ADD(a, b, sum) (Vec)vfmaq_f32((float32x4_t)(sum), (float32x4_t)(a), (float32x4_t)(b))
#else
#define MULTIPLY_ADD(a, b, sum) ((a) * (b) + (sum))
#endif
#define FAMILY      flash_neon
#define GEMM        gemm_neon
#define LANES   4
#define VECTORS 3
#include "tensor/cpu/flash/flash_kernel.inc"
