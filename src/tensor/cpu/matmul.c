/* Linear maps and their gradients.   T rows   C channels in   K channels out   w [K, C]
 * All three are a product y[M, N] (+)= a[M, depth] b[depth, N], blocked as by Goto & van de Geijn (2008):
 * a chunk of work owns BLOCK_M x BLOCK_N elements of y; for DEPTH of the depth at a time it packs b into a
 * panel that stays in cache, and computes tiles of 8 x 32 in registers. An element adds its products in
 * order, DEPTH at a time, whatever the instruction set, so results are bitwise the same everywhere. */
#include "tensor/cpu/cpu.h"

enum { TILE_M = 8, TILE_N = 32, BLOCK_M = 256, BLOCK_N = 4 * TILE_N, DEPTH = 256 };

/* A matrix by its strides in elements, so that a transposed one needs no copy: (i, j) is at[i * row + j *
 * col]. */
typedef struct { const float *at; int64_t row, col; } StridedMatrix;
typedef void TileKernel(float *out, const float *const *a, int64_t step, const float *b, int64_t depth);
typedef struct {
    float         *y;                  /* [M, N] with rows y_row elements apart */
    int64_t        y_row, M, N, depth;
    StridedMatrix  a, b;               /* [M, depth] and [depth, N] */
    const float   *bias;               /* [N], or NULL */
    bool           add;                /* y += instead of y = */
    TileKernel    *tile;
} MatrixProduct;

/* out[8][32] = a[8][depth] b[depth][32] with vectors of `floats` floats. `rows` x `vecs` sums are computed
 * at a time, which is as many as the target's registers hold. A vector must be one register, or compilers
 * keep the sums in memory. a has a pointer for each row, whose elements are `step` apart; b is a packed
 * strip. */
#define TILE(name, target, floats, rows, vecs)                                                               \
    target static void name(float *out, const float *const *a, int64_t step, const float *b, int64_t depth)  \
    {                                                                                                        \
        typedef float Vector __attribute__((vector_size(4 * floats), aligned(4), may_alias));                \
        for (int m = 0; m < TILE_M; m += rows)                                                               \
            for (int n = 0; n < TILE_N; n += vecs * floats) {                                                \
                Vector sum[rows][vecs] = { 0 };                                                              \
                for (int64_t k = 0; k < depth; k++)                                                          \
                    for (int r = 0; r < rows; r++)                                                           \
                        for (int v = 0; v < vecs; v++)                                                       \
                            sum[r][v] += a[m + r][k * step] *                                                \
                                         *(const Vector *)(b + k * TILE_N + n + v * floats);                 \
                for (int r = 0; r < rows; r++)                                                               \
                    memcpy(out + (m + r) * TILE_N + n, sum[r], sizeof sum[r]);                               \
            }                                                                                                \
    }

#ifdef __x86_64__
TILE(tile_avx512, __attribute__((target("avx512f"))), 16, 8, 2)
TILE(tile_avx2, __attribute__((target("avx2"))), 8, 4, 2)
#endif
TILE(tile_plain, , 4, 4, 2)

static TileKernel *tile_best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) return tile_avx512;
    if (__builtin_cpu_supports("avx2")) return tile_avx2;
#endif
    return tile_plain;
}

/* panel[strip][k][32] = b[k0 + k][n0 + 32 strip + n], zero beyond the last column */
static void pack_b(float *panel, const MatrixProduct *p, int64_t k0, int64_t depth, int64_t n0,
                   int64_t columns)
{
    for (int64_t n = 0; n < columns; n += TILE_N, panel += depth * TILE_N) {
        int64_t width = columns - n < TILE_N ? columns - n : TILE_N;
        const float *b = p->b.at + k0 * p->b.row + (n0 + n) * p->b.col;
        if (width < TILE_N) memset(panel, 0, (size_t)(depth * TILE_N) * sizeof *panel);
        if (p->b.col == 1) {
            for (int64_t k = 0; k < depth; k++)
                memcpy(panel + k * TILE_N, b + k * p->b.row, (size_t)width * sizeof *b);
        } else {
            for (int64_t j = 0; j < width; j++)
                for (int64_t k = 0; k < depth; k++) panel[k * TILE_N + j] = b[k * p->b.row + j * p->b.col];
        }
    }
}

/* Sets the pointers to the rows of a tile and returns the distance of their elements. Columns of a are
 * packed first, so that the kernel reads consecutive memory. Pointers beyond the last row repeat it or
 * read zeros; what the kernel computes there is not stored. */
static int64_t tile_rows(const float *row[TILE_M], float *packed, const MatrixProduct *p, int64_t m,
                         int64_t rows, int64_t k0, int64_t depth)
{
    const float *a = p->a.at + m * p->a.row + k0 * p->a.col;
    if (p->a.col == 1) {
        for (int r = 0; r < TILE_M; r++) row[r] = a + (r < rows ? r : rows - 1) * p->a.row;
        return 1;
    }
    for (int r = 0; r < TILE_M; r++) row[r] = packed + r;
    if (rows < TILE_M) memset(packed, 0, (size_t)(depth * TILE_M) * sizeof *packed);
    for (int64_t k = 0; k < depth; k++)
        for (int64_t r = 0; r < rows; r++) packed[k * TILE_M + r] = a[k * p->a.col + r * p->a.row];
    return TILE_M;
}

/* Writes or adds a tile's valid part to y; `first` says that it is the first part of the depth, which has
 * the bias. */
