#ifndef TENSOR_CPU_INT8_FAMILY_H
#define TENSOR_CPU_INT8_FAMILY_H
/* The product of a few rows of activations in 8 bits with one or two panels of weights (tensor/int8.h).
 * Sums of the products of a block are integers and exact; what is done with them in fp32 is the same in
 * every family,
 *
 *     sum += (float)products * weight scale * activation scale          from left to right, nothing fused
 *
 * in order of blocks, so that all families give the same bits. */
#include <stdint.h>
#include "tensor/int8.h"
#include "tensor/kernel_family.h"

enum { INT8_MOST_ROWS = 6, INT8_MOST_PANELS = 2 };

/* R rows, of B blocks   P panels */
typedef struct {
    float         *sum;                /* [R][P * 16] */
    const uint8_t *code;               /* [P][B][1024] */
    const float   *scale;              /* [P][B][16] */
    const int8_t  *x;                  /* [R][B * 64]: codes */
    const float   *x_scale;            /* [R][B] */
    const int32_t *x_offset;           /* [R][B]: -128 times the sum of the codes */
    int64_t        blocks;
    const char    *ahead;              /* what each block prefetches so many lines of 64 bytes of */
    int64_t        ahead_lines;
} Int8Product;

typedef void Int8Kernel(const Int8Product *x);
typedef struct {
    int         rows;                  /* the most that a kernel takes, at most INT8_MOST_ROWS */
    int         panels;                /* that several rows take at once: one row takes INT8_MOST_PANELS */
    Int8Kernel *kernel[INT8_MOST_ROWS][INT8_MOST_PANELS];                /* [R - 1][P - 1]; NULL: unused */
} Int8Family;

/* The one that a family of kernels takes on this machine. */
const Int8Family *int8_family_of(KernelFamily family);

extern const Int8Family int8_vnni, int8_avx2, int8_portable;
#endif
