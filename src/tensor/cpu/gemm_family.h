#ifndef TENSOR_CPU_GEMM_FAMILY_H
#define TENSOR_CPU_GEMM_FAMILY_H
/* What gemm.c needs of an instruction set: the product of one register tile, and the functions that bring
 * matrices into the form it reads. gemm_kernel.inc defines them once for all families.
 *
 * Packed data are 32-bit words: an fp32 number, or two bf16 numbers k and k + 1 of the same row or column
 * with the lower k in the lower half. So both forms have the same strides and share most code. */
#include <stdbool.h>
#include <stdint.h>
#include "tensor/cpu/gemm.h"

typedef uint32_t GemmWord;
typedef enum {
    GEMM_WORDS,                        /* fp32, as it is */
    GEMM_PAIRS,                        /* bf16, in pairs; an odd last one is paired with 0 */
    GEMM_WIDENED,                      /* bf16, widened to fp32 for a family without a dot product of pairs */
    GEMM_HALVES                        /* fp16, converted to fp32 */
} GemmForm;

/* Memory that is wanted soon: the bytes at `at` are prefetched, and `step` bytes further with each word of
 * the depth. It may lie beyond what is allocated. */
typedef struct { const void *at; int64_t step; } GemmAhead;

/* sum[rows][columns] (+)= a b over `words` words. Rows of sum are sum_row floats apart. Row r of a begins
 * a_row bytes after row r - 1. b is a packed strip. The tile has all rows and complete vectors: callers pass
 * a buffer for what overhangs y. */
typedef void GemmTile(float *sum, int64_t sum_row, bool add, const void *a, int64_t a_row, const GemmWord *b,
                      int64_t words, GemmAhead ahead);
/* Packs the rows k of a matrix with adjacent columns into strips: strip[s][k][r] = from[k][s * width + r],
 * where width is the family's rows or columns; zero beyond `count`. `depth` and `row` are in elements. */
typedef void GemmPack(GemmWord *to, const void *from, int64_t row, int64_t depth, int64_t count,
                      GemmForm form);

/* Tiles of `lanes` columns of b with adjacent k, read where they lie and transposed in registers: for so
 * few rows that packing would take longer than the product. sum[rows][groups lanes] (+)= a b in the same
 * order.
 * `words` are 32-bit words of a column of b, a multiple of the lanes; one of 16-bit numbers that are not
 * multiplied in pairs holds two k. From `ahead` on as many bytes are prefetched as are read, in order, which
 * memory is fastest in. */
typedef void GemmFew(float *sum, int64_t sum_row, bool add, const void *a, int64_t a_row, const void *b,
                     int64_t column_bytes, int64_t words, int64_t groups, const void *ahead);

/* GEMM_DEPTH: the words of a block of the depth, whose terms are added to a sum that begins at 0. Longer
 * blocks save additions to y, but not many. It is part of the results and therefore the same in all
 * families. */
enum { GEMM_MOST_VECTORS = 3, GEMM_DEPTH = 384, GEMM_FORMS = GEMM_HALVES + 1 };
/* The numbers of rows for which there is such a tile: 1, 2, 4 and all of a register tile. */
enum { GEMM_FEW = 4 };
/* How a lies: rows of words, or strips with the tile's rows adjacent; or GEMM_SHORT rows of words alone, with
 * which fewer rows than a register tile's take less time. */
typedef enum { GEMM_ROWS, GEMM_STRIPS, GEMM_SHORT_ROWS, GEMM_LAYOUTS } GemmLayout;
enum { GEMM_SHORT = 4 };

typedef struct {
    int         rows, columns;         /* of a register tile */
    int         lanes;                 /* of a vector; the columns are some vectors */
    bool        pairs;                 /* has a dot product of bf16 pairs */
    int         most_ahead;            /* the largest step of GemmAhead with which no line is left out */
    /* [v - 1]: of the first v vectors of a strip, for one with few columns. The sums are the same. */
    GemmTile   *tile      [GEMM_MOST_VECTORS][GEMM_LAYOUTS];
    GemmTile   *tile_pairs[GEMM_MOST_VECTORS][GEMM_LAYOUTS];
    GemmFew    *few[GEMM_FORMS][GEMM_FEW];
    GemmPack   *pack_a;                /* a with adjacent rows, as in dw = dyT x, to strips of `rows` */
    GemmPack   *pack_b;                /* b with adjacent columns to strips of `columns` */
    GemmPack   *pack_b_transposed;     /* b with adjacent k; `row` is between columns */
    /* Rows of a with adjacent k, to rows of words without gaps; `count` of them, zeros up to `rows`. */
    GemmPack   *copy_a;
    /* A part of a tile in fp32 from and to y. */
    void (*load) (float *tile, int64_t tile_row, const void *y, int64_t y_row, int rows, int columns,
                  Dtype type);
    void (*store)(void *y, int64_t y_row, const float *tile, int64_t tile_row, int rows, int columns,
                  Dtype type);
} GemmFamily;

/* The tile for a strip of which `columns` are wanted. */
static inline GemmTile *gemm_tile(const GemmFamily *f, int64_t columns, bool pairs, GemmLayout a)
{
    return (pairs ? f->tile_pairs : f->tile)[(columns - 1) / f->lanes][a];
}

/* NULL where the family is not built for this kind of machine. KERNELS_AUTO: the best one's. */
const GemmFamily *gemm_family_of(KernelFamily family);

extern const GemmFamily gemm_avx512_bf16, gemm_avx512, gemm_avx2, gemm_neon, gemm_portable, gemm_emulated;
#endif
