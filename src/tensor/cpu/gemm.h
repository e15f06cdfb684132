#ifndef TENSOR_CPU_GEMM_H
#define TENSOR_CPU_GEMM_H
/* The matrix product y[M, N] (+)= a[M, K] b[K, N], packed and blocked as by Goto & van de Geijn (2008), of
 * fp32, bf16 or fp16 with sums in fp32. The three products of a linear layer differ in strides alone:
 *
 *     y  = x wT    a = x  [M, K] rows,      b = w  [N, K] read as its transpose: row 1, col K
 *     dx = dy w    a = dy [M, K] rows,      b = w  [K, N] rows
 *     dw += dyT x  a = dy [K, M] read as its transpose: row 1, col M,           b = x [K, N] rows
 *
 * What is promised of the bits: y[i][j] depends on row i of a, column j of b, K, the types and the family
 * alone. It depends neither on the number of threads, nor on M and N, nor on the place of the row or column
 * in its matrix, nor on strides and alignment. The order of the sum: K is cut into blocks of 384 terms (768
 * in bf16 where the family has a dot product of bf16 pairs); the terms of a block are added in order of k
 * to a sum that begins at 0, and the blocks' sums in order to y (without `add`, to the bias or 0). Families
 * with a fused multiply-add (avx512, avx512-bf16, avx2, neon) agree to the bit in fp32, and those that
 * widen bf16 to fp32 (avx512, avx2, neon) in bf16; fp16 is widened by all. Output in 16 bits is rounded
 * once, at the end, to the nearest even.
 *
 * Products x wT of up to 96 rows, as in generation, read w where it lies (few/gemm_few.h), with these bits.
 *
 * The dot product of avx512-bf16 takes subnormal inputs as 0 and flushes subnormal sums to 0. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/team.h"
#include "tensor/dtype.h"
#include "tensor/kernel_family.h"

/* Element (i, j) is at[i * row + j * col], in elements; row or col is 1. Elements need no alignment beyond
 * their own. */
typedef struct { const void *at; int64_t row, col; } GemmMatrix;

/* What is done with a part of y while it is in the cache: rows [row, row + rows) and columns
 * [column, column + columns), which are final. Called once for each part, by the thread that has written it.
 * With `whole_rows` the columns before `column` of these rows are final as well; few rows then keep few
 * threads busy, because a thread takes all columns. */
typedef struct {
    /* NULL: none */
    void (*call)(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns);
    void  *context;
    bool   whole_rows;
} GemmEpilogue;

typedef struct {
    void       *y;                     /* [M, N]; overlaps neither a nor b */
    int64_t     y_row;                 /* elements between rows of y; those of a row are adjacent */
    GemmMatrix  a, b;                  /* [M, K] and [K, N] */
    int64_t     M, N, K;               /* any, 0 included: a sum of no terms is 0 */
    Dtype       input, output;         /* F32, BF16 or F16: of a and b; of y */
    bool        add;                   /* y += a b instead of y = a b */
    const void *bias;                  /* [N], added to each row of a b; NULL: none. Not with `add`. */
    Dtype       bias_type;             /* F32, BF16 or F16 */
    /* y (+)= scale (a b) (+ bias), each in fp32 and the product rounded before the sum. Without `scaled` bias
     * or y is what the sum begins with. */
    bool        scaled;
    float       scale;
    GemmEpilogue epilogue;
    KernelFamily family;
} Gemm;

/* Bytes that gemm needs to work in, at most 10 MiB and 0.5 MiB for each thread, and for output in 16 bits
 * with K above 1536 (3072 in pairs) also 4 bytes for M rows of up to 1536 columns; for products xwT with K
 * above some 27,000 a copy of 96 rows in fp32. They depend on sizes, types and threads, never on addresses,
 * and are those of the family that needs most: a dry run on one machine is right for another. Products with
 * fewer rows or less depth need no more: those of a group of experts take what all of their rows would. */
size_t gemm_workspace_bytes(const Gemm *g, int threads);
/* Computes the product with all threads of the team and returns when y is written. The workspace is
 * aligned to 64 bytes, belongs to this call while it runs, and needs no initial contents. A wrong argument
 * is a CHECK. */
void   gemm(Team *team, const Gemm *g, void *workspace, size_t workspace_bytes);
#endif
