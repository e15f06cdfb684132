/* AVX-512 with the dot product of bf16 pairs (Zen 4 and 5, Cooper Lake, Sapphire Rapids). Registers: 24 sums,
 * 3 vectors of b, 1 broadcast = 28 of 32. */
#ifdef __AVX512BF16__
#include <immintrin.h>
#define FAMILY  gemm_avx512_bf16
#define LANES   16
#define ROWS    8
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum)   _mm512_fmadd_ps(a, b, sum)
#define MULTIPLY_PAIRS(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#include "tensor/cpu/gemm_kernel.inc"
#endif
