/* AVX-512 with the dot product of bf16 pairs, for bf16 inputs. */
#ifdef __AVX512BF16__
#include <immintrin.h>
#define FAMILY      flash_avx512_bf16
#define GEMM        gemm_avx512_bf16
#define LANES   16
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum)   _mm512_fmadd_ps(a, b, sum)
#define MULTIPLY_PAIRS(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define TO_BF16(x)                (Halves)_mm512_cvtneps_pbh(x)
#define MAXIMUM(a, b)             _mm512_max_ps(a, b)
#define MINIMUM(a, b)             _mm512_min_ps(a, b)
#include "tensor/cpu/flash/flash_kernel.inc"
#endif