static void store_tile(const MatrixProduct *p, const float *out, int64_t m, int64_t rows, int64_t n,
                       int64_t columns, bool first)
{
    for (int64_t r = 0; r < rows; r++, out += TILE_N) {
        float *y = p->y + (m + r) * p->y_row + n;
        if (!first || p->add) {
            for (int64_t c = 0; c < columns; c++) y[c] += out[c];
        } else if (p->bias) {
            for (int64_t c = 0; c < columns; c++) y[c] = out[c] + p->bias[n + c];
        } else {
            memcpy(y, out, (size_t)columns * sizeof *y);
        }
    }
}

/* One block of y. The panel is 128 KiB and lives on the stack, so that threads share nothing and nothing
 * is allocated. */
static void multiply_block(const MatrixProduct *p, int64_t m0, int64_t n0)
{
    float panel[BLOCK_N * DEPTH], packed[TILE_M * DEPTH], out[TILE_M * TILE_N];
    int64_t m1 = m0 + BLOCK_M < p->M ? m0 + BLOCK_M : p->M;
    int64_t columns = p->N - n0 < BLOCK_N ? p->N - n0 : BLOCK_N;
    for (int64_t k0 = 0; k0 < p->depth; k0 += DEPTH) {
        int64_t depth = p->depth - k0 < DEPTH ? p->depth - k0 : DEPTH;
        pack_b(panel, p, k0, depth, n0, columns);
        for (int64_t m = m0; m < m1; m += TILE_M) {
            const float *a[TILE_M];
            int64_t rows = m1 - m < TILE_M ? m1 - m : TILE_M;
            int64_t step = tile_rows(a, packed, p, m, rows, k0, depth);
            for (int64_t n = 0; n < columns; n += TILE_N) {
                p->tile(out, a, step, panel + n * depth, depth);
                store_tile(p, out, m, rows, n0 + n, columns - n < TILE_N ? columns - n : TILE_N, k0 == 0);
            }
        }
    }
}

/* Blocks below each other are neighbours in the numbering, so that threads running at the same time read
 * the same b. */
static void multiply_blocks(void *context, int64_t begin, int64_t end)
{
    const MatrixProduct *p = context;
    int64_t down = (p->M + BLOCK_M - 1) / BLOCK_M;
    for (int64_t i = begin; i < end; i++) multiply_block(p, i % down * BLOCK_M, i / down * BLOCK_N);
}

static void multiply(Queue *q, MatrixProduct p)
{
    p.tile = tile_best();
    int64_t down = (p.M + BLOCK_M - 1) / BLOCK_M, across = (p.N + BLOCK_N - 1) / BLOCK_N;
    team_for(q->team, down * across, 1, multiply_blocks, &p);
}

/* y = x wT + bias */
CPU(matmul_forward, MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT(a->y_TK, F32, T, K);
    WANT(a->x_TC, F32, T, C);
    WANT(a->w_KC, F32, K, C);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, F32, K);
    multiply(q, (MatrixProduct){ .y = flat(a->y_TK), .y_row = a->y_TK.stride[0], .M = T, .N = K, .depth = C,
                                 .a = { flat(a->x_TC), a->x_TC.stride[0], 1 },
                                 .b = { flat(a->w_KC), 1, a->w_KC.stride[0] },
                                 .bias = tensor_present(a->bias_K) ? flat(a->bias_K) : NULL });
}

/* dx = dy w */
CPU(matmul_backward_input, MatmulBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1], K = a->dy_TK.dim[1];
    WANT(a->dx_TC, F32, T, C);
    WANT(a->dy_TK, F32, T, K);
    WANT(a->w_KC, F32, K, C);
    multiply(q, (MatrixProduct){ .y = flat(a->dx_TC), .y_row = a->dx_TC.stride[0], .M = T, .N = C, .depth = K,
                                 .a = { flat(a->dy_TK), a->dy_TK.stride[0], 1 },
                                 .b = { flat(a->w_KC), a->w_KC.stride[0], 1 } });
}

/* dw += dyT x */
CPU(matmul_backward_weight, MatmulBackwardWeight)
{
    int64_t K = a->dw_KC.dim[0], C = a->dw_KC.dim[1], T = a->x_TC.dim[0];
    WANT(a->dw_KC, F32, K, C);
    WANT(a->dy_TK, F32, T, K);
    WANT(a->x_TC, F32, T, C);
    multiply(q, (MatrixProduct){ .y = flat(a->dw_KC), .y_row = a->dw_KC.stride[0], .M = K, .N = C, .depth = T,
                                 .add = true,
                                 .a = { flat(a->dy_TK), 1, a->dy_TK.stride[0] },
                                 .b = { flat(a->x_TC), a->x_TC.stride[0], 1 } });
}

/* db += sums of the columns of dy, in double because the number of rows is large */
enum { COLUMNS = 64 };
static CLONES void bias_columns(void *context, int64_t begin, int64_t end)
{
    const BiasBackward *a = context;
    double sum[COLUMNS] = { 0 };
    for (int64_t t = 0; t < a->dy_TK.dim[0]; t++) {
        const float *dy = row(a->dy_TK, t) + begin;
        for (int64_t k = 0; k < end - begin; k++) sum[k] += (double)dy[k];
    }
    for (int64_t k = begin; k < end; k++) flat(a->db_K)[k] += (float)sum[k - begin];
}

CPU(bias_backward, BiasBackward)
{
    int64_t T = a->dy_TK.dim[0], K = a->dy_TK.dim[1];
    WANT(a->db_K, F32, K);
    WANT(a->dy_TK, F32, T, K);
    team_for(q->team, K, COLUMNS, bias_columns, (void *)a);
}
