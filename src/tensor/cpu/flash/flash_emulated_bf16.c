/* avx512-bf16 for bf16 inputs without its instructions, for tests. */
#include "tensor/cpu/emulated.h"
EMULATED_VECTORS
#define FAMILY      flash_emulated_bf16
#define GEMM        gemm_emulated
#define LANES   16
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum)   (Vec)emulated_add(a, b, sum)
#define MULTIPLY_PAIRS(a, b, sum) (Vec)emulated_pairs(a, b, sum)
#define TO_BF16(x)                (Halves)emulated_bf16(x)
#include "tensor/cpu/flash/flash_kernel.inc"
