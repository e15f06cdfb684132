/* AVX-512. Registers: 24 sums, 3 vectors of b, 1 broadcast = 28 of 32. */
#ifdef __AVX512F__
#include <immintrin.h>
#define FAMILY  gemm_avx512
#define LANES   16
#define ROWS    8
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum) _mm512_fmadd_ps(a, b, sum)
#include "tensor/cpu/gemm_kernel.inc"
#endif
