/* AVX2 with FMA. */
#ifdef __AVX2__
#include <immintrin.h>
#define FAMILY      flash_avx2
#define GEMM        gemm_avx2
#define LANES   8
#define VECTORS 2
#define MULTIPLY_ADD(a, b, sum) _mm256_fmadd_ps(a, b, sum)
#define MAXIMUM(a, b)           _mm256_max_ps(a, b)
#define MINIMUM(a, b)           _mm256_min_ps(a, b)
#include "tensor/cpu/flash/flash_kernel.inc"
#endif
