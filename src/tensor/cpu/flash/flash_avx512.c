/* AVX-512. */
#ifdef __AVX512F__
#include <immintrin.h>
#define FAMILY      flash_avx512
#define GEMM        gemm_avx512
#define LANES   16
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum) _mm512_fmadd_ps(a, b, sum)
#define MAXIMUM(a, b)           _mm512_max_ps(a, b)
#define MINIMUM(a, b)           _mm512_min_ps(a, b)
#include "tensor/cpu/flash/flash_kernel.inc"
#endif
