#ifndef TENSOR_HALF_H
#define TENSOR_HALF_H
/* One number of a 16-bit type from and to float, by integer operations and without a branch, so that a loop
 * over it is vectorized. Encoding rounds to the nearest, ties to even; what is too large becomes infinity,
 * and a NaN stays a NaN with its sign. */
#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* BF16 is the upper half of an F32. The upper half of a NaN alone could be an infinity's, so a bit is set. */
static inline float bf16_decode(uint16_t half) { return half_float((uint32_t)half << 16); }

static inline uint16_t bf16_encode(float x)
{
    /* chosen before the shift and by a comparison of floats, which compilers vectorize best */
    uint32_t bits = half_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1), nan = bits | 0x400000;
    return (uint16_t)((x != x ? nan : rounded) >> 16);
}

/* F16 has 5 bits of exponent and 10 of mantissa. Normal numbers need another exponent only. A subnormal
 * number's mantissa, as that of a float near 2^-14, is the number after subtracting 2^-14. */
static inline float f16_decode(uint16_t half)
{
    uint32_t size = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t normal = size + ((127 - 15) << 23), special = size | 0x7f800000;
    uint32_t subnormal = half_bits(half_float(size + ((127 - 14) << 23)) - 0x1p-14f);
    uint32_t bits = size >= 0x7c00 << 13 ? special : size < 0x400 << 13 ? subnormal : normal;
    return half_float(sign | bits);
}

/* A float below 2^-14 plus 0.5 has the unit of F16's subnormal numbers, so the addition rounds it. A number
 * that rounds up past the largest one carries into the exponent and becomes infinity by itself. */
static inline uint16_t f16_encode(float x)
{
    uint32_t bits = half_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    uint32_t normal    = (size - ((127 - 15) << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    uint32_t subnormal = half_bits(half_float(size < 0x38800000 ? size : 0) + 0.5f) - 0x3f000000;
    uint32_t special   = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t half      = size >= 0x47800000 ? special : size < 0x38800000 ? subnormal : normal;
    return (uint16_t)(sign | half);
}
#endif
