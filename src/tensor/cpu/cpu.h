#ifndef TENSOR_CPU_CPU_H
#define TENSOR_CPU_CPU_H
/* The fast back end of a host. It computes in float; activations and parameters may also be BF16 or F16, and
 * the optimizer's states BF16. Loops are vectorized by the compiler, and team_for divides them into chunks
 * that depend on shapes alone. Every sum has a fixed order, so results are bitwise the same for any
 * number of threads. Outside of the matrix products (gemm.h) and attention (flash/flash.h) no multiply-add is
 * contracted into a fused one and any instruction set gives the same bits; theirs depend on the family of
 * kernels. */
#include <math.h>
#include <string.h>
#include "base/clones.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/ref/want.h"

/* The head of the function that implements a row: CPU(rope_forward, RopeForward) { ... } with arguments q
 * and a. */
#define CPU(name, Struct) void cpu_##name(Queue *q __attribute__((unused)), const Struct *a)
#define OP(heat, name, Struct, types, ...) CPU(name, Struct);
#include "tensor/ops.def"
#undef OP

/* Backend.workspace of this back end, which its dry twin takes too. */
size_t cpu_workspace(const Queue *q, int op, const void *arguments);
size_t cpu_matmul_forward_workspace(const Queue *q, const MatmulForward *a);
size_t cpu_matmul_activation_forward_workspace(const Queue *q, const MatmulActivationForward *a);
size_t cpu_matmul_residual_forward_workspace(const Queue *q, const MatmulResidualForward *a);
size_t cpu_matmul_backward_input_workspace(const Queue *q, const MatmulBackwardInput *a);
size_t cpu_matmul_backward_weight_workspace(const Queue *q, const MatmulBackwardWeight *a);
size_t cpu_fp8_matmul_forward_workspace(const Queue *q, const Fp8MatmulForward *a);
size_t cpu_fp8_matmul_backward_input_workspace(const Queue *q, const Fp8MatmulBackwardInput *a);
size_t cpu_fp8_matmul_backward_weight_workspace(const Queue *q, const Fp8MatmulBackwardWeight *a);
size_t cpu_int8_matmul_forward_workspace(const Queue *q, const Int8MatmulForward *a);
size_t cpu_grouped_matmul_forward_workspace(const Queue *q, const GroupedMatmulForward *a);
size_t cpu_grouped_int8_matmul_forward_workspace(const Queue *q, const GroupedInt8MatmulForward *a);
size_t cpu_grouped_matmul_backward_input_workspace(const Queue *q, const GroupedMatmulBackwardInput *a);
size_t cpu_grouped_matmul_backward_weight_workspace(const Queue *q, const GroupedMatmulBackwardWeight *a);
size_t cpu_route_sort_workspace(const Queue *q, const RouteSort *a);
size_t cpu_paged_attention_forward_workspace(const Queue *q, const PagedAttentionForward *a);
size_t cpu_attention_forward_workspace(const Queue *q, const AttentionForward *a);
size_t cpu_attention_backward_workspace(const Queue *q, const AttentionBackward *a);

/* Of activation_forward and dropout_forward: rows [row, row + rows) and columns [column, column + columns) of
 * y, in the calling thread. */
void cpu_activate_part(const ActivationForward *a, int64_t row, int64_t rows, int64_t column,
                       int64_t columns);
void cpu_drop_part(const Queue *q, const DropoutForward *a, int64_t row, int64_t rows, int64_t column,
                   int64_t columns);

#define INLINE static inline __attribute__((always_inline))

/* A vector of 8 floats that may be loaded from any address; compilers split it where registers are
 * narrower. The number of lanes is part of the results, since it fixes the order of the sum of a dot
 * product. */
enum { LANES = 8 };
typedef float Vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Sums in double of 8 lanes: lane l adds the elements l, l + 8, ... of each tile, in order, and the lanes are
 * added pairwise at the end. One running sum would wait for each addition. */
typedef double Doubles __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
/* A macro, because functions that pass such vectors have another ABI in each clone. */
#define doubles_of(x) __builtin_convertvector(*(const Vec *)(x), Doubles)
INLINE double lanes_total(const Doubles *lanes)
{
    double sum[LANES];
    memcpy(sum, lanes, sizeof sum);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    return sum[0];
}

/* Of F32 tensors: addresses of a 1-dim tensor, of row i, and of the last axis at [b, s, h]. */
INLINE float *flat(Tensor x) { return x.data; }
INLINE float *row(Tensor x, int64_t i) { return (float *)x.data + i * x.stride[0]; }
INLINE float *head(Tensor x, int64_t b, int64_t s, int64_t h)          /* [B, S, H] and [B, S, H, D] */
{
    return row(x, b) + s * x.stride[1] + h * x.stride[2];
}

