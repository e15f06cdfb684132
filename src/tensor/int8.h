#ifndef TENSOR_INT8_H
#define TENSOR_INT8_H
/* Matrices of 8-bit integers with a scale for each block of 64 adjacent channels of a row: the weights of
 * generation in 8 bits. A number is code * scale, where the codes are -127 .. 127 and the scale is the
 * largest magnitude of the block divided by 127. Activations are quantized in the same way while a product
 * runs.
 *
 * Both back ends compute codes and scales by these functions, in float, so that they agree to the bit.
 *
 * In memory 16 rows of a matrix are a panel, in which 4 channels of a row are adjacent and the 16 rows follow
 * each other: what one instruction multiplies and adds. The rows of the last panel and the channels of the
 * last block that the matrix does not have are zeros. A byte is code + 128. */
#include <math.h>
#include <stdint.h>
#include "tensor/half.h"

enum { INT8_ROWS = 16, INT8_BLOCK = 64, INT8_QUAD = 4, INT8_BYTES = INT8_ROWS * INT8_BLOCK,
       INT8_ZERO = 128 };

static inline int64_t int8_panels(int64_t rows)     { return (rows + INT8_ROWS - 1) / INT8_ROWS; }
static inline int64_t int8_blocks(int64_t channels) { return (channels + INT8_BLOCK - 1) / INT8_BLOCK; }

/* The place of row k and channel c in the bytes of a matrix, and of their block among the scales */
static inline int64_t int8_place(int64_t k, int64_t c, int64_t blocks)
{
    int64_t block = k / INT8_ROWS * blocks + c / INT8_BLOCK, quad = c % INT8_BLOCK / INT8_QUAD;
    return block * INT8_BYTES + quad * INT8_ROWS * INT8_QUAD + k % INT8_ROWS * INT8_QUAD + c % INT8_QUAD;
}
static inline int64_t int8_scale_place(int64_t k, int64_t c, int64_t blocks)
{
    return (k / INT8_ROWS * blocks + c / INT8_BLOCK) * INT8_ROWS + k % INT8_ROWS;
}

/* The scale of n numbers: 0 of zeros alone. Where one of them is not finite it is a NaN, and so is the sum of
 * a product that has the block. Magnitudes are compared as their bits, in which infinity and NaN are the
 * largest. */
static inline float int8_scale(const float *x, int64_t n)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t size = (int32_t)(half_bits(x[i]) & 0x7fffffff);
        most = most < size ? size : most;
    }
    return most >= 0x7f800000 ? NAN : half_float((uint32_t)most) / 127;
}

/* What a number is multiplied by to get its code; 0 where all codes are 0 */
static inline float int8_inverse(float scale) { return scale > 0x1p-126f ? 1 / scale : 0; }

/* Rounds to the nearest, ties to even: adding 1.5 * 2^23 leaves no digits behind the point. */
static inline int8_t int8_code(float x, float inverse)
{
    float   rounded = (inverse > 0 ? x * inverse : 0) + 0x1.8p23f;
    int32_t code = (int32_t)half_bits(rounded) - 0x4b400000;
    return (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
}
#endif
