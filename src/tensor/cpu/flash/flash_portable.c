/* Any machine, by compilers' vectors of 4 floats, as gemm_portable.c. */
#define FAMILY      flash_portable
#define GEMM        gemm_portable
#define LANES   4
#define VECTORS 2
#define MULTIPLY_ADD(a, b, sum) ((a) * (b) + (sum))
#include "tensor/cpu/flash/flash_kernel.inc"
