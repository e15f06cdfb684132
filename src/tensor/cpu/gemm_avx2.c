/* AVX2 with FMA (Haswell and later, every Zen). Registers: 12 sums, 2 vectors of b, 1 broadcast = 15 of
 * 16. A core that is shared with another hardware thread starts too few instructions for the loads and
 * broadcasts beside the multiply-adds; three steps in a turn of the loop need fewer counters. */
#ifdef __AVX2__
#include <immintrin.h>
#define FAMILY  gemm_avx2
#define LANES   8
#define ROWS    6
#define VECTORS 2
#define STEPS   3
#define MULTIPLY_ADD(a, b, sum) _mm256_fmadd_ps(a, b, sum)
#include "tensor/cpu/gemm_kernel.inc"
#endif
