#ifndef TENSOR_CPU_EMULATED_H
#define TENSOR_CPU_EMULATED_H
/* The instructions of the families avx512 and avx512-bf16 in plain C, to the bit and slowly, so that the
 * source of these families and their bits are tested on every machine. (libsimde's vdpbf16ps adds the two
 * products before the sum and keeps subnormal numbers, which gives other bits.) */
#include <math.h>
#include <stdint.h>
#include "tensor/half.h"

#define EMULATED static inline __attribute__((always_inline, unused))
enum { EMULATED_LANES = 16 };

/* vfmadd: one rounding, also where fmaf is a function of the C library */
EMULATED void emulated_multiply_add(float *sum, const float *a, const float *b)
{
    for (int l = 0; l < EMULATED_LANES; l++) sum[l] = fmaf(a[l], b[l], sum[l]);
}

/* vdpbf16ps: the upper numbers of the pairs are multiplied and added, and then the lower ones. Each
 * multiply-add is rounded once, takes subnormal numbers as 0 and gives 0 instead of them. */
EMULATED float emulated_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
EMULATED float emulated_upper(float pair) { return half_float(half_bits(pair) & 0xffff0000); }
EMULATED float emulated_lower(float pair) { return half_float(half_bits(pair) << 16); }
EMULATED float emulated_step(float a, float b, float sum)
{
    return emulated_flushed(fmaf(emulated_flushed(a), emulated_flushed(b), emulated_flushed(sum)));
}
EMULATED void emulated_multiply_pairs(float *sum, const float *a, const float *b)
{
    for (int l = 0; l < EMULATED_LANES; l++) {
        sum[l] = emulated_step(emulated_upper(a[l]), emulated_upper(b[l]), sum[l]);
        sum[l] = emulated_step(emulated_lower(a[l]), emulated_lower(b[l]), sum[l]);
    }
}

/* vcvtneps2bf16, but for subnormal numbers, which the instruction rounds to 0 and vdpbf16ps takes as 0 */
EMULATED void emulated_to_bf16(uint16_t *to, const float *x)
{
    for (int l = 0; l < EMULATED_LANES; l++) to[l] = bf16_encode(x[l]);
}

/* The same with vectors, for source files compiled without the warning that functions which pass vectors
 * wider than the machine's have an ABI of their own: all of these are inlined. */
#define EMULATED_VECTORS                                                                                     \
    typedef float EmulatedVec __attribute__((vector_size(4 * EMULATED_LANES), aligned(4), may_alias));       \
    typedef uint16_t EmulatedHalves __attribute__((vector_size(2 * EMULATED_LANES), aligned(2), may_alias)); \
    EMULATED EmulatedVec emulated_add(EmulatedVec a, EmulatedVec b, EmulatedVec sum)                         \
    {                                                                                                        \
        emulated_multiply_add((float *)&sum, (const float *)&a, (const float *)&b);                          \
        return sum;                                                                                          \
    }                                                                                                        \
    EMULATED EmulatedVec emulated_pairs(EmulatedVec a, EmulatedVec b, EmulatedVec sum)                       \
    {                                                                                                        \
        emulated_multiply_pairs((float *)&sum, (const float *)&a, (const float *)&b);                        \
        return sum;                                                                                          \
    }                                                                                                        \
    EMULATED EmulatedHalves emulated_bf16(EmulatedVec x)                                                     \
    {                                                                                                        \
        EmulatedHalves to;                                                                                   \
        emulated_to_bf16((uint16_t *)&to, (const float *)&x);                                                \
        return to;                                                                                           \
    }
#endif
