/* Element types: their names and widths, and the conversion of numbers between them. F32 has every number of
 * the narrower types exactly, so these are decoded to F32. All conversions but those to F32 and from F32 to
 * 16 bits go on to double, so that a type needs one decoder and one encoder and nothing is rounded twice. */
#include "tensor/dtype.h"

#include <math.h>
#include <string.h>
#include "base/status.h"
#include "base/clones.h"
#include "tensor/half.h"

/* A floating-point type of 16 or 8 bits: one sign bit, then `exponent` bits, then `mantissa` bits. */
typedef struct {
    int  exponent, mantissa;
    bool infinity;                     /* false: the largest exponent is of numbers, only all ones is NaN */
} SmallFloat;

typedef struct {
    const char *name;
    size_t      width;                 /* bytes */
    double      max;                   /* 0: holds no floating-point numbers */
    SmallFloat  small;                 /* of the types below F32 */
} DtypeRow;

static const DtypeRow row[DTYPES] = {
    [F64]     = { "F64",     8, 0x1.fffffffffffffp1023, { 0 } },
    [F32]     = { "F32",     4, 0x1.fffffep127,         { 0 } },
    [BF16]    = { "BF16",    2, 0x1.fep127,             { 8, 7,  true } },
    [F16]     = { "F16",     2, 65504,                  { 5, 10, true } },
    [F8_E4M3] = { "F8_E4M3", 1, 448,                    { 4, 3,  false } },
    [F8_E5M2] = { "F8_E5M2", 1, 57344,                  { 5, 2,  true } },
    [I32]     = { "I32",     4, 0,                      { 0 } },
    [U8]      = { "U8",      1, 0,                      { 0 } },
};

size_t      dtype_width(Dtype dtype)    { return row[dtype].width; }
const char *dtype_name(Dtype dtype)     { return row[dtype].name; }
bool        dtype_is_float(Dtype dtype) { return row[dtype].max > 0; }
double      dtype_max(Dtype dtype)      { return row[dtype].max; }

/* ---- one number of a small type ---- */

/* The bits as they are in an F32, by integer operations and one multiplication, so that a loop over it is
 * vectorized. A small type's exponent and mantissa, moved to their places in an F32, are those of the number
 * divided by a power of two, of subnormal numbers too. */
static inline uint32_t small_decode(SmallFloat f, uint32_t bits)
{
    uint32_t all      = (1u << (f.exponent + f.mantissa)) - 1, size = bits & all;
    uint32_t infinity = all >> f.mantissa << f.mantissa;
    uint32_t scale_bits = (uint32_t)(254 - ((1 << (f.exponent - 1)) - 1)) << 23;
    uint32_t moved = size << (23 - f.mantissa), special = f.infinity ? infinity : all;
    float    scale, value;
    memcpy(&scale, &scale_bits, 4);
    memcpy(&value, &moved, 4);
    value *= scale;
    memcpy(&moved, &value, 4);
    uint32_t nan = f.infinity ? (size - infinity) << (23 - f.mantissa) : 0x400000;  /* 0: an infinity */
    uint32_t sign = (bits & ~all) << (31 - f.exponent - f.mantissa);
    return sign | (size < special ? moved : 0x7f800000 | nan);
}

/* 2^n for n of -1022 .. 1023 */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double   x;
    memcpy(&x, &bits, 8);
    return x;
}

/* The numbers around x are multiples of a power of two, the unit. Adding 1.5 * 2^52 units leaves a double no
 * bits below the unit, so the addition itself rounds to the nearest, ties to even. */
static uint32_t small_encode(const SmallFloat *f, double max, double x)
{
    int      top = (1 << f->exponent) - 1, bias = top / 2;
    uint32_t sign = (uint32_t)(signbit(x) != 0) << (f->exponent + f->mantissa);
    uint32_t infinity = (uint32_t)top << f->mantissa, nan = infinity | ((1u << f->mantissa) - 1);
    double   size = fabs(x);
    uint64_t bits;
    if (f->infinity) nan = infinity | 1u << (f->mantissa - 1);                    /* the quiet NaN */
    else infinity = nan;
    if (isnan(x)) return sign | nan;
    if (size > 2 * max) return sign | infinity;
    memcpy(&bits, &size, 8);
    int exponent = (int)(bits >> 52) - 1023;
    if (exponent < 1 - bias) exponent = 1 - bias;                                 /* subnormal */
    double unit = power_of_two(exponent - f->mantissa), shift = 0x1.8p52 * unit;
    double rounded = (size + shift) - shift;
    if (rounded > max) return sign | infinity;
    /* Counted in units, a normal number has its leading bit at 2^mantissa, which the exponent field, one too
     * small, takes as a carry. So does a number that was rounded up to the next power of two. */
    uint32_t units = (uint32_t)(rounded / unit);
    return sign | (((uint32_t)(exponent + bias - 1) << f->mantissa) + units);
}

/* ---- many numbers ---- */
enum { BLOCK = 256 };                  /* numbers that are decoded at a time */

