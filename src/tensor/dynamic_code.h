#ifndef TENSOR_DYNAMIC_CODE_H
#define TENSOR_DYNAMIC_CODE_H
/* The 8-bit numbers of optimizer states (dynamic tree quantisation, Dettmers et al. 2022, arXiv
 * 2110.02861): a code is an index in a table of 256 values within [-1, 1], or [0, 1] without signs, and a
 * block of elements shares a scale, the largest magnitude of them. The values are bitsandbytes' to the
 * bit. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { CODE_BLOCK = 256, CODE_VALUES = 256 };          /* elements that share a scale; values of a code */
/* Floats of one sign and the same upper 16 bits have at most one middle between them; those below 2^-24, which
 * the least middle is above, and those from 1 count as alike. */
enum { CODE_KEY_LEAST = (127 - 24) << 7, CODE_KEYS = 24 * 128 + 1 };
/* middle: the number between a value and the next one, which is rounded to the lower; infinity after the
 * last. Those of FP32 are the largest ones that are not above it, so that comparing a float with them is
 * exact. first: for each sign and key how many middles are below all floats that have them. */
typedef struct {
    float  value[CODE_VALUES], middle_float[CODE_VALUES];
    double middle[CODE_VALUES];
    int32_t first[2 * CODE_KEYS];
} DynamicCode;

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
