#ifndef TENSOR_DYNAMIC_CODE_H
#define TENSOR_DYNAMIC_CODE_H
/* The 8-bit numbers of optimizer states (dynamic tree quantisation, Dettmers et al. 2022, arXiv
 * 2110.02861): a code is an index in a table of 256 values within [-1, 1], or [0, 1] without signs, and a
 * block of elements shares a scale, the largest magnitude of them. The values are bitsandbytes' to the
 * bit, on hosts and GPUs: no product is added to here before it is rounded, unless it is exact. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define DYNAMIC_CODE static inline __host__ __device__
#else
#define DYNAMIC_CODE static inline
#endif

enum { CODE_BLOCK = 256, CODE_VALUES = 256 };          /* elements that share a scale; values of a code */
/* Floats of one sign and the same upper 16 bits have at most one middle between them; those below 2^-24,
 * which the least middle is above, and those from 1 count as alike. */
enum { CODE_KEY_LEAST = (127 - 24) << 7, CODE_KEYS = 24 * 128 + 1 };
/* middle: the number between a value and the next one, which is rounded to the lower; infinity after the
 * last. Those of FP32 are the largest ones that are not above it, so that comparing a float with them is
 * exact. first: for each sign and key how many middles are below all floats that have them. */
typedef struct {
    float  value[CODE_VALUES], middle_float[CODE_VALUES];
    double middle[CODE_VALUES];
    int32_t first[2 * CODE_KEYS];
} DynamicCode;

enum { CODE_DECADES = 7 };

/* Bound i of `parts` equal parts of [0.1, 1], as PyTorch's linspace has it: from the nearer end, rounded
 * once. */
DYNAMIC_CODE float code_part_bound(int i, int parts)
{
    float step = (1.0f - 0.1f) / (float)parts;
    return i < (parts + 1) / 2 ? (float)((double)0.1f + (double)step * i)
                               : (float)(1.0 - (double)step * (parts - i));
}

/* Values rise with the code: 0 and 1, and with F = 2^i fractions, or 2^(i + 1) without signs, for i = 0 .. 6
 * the midpoints of F equal parts of [0.1, 1] times 10^(i - 6), and with signs their negatives. Bounds,
 * midpoints and products are rounded to FP32, each once. */
DYNAMIC_CODE float code_value(int code, bool with_signs)
{
    int    place = with_signs ? code - (CODE_VALUES / 2 - 1) : code, n = place < 0 ? -place : place;
    int    parts = with_signs ? 1 : 2, first = 1, decade = 0;             /* of the decade that n is in */
    double power = 1;
    if (n == 0) return 0;
    if (code == CODE_VALUES - 1) return 1;
    for (; n >= first + parts; decade++) first += parts, parts *= 2;
    for (int i = decade; i < CODE_DECADES - 1; i++) power /= 10;
    float middle = (code_part_bound(n - first, parts) + code_part_bound(n - first + 1, parts)) / 2;
    return (place < 0 ? -middle : middle) * (float)power;
}

DYNAMIC_CODE double code_middle(float value, float next) { return ((double)value + (double)next) / 2; }

DYNAMIC_CODE float code_middle_float(float value, float next)
{
    float below = (float)code_middle(value, next);
    return (double)below > code_middle(value, next) ? nextafterf(below, -INFINITY) : below;
}

/* The tables with signs or without, which are made at the first call of any thread. */
const DynamicCode *dynamic_code(bool with_signs);

/* The place in first of x, which is within [-1, 1]. */
static inline int32_t code_key(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t key = (int32_t)(bits >> 16 & 0x7fff) - CODE_KEY_LEAST;
    key = key < 0 ? 0 : key < CODE_KEYS ? key : CODE_KEYS - 1;
    return (int32_t)(bits >> 31) * CODE_KEYS + key;
}

/* The code of x, which is within [-1, 1]: how many middles are below it. */
static inline int32_t code_nearest(const DynamicCode *code, float x)
{
    int32_t at = code->first[code_key(x)];
    return at + (code->middle_float[at] < x);
}

static inline int64_t code_blocks(int64_t elements) { return (elements + CODE_BLOCK - 1) / CODE_BLOCK; }
#endif
