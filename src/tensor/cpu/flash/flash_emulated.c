/* avx512 without its instructions, for tests. */
#include "tensor/cpu/emulated.h"
EMULATED_VECTORS
#define FAMILY      flash_emulated
#define GEMM        gemm_emulated
#define LANES   16
#define VECTORS 3
#define MULTIPLY_ADD(a, b, sum) (Vec)emulated_add(a, b, sum)
#include "tensor/cpu/flash/flash_kernel.inc"
