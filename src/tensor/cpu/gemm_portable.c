/* Any machine, by compilers' vectors of 4 floats, which are registers of SSE2, NEON, AltiVec and LSX.
 * Sized for the fewest registers, 16 of SSE2: 8 sums, 2 vectors of b, 1 broadcast and products. The
 * multiply-add is not fused, since that would be a slow call where no such instruction exists. */
#define FAMILY  gemm_portable
#define LANES   4
#define ROWS    4
#define VECTORS 2
#define MULTIPLY_ADD(a, b, sum) ((a) * (b) + (sum))
#include "tensor/cpu/gemm_kernel.inc"
