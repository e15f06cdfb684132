#ifndef TENSOR_DYNAMIC_CODE_H
#define TENSOR_DYNAMIC_CODE_H
/* The 8-bit numbers of optimizer states (dynamic tree quantisation, Dettmers et al. 2022, arXiv
 * 2110.02861): a code is an index in a table of 256 values within [-1, 1], or [0, 1] without signs, and a
 * block of elements shares a scale, the largest magnitude of them. The values are bitsandbytes' to the
 * bit. */
#include <stdbool.h>
#include <stdint.h>

enum { CODE_BLOCK = 256, CODE_VALUES = 256 };          /* elements that share a scale; values of a code */
/* middle: the number between a value and the next one, which is rounded to the lower; infinity after the
 * last. Those of FP32 are the largest ones that are not above it, so that comparing a float with them is
 * exact. */
typedef struct {
    float  value[CODE_VALUES], middle_float[CODE_VALUES];
    double middle[CODE_VALUES];
} DynamicCode;

void dynamic_code(DynamicCode *code, bool with_signs);

static inline int64_t code_blocks(int64_t elements) { return (elements + CODE_BLOCK - 1) / CODE_BLOCK; }
#endif
