#ifndef TENSOR_CPU_EMULATED_H
#define TENSOR_CPU_EMULATED_H
/* The instructions of the families avx512 and avx512-bf16 in plain C, to the bit and slowly, so that the
 * source of these families and their bits are tested on every machine. (libsimde's vdpbf16ps adds the two
 * products before the sum and keeps subnormal numbers, which gives other bits.) */
#include <math.h>
#include <stdint.h>
#include "tensor/half.h"

#define EMULATED static inline __attribute__((always_inline))
enum { EMULATED_LANES = 16 };
typedef float    EmulatedVec   __attribute__((vector_size(4 * EMULATED_LANES), aligned(4), may_alias));
typedef uint32_t EmulatedWords __attribute__((vector_size(4 * EMULATED_LANES), aligned(4), may_alias));
typedef uint16_t EmulatedHalves __attribute__((vector_size(2 * EMULATED_LANES), aligned(2), may_alias));

/* vfmadd: one rounding, also where fmaf is a function of the C library */
EMULATED EmulatedVec emulated_multiply_add(EmulatedVec a, EmulatedVec b, EmulatedVec sum)
{
    for (int l = 0; l < EMULATED_LANES; l++) sum[l] = fmaf(a[l], b[l], sum[l]);
    return sum;
}

/* vdpbf16ps: the upper numbers of the pairs are multiplied and added, and then the lower ones. Each
 * multiply-add is rounded once, takes subnormal numbers as 0 and gives 0 instead of them. */
EMULATED float emulated_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
EMULATED EmulatedVec emulated_multiply_pairs(EmulatedVec a, EmulatedVec b, EmulatedVec sum)
{
    const uint32_t upper = 0xffff0000;
    EmulatedWords a_bits = (EmulatedWords)a, b_bits = (EmulatedWords)b;
    EmulatedVec a_pair[2] = { (EmulatedVec)(a_bits & upper), (EmulatedVec)(a_bits << 16) };
    EmulatedVec b_pair[2] = { (EmulatedVec)(b_bits & upper), (EmulatedVec)(b_bits << 16) };
    for (int l = 0; l < EMULATED_LANES; l++)
        for (int i = 0; i < 2; i++)
            sum[l] = emulated_flushed(fmaf(emulated_flushed(a_pair[i][l]), emulated_flushed(b_pair[i][l]),
                                           emulated_flushed(sum[l])));
    return sum;
}

/* vcvtneps2bf16, but for subnormal numbers, which the instruction rounds to 0 and vdpbf16ps takes as 0 */
EMULATED EmulatedHalves emulated_to_bf16(EmulatedVec x)
{
    EmulatedHalves to;
    for (int l = 0; l < EMULATED_LANES; l++) to[l] = bf16_encode(x[l]);
    return to;
}
#endif