/* A loop over numbers of two types at any address, of which one has 16 bits. */
#define HALVES(name, To, From, convert_one)                                                  \
    static CLONES void name(uint8_t *restrict to, const uint8_t *restrict from, int64_t n)   \
    {                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                    \
            From x;                                                                          \
            memcpy(&x, from + (int64_t)sizeof x * i, sizeof x);                              \
            To y = convert_one(x);                                                           \
            memcpy(to + (int64_t)sizeof y * i, &y, sizeof y);                                \
        }                                                                                    \
    }
HALVES(f32_from_bf16, float,    uint16_t, bf16_decode)
HALVES(f32_from_f16,  float,    uint16_t, f16_decode)
HALVES(bf16_from_f32, uint16_t, float,    bf16_encode)
HALVES(f16_from_f32,  uint16_t, float,    f16_encode)

static void f32_from_bytes(uint8_t *restrict to, const uint8_t *restrict from, SmallFloat f, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = small_decode(f, from[i]);
        memcpy(to + 4 * i, &bits, 4);
    }
}

/* from: a type below F32 */
static void f32_from_small(uint8_t *to, const uint8_t *from, Dtype dtype, int64_t n)
{
    if (dtype == BF16)     f32_from_bf16(to, from, n);
    else if (dtype == F16) f32_from_f16(to, from, n);
    else                   f32_from_bytes(to, from, row[dtype].small, n);
}

/* n: at most BLOCK */
static void decode(double *to, const uint8_t *from, Dtype dtype, int64_t n)
{
    float single[BLOCK];
    if (dtype == F64) {
        memcpy(to, from, 8 * (size_t)n);
        return;
    }
    if (dtype == F32) memcpy(single, from, 4 * (size_t)n);
    else              f32_from_small((uint8_t *)single, from, dtype, n);
    for (int64_t i = 0; i < n; i++) to[i] = (double)single[i];
}

static void encode(uint8_t *to, Dtype dtype, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float    single;
        uint16_t half;
        switch (dtype_width(dtype)) {
        case 8:  memcpy(to + 8 * i, &from[i], 8); break;
        case 4:  single = (float)from[i]; memcpy(to + 4 * i, &single, 4); break;
        case 2:
            half = (uint16_t)small_encode(&row[dtype].small, row[dtype].max, from[i]);
            memcpy(to + 2 * i, &half, 2);
            break;
        default: to[i] = (uint8_t)small_encode(&row[dtype].small, row[dtype].max, from[i]);
        }
    }
}

void dtype_convert(void *to, Dtype to_dtype, const void *from, Dtype from_dtype, int64_t n)
{
    CHECK(dtype_is_float(to_dtype) && dtype_is_float(from_dtype), "%s cannot be converted to %s",
          dtype_name(from_dtype), dtype_name(to_dtype));
    double   block[BLOCK];
    uint8_t *out = to;
    const uint8_t *in = from;
    if (to_dtype == from_dtype) {
        memmove(to, from, (size_t)n * dtype_width(to_dtype));
    } else if (to_dtype == BF16 && from_dtype == F32) {
        bf16_from_f32(out, in, n);
    } else if (to_dtype == F16 && from_dtype == F32) {
        f16_from_f32(out, in, n);
    } else if (to_dtype == F32 && dtype_width(from_dtype) < 4) {
        f32_from_small(out, in, from_dtype, n);
    } else {
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t count = n - i < BLOCK ? n - i : BLOCK;
            decode(block, in + (size_t)i * dtype_width(from_dtype), from_dtype, count);
            encode(out + (size_t)i * dtype_width(to_dtype), to_dtype, block, count);
        }
    }
}

/* ---- NaN and infinity: all bits of the exponent, and of the mantissa of a type without infinity ---- */

/* Counts of a few numbers are summed in the type of their bits, which keeps vectors full. */
enum { FEW = 128 };
#define NOT_FINITE(name, Bits)                                                              \
    static CLONES int64_t name(const uint8_t *x, Bits mask, int64_t n)                      \
    {                                                                                       \
        int64_t count = 0;                                                                  \
        for (int64_t i = 0; i < n; i += FEW) {                                              \
            int64_t few = n - i < FEW ? n - i : FEW;                                        \
            Bits    sum = 0;                                                                \
            for (int64_t k = 0; k < few; k++) {                                             \
                Bits bits;                                                                  \
                memcpy(&bits, x + (i + k) * (int64_t)sizeof bits, sizeof bits);             \
                sum = (Bits)(sum + ((bits & mask) == mask));                                \
            }                                                                               \
            count += (int64_t)sum;                                                          \
        }                                                                                   \
        return count;                                                                       \
    }
NOT_FINITE(not_finite_8,  uint8_t)
NOT_FINITE(not_finite_16, uint16_t)
NOT_FINITE(not_finite_32, uint32_t)
NOT_FINITE(not_finite_64, uint64_t)

int64_t dtype_not_finite(const void *x, Dtype dtype, int64_t n)
{
    switch (dtype) {
    case F64:     return not_finite_64(x, 0x7ffull << 52, n);
    case F32:     return not_finite_32(x, 0x7f800000u, n);
    case BF16:    return not_finite_16(x, 0x7f80, n);
    case F16:     return not_finite_16(x, 0x7c00, n);
    case F8_E5M2: return not_finite_8(x, 0x7c, n);
    case F8_E4M3: return not_finite_8(x, 0x7f, n);
    case I32: case U8: break;
    }
    return 0;
}
