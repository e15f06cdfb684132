#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H
/* The types of a tensor's elements, and conversions between those that hold floating-point numbers.
 *
 * BF16 is the upper half of an F32. F16 is IEEE 754's binary16. F8_E4M3 and F8_E5M2 are the 8-bit types of
 * Micikevicius et al. 2022 (arXiv 2209.05433): E5M2 has infinities, E4M3 has none and one NaN for each sign,
 * which is the variant that PyTorch calls float8_e4m3fn. */
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum { F64, F32, BF16, F16, F8_E4M3, F8_E5M2, I32, U8 } Dtype;
enum { DTYPES = U8 + 1 };

#ifdef __cplusplus
extern "C" {
#endif
size_t      dtype_width(Dtype dtype);             /* bytes of an element */
/* "F64", "BF16", "F8_E4M3", ...: the names of the safetensors format, which checkpoints write. */
const char *dtype_name(Dtype dtype);
bool        dtype_is_float(Dtype dtype);          /* all but I32 and U8 */
double      dtype_max(Dtype dtype);               /* the largest finite number of a floating-point type */

/* to[i] = from[i] for n elements of two floating-point types; other types are a CHECK. Rounds once, to the
 * nearest, ties to even, also from F64. What is too large becomes infinity, and NaN where the type has no
 * infinity, as PyTorch's casts do. A NaN stays a NaN with its sign. `to` and `from` must not overlap unless
 * both types have the same width and to == from. Pointers need no alignment. */
void dtype_convert(void *to, Dtype to_dtype, const void *from, Dtype from_dtype, int64_t n);
/* How many of n elements are NaN or infinite; 0 of integers. The pointer needs no alignment. */
int64_t dtype_not_finite(const void *x, Dtype dtype, int64_t n);
#ifdef __cplusplus
}
#endif
#endif
