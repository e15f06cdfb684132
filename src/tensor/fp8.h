#ifndef TENSOR_FP8_H
#define TENSOR_FP8_H
/* Numbers of 8 bits and their scales, as NVIDIA Transformer Engine has them. One number is encoded by integer
 * operations and without a branch, so that a loop over it is vectorized: rounded to the nearest, ties to
 * even. What is too large becomes the largest number, infinity too; a NaN stays one, with its sign. */
#include "tensor/half.h"
#include "tensor/tensor.h"

/* mantissa bits, exponent bias, the bits of the largest number as an F32, and the NaN */
static inline uint8_t fp8_encode(float x, int mantissa, int bias, uint32_t largest, uint32_t nan)
{
    int      shift = 23 - mantissa;
    uint32_t bits = half_bits(x), all = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
    uint32_t size = all < largest ? all : largest, least = (uint32_t)(128 - bias) << 23;
    uint32_t half = (1u << (shift - 1)) - 1 + (size >> shift & 1);
    uint32_t normal = (size - ((uint32_t)(127 - bias) << 23) + half) >> shift;
    /* Adding a number whose last place is the smallest subnormal one rounds to a multiple of that. */
    uint32_t round = (uint32_t)(128 - bias + shift) << 23;
    uint32_t subnormal = half_bits(half_float(size < least ? size : 0) + half_float(round)) - round;
    uint32_t number = size < least ? subnormal : normal;
    return (uint8_t)(sign | (all > 0x7f800000 ? nan : number));
}

static inline uint8_t e4m3_encode(float x) { return fp8_encode(x, 3, 7,  0x43e00000, 0x7f); }
static inline uint8_t e5m2_encode(float x) { return fp8_encode(x, 2, 15, 0x47600000, 0x7e); }

#ifdef __cplusplus
extern "C" {
#endif
/* The op fp8_scale of a back end on the host; scale, history, amax are F32. The rule for one tensor is
 * amax_and_scale_update of Transformer Engine (delayed), compute_scale_from_amax (current). */
void fp8_scale_all(Tensor scale_NK, Tensor history_NKL, Tensor amax_NK, Dtype format, int margin,
                   bool most_recent);
#ifdef __cplusplus
}
#endif
#endif