/* ---- rows in float ----
 * Kernels read and write tiles of a row in float. A tile of an F32 tensor is the row itself; one of a 16-bit
 * type is converted to or from a buffer of the caller, in the first-level cache. */
enum { TILE = 512 };                   /* elements */
typedef struct { float x[TILE]; } TileBuffer;
enum { CPU_ACTIVATIONS = 1 << F32 | 1 << BF16 | 1 << F16, CPU_STATES = 1 << F32 | 1 << BF16 };

INLINE int64_t tile_count(int64_t all, int64_t first) { return all - first < TILE ? all - first : TILE; }
/* Element c of row i of a 2-dim tensor, or element c of a 1-dim one with i = 0. */
INLINE void *tile_at(Tensor x, int64_t i, int64_t c)
{
    return (char *)x.data + (i * x.stride[0] + c) * (int64_t)dtype_width(x.dtype);
}
INLINE const float *tile_read(TileBuffer *buffer, Tensor x, int64_t i, int64_t first, int64_t n)
{
    if (x.dtype == F32) return tile_at(x, i, first);
    if (x.dtype == BF16) {             /* inline, since tiles may be short: columns of a chunk */
        const uint16_t *from = tile_at(x, i, first);
        for (int64_t c = 0; c < n; c++) buffer->x[c] = bf16_decode(from[c]);
        return buffer->x;
    }
    dtype_convert(buffer->x, F32, tile_at(x, i, first), x.dtype, n);
    return buffer->x;
}
/* The same as a copy, which may be changed. */
INLINE void tile_load(float *to, Tensor x, int64_t i, int64_t first, int64_t n)
{
    dtype_convert(to, F32, tile_at(x, i, first), x.dtype, n);
}
/* Where to write a tile, and what ends it. */
INLINE float *tile_begin(TileBuffer *buffer, Tensor y, int64_t i, int64_t first)
{
    return y.dtype == F32 ? tile_at(y, i, first) : buffer->x;
}
INLINE void tile_end(const TileBuffer *buffer, Tensor y, int64_t i, int64_t first, int64_t n)
{
    if (y.dtype != F32) dtype_convert(tile_at(y, i, first), y.dtype, buffer->x, F32, n);
}
INLINE void tile_store(Tensor y, int64_t i, int64_t first, const float *from, int64_t n)
{
    dtype_convert(tile_at(y, i, first), y.dtype, from, F32, n);
}

/* A chunk of work is about 16 thousand elements: 64 KiB of float, which fits the second-level cache and
 * takes longer than starting it does. */
enum { CHUNK_ELEMENTS = 16384 };
INLINE int64_t chunk_rows(int64_t width)
{
    return width < CHUNK_ELEMENTS ? CHUNK_ELEMENTS / (width > 0 ? width : 1) : 1;
}
/* Chunks of an eighth as many elements where there are few: for operations with much work on each, whose few
 * rows in generation are to be divided among threads. */
INLINE int64_t chunk_of_few(int64_t rows, int64_t width)
{
    return chunk_rows(rows * width < 16 * CHUNK_ELEMENTS ? 8 * width : width);
}

/* Sums over the rows of a matrix: a chunk of work owns so many columns. Narrower strips of rows that are a
 * multiple of 2 KiB apart would fall into a few sets of the cache. Loops over a whole strip are compiled for
 * this constant, which makes them several times as fast as those over any number. */
enum { COLUMNS = 192 };

/* e^x within 2 units of the last place and without a branch, so that loops over it vectorize: e^x = 2^n
 * e^r with an integer n and |r| <= log(2) / 2. Adding 1.5 * 2^23 rounds to the nearest integer, log(2) is
 * split in two so that r keeps its digits (Cody & Waite), and e^r is a Taylor polynomial of degree 7.
 * Below the smallest normal number the result is 0. */
INLINE float cpu_exp(float x)
{
    const float low = -87.3f, high = 88.3f, round = 0x1.8p23f;
    const float log2_high = 0x1.62e4p-1f, log2_low = (float)(0.69314718055994530942 - 0x1.62e4p-1);
    float clipped = x < low ? low : x > high ? high : x, shifted = clipped * (float)M_LOG2E + round;
    float n = shifted - round, r = clipped - n * log2_high - n * log2_low, power;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits + 127) << 23;      /* the low bits of shifted are n; 127 is the exponent's bias */
    memcpy(&power, &bits, 4);
    float e = 1 / 5040.0f;
    e = e * r + 1 / 720.0f, e = e * r + 1 / 120.0f, e = e * r + 1 / 24.0f, e = e * r + 1 / 6.0f;
    e = (e * r + 0.5f) * (r * r) + r + 1;
    return x < low ? 0 : x > high ? INFINITY : e * power;
}
#endif
