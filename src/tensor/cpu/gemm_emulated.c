/* The register tiles of avx512 and avx512-bf16 without their instructions, for tests. */
#include "tensor/cpu/emulated.h"
EMULATED_VECTORS
#define FAMILY  gemm_emulated
#define LANES   16
#define ROWS    8
#define VECTORS 3
#define ROLLED
#define MULTIPLY_ADD(a, b, sum)   (Vec)emulated_add(a, b, sum)
#define MULTIPLY_PAIRS(a, b, sum) (Vec)emulated_pairs(a, b, sum)
#include "tensor/cpu/gemm_kernel.inc"
