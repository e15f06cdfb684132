#ifndef TENSOR_CUDA_ATTENTION_FLASH_H
#define TENSOR_CUDA_ATTENTION_FLASH_H
/* FlashAttention-2 (Dao 2023, arXiv 2307.08691) on tensor cores. It takes bf16 and fp16 with heads of up to
 * 256 channels, in the backward pass 128, where rows are aligned to 16 bytes and scale is above 0; all else
 * is tiled.cu's. Scores and probabilities stay in registers, and no kernel writes a number that another
 * block adds to, so results repeat to the bit. Probabilities and their gradients are rounded to that type
 * before they are multiplied.
 *
 * A block of 4 warps has a tile of rows, 16 MS of them for each warp, and meets the tiles of the other side
 * one after another, of which the next is copied to shared memory while the present one is computed with.
 * Rows in shared memory are 8 elements longer than a head, so that the 8 rows of a matrix load lie in
 * different banks.
 * D channels of a row in shared memory, zeros beyond those of a head   MS tiles of 16 rows of a warp
 * N rows of a tile of the other side */
#include "tensor/cuda/attention/rule.h"
#include "tensor/cuda/attention/mma.h"

/* NULL where the arguments are such; else what they have that these kernels do not take, and what they do, in
 * the words of the log. And the ops of such arguments. */
const char *flash_refuses_forward (const AttentionForward *a);
const char *flash_refuses_backward(const AttentionBackward *a);
void flash_forward (Queue *q, const AttentionForward *a);
void flash_backward(Queue *q, const AttentionBackward *a);

#ifdef GPU_HAS_MMA
enum { FLASH_THREADS = 128, FLASH_WARPS = FLASH_THREADS / 32 };
constexpr float LOG2_E = 1.4426950409f, LN_2 = 0.6931471806f;

/* What forward and backward refuse alike. most: channels of a head; wide: the words for more */
static inline const char *flash_refuses(const Tensor &q, const Tensor &v, const AttentionRule &rule,
                                        int64_t most, const char *wide, bool aligned)
{
    if (q.dtype == F32)
        return "attention in fp32 is not computed by tensor cores; with --bf16 or --fp16 it is";
    if (rule.alibi)
        return "attention with ALiBi is not computed by tensor cores; with rotary or learned positions it is";
    if (q.dim[3] > most || v.dim[3] > most) return wide;
    if (!(rule.scale > 0)) return "attention is computed by tensor cores where scores have a scale above 0";
    if (!aligned)
        return "attention is computed by tensor cores where the channels of heads (--kv-channels) are "
               "multiples of 8";
    return NULL;
}

/* Elements of a row in shared memory */
template <int D> constexpr int FLASH_ROW = D + 8;

static __device__ __forceinline__ int lane_of(void) { return (int)threadIdx.x % 32; }
template <typename T> static __device__ __forceinline__ T smaller(T a, T b) { return a < b ? a : b; }

/* ---- tiles in shared memory ---- */

/* Begins to copy ROWS rows; those at and beyond `there`, and channels beyond those of x, become zeros. A
 * thread walks down its column by a pointer, since the addresses of all its rows would be kept in registers.
 * */
template <int ROWS, int D, typename T>
static __device__ __forceinline__ void flash_copy(T *to, const Tensor &x, const T *from, int64_t there)
{
    constexpr int EACH = D / 8, AT_ONCE = FLASH_THREADS / EACH;
    static_assert(ROWS % AT_ONCE == 0, "a thread copies as much as another");
    const int  r = (int)threadIdx.x / EACH, c = (int)threadIdx.x % EACH * 8;
    const int  rows = c < (int)x.dim[3] ? (int)smaller(there, (int64_t)ROWS) : 0;
    const T   *row = from + r * x.stride[1] + c;
    to += r * FLASH_ROW<D> + c;
#pragma unroll
    for (int i = 0; i < ROWS / AT_ONCE; i++, row += AT_ONCE * x.stride[1])
        async_copy<16>(to + i * AT_ONCE * FLASH_ROW<D>, row, r + i * AT_ONCE < rows);
}

/* A of 16 rows from `row` on and 16 channels */
template <int D, typename T>
static __device__ __forceinline__ void load_a(uint32_t (&to)[4], const T *tile, int row, int channel)
{
    const int lane = lane_of();
    mma_load(to, tile + (row + lane % 16) * FLASH_ROW<D> + channel + lane / 16 * 8);
}

/* Two B: their columns are 16 rows of the tile, their rows 16 channels: x yT */
template <int D, typename T>
static __device__ __forceinline__ void load_b(uint32_t (&to)[4], const T *tile, int row, int channel)
{
    const int lane = lane_of();
    mma_load(to, tile + (row + lane % 8 + lane / 16 * 8) * FLASH_ROW<D> + channel + lane / 8 % 2 * 8);
}

/* Two B: their rows are 16 rows of the tile, their columns 16 channels: x y */
template <int D, typename T>
static __device__ __forceinline__ void load_b_across(uint32_t (&to)[4], const T *tile, int row,
                                                     int channel)
{
    const int lane = lane_of();
    mma_load_transposed(to, tile + (row + lane % 16) * FLASH_ROW<D> + channel + lane / 16 * 8);
}

/* ---- products of tiles: x[m][n] is the 16 x 8 matrix of rows 16 m and columns 8 n of a warp ---- */
template <int MS, int NS> static __device__ __forceinline__ void flash_zero(float (&x)[MS][NS][4])
{
#pragma unroll
    for (int m = 0; m < MS; m++)
#pragma unroll
        for (int n = 0; n < NS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) x[m][n][i] = 0;
}

/* x = 16 MS rows of one tile, from `row` on, times the N rows of another, over all channels */
template <int D, int MS, int N, typename T>
static __device__ __forceinline__ void flash_scores(float (&x)[MS][N / 8][4], const T *a_tile, int row,
                                                    const T *y_tile)
{
    flash_zero(x);
#pragma unroll
    for (int c = 0; c < D; c += 16) {
        uint32_t a[MS][4], b[4];
#pragma unroll
        for (int m = 0; m < MS; m++) load_a<D>(a[m], a_tile, row + 16 * m, c);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            load_b<D>(b, y_tile, n, c);
#pragma unroll
            for (int m = 0; m < MS; m++) {
                mma_add(T{}, x[m][n / 8], a[m], b[0], b[1]);
                mma_add(T{}, x[m][n / 8 + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* sum += x, rounded to T, times the N rows of a tile */
template <int D, int MS, int N, typename T>
static __device__ __forceinline__ void flash_apply(float (&sum)[MS][D / 8][4], const float (&x)[MS][N / 8][4],
                                                   const T *y_tile)
{
#pragma unroll
    for (int n = 0; n < N; n += 16) {
        uint32_t a[MS][4], b[4];
#pragma unroll
        for (int m = 0; m < MS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float (&from)[4] = x[m][n / 8 + i / 2];
                a[m][i] = pair_of<T>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
            }
#pragma unroll
        for (int c = 0; c < D; c += 16) {
            load_b_across<D>(b, y_tile, n, c);
#pragma unroll
            for (int m = 0; m < MS; m++) {
                mma_add(T{}, sum[m][c / 8], a[m], b[0], b[1]);
                mma_add(T{}, sum[m][c / 8 + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* ---- results: two neighbouring elements of a row in F32 or T ---- */
template <typename T>
static __device__ __forceinline__ void store_pair(const Tensor &x, int64_t b, int64_t s, int64_t h, int c,
                                                  float one, float two)
{
    if (x.dtype == F32) *(float2 *)(gpu_row<float>(x, b, s, h) + c) = make_float2(one, two);
    else *(uint32_t *)(gpu_row<T>(x, b, s, h) + c) = pair_of<T>(one, two);
}

template <typename T>
static __device__ __forceinline__ void add_pair(const Tensor &x, int64_t b, int64_t s, int64_t h, int c,
                                                float one, float two)
{
    if (x.dtype == F32) {
        const float2 old = *(const float2 *)(gpu_row<float>(x, b, s, h) + c);
        store_pair<T>(x, b, s, h, c, old.x + one, old.y + two);
    } else {
        const uint32_t old = *(const uint32_t *)(gpu_row<T>(x, b, s, h) + c);
        store_pair<T>(x, b, s, h, c, first_of<T>(old) + one, second_of<T>(old) + two);
    }
}

/* Adds `by` sum to the rows s0 + row .. of x that are below `rows`; row: the first of the warp */
template <typename T, int D, int MS>
static __device__ __forceinline__ void add_rows(const Tensor &x, int64_t b, int64_t s0, int row, int64_t h,
                                                const float (&sum)[MS][D / 8][4], float by)
{
    const int lane = lane_of();
#pragma unroll
    for (int m = 0; m < MS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t s = s0 + row + 16 * m + 8 * r + lane / 4;
            if (s >= x.dim[1]) continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int c = 8 * n + lane % 4 * 2;
                if (c < x.dim[3])
                    add_pair<T>(x, b, s, h, c, by * sum[m][n][2 * r], by * sum[m][n][2 * r + 1]);
            }
        }
}

/* ---- one score ---- */

/* The score in units of log 2 under a soft-cap; `slope` is what its derivative takes from it. */
static __device__ __forceinline__ float soft_capped(const AttentionRule &rule, float product, float *slope)
{
    const float cap = (float)rule.softcap, bent = tanhf(product * (float)rule.scale / cap);
    *slope = 1.0f - bent * bent;
    return cap * LOG2_E * bent;
}

/* Which of two neighbouring keys dropout keeps, as two bits; they mostly share one block of random bits. */
static __device__ __forceinline__ uint32_t kept_pair(const DropoutMask &mask, uint64_t index)
{
    const uint4    bits = gpu_philox(mask.key, index / 4);
    const uint32_t at = (uint32_t)(index % 4), one = word_of(bits, at);
    const uint32_t two = at < 3 ? word_of(bits, at + 1) : gpu_philox(mask.key, index / 4 + 1).x;
    return (uint32_t)(one >= mask.threshold) | (uint32_t)(two >= mask.threshold) << 1;
}

/* The factor of element i of x[n], of which kept has bit 4 n + i */
static __device__ __forceinline__ float factor_of(uint32_t kept, int n, int i, const DropoutMask &mask)
{
    return kept >> (4 * n + i) & 1 ? mask.scale : 0.0f;
}

/* Bits of the elements of 16 queries and N keys from u0 on; first: of the dropout of this thread's rows */
template <int N>
static __device__ __forceinline__ uint32_t kept_of(const DropoutMask &mask, const uint64_t (&first)[2],
                                                   int u0)
{
    uint32_t kept = 0;
    static_assert(N <= 64, "bits of a word");
#pragma unroll 1
    for (int k = 0; k < N / 4; k++) {
        const uint64_t index = (k % 2 ? first[1] : first[0]) + (uint64_t)(u0 + k / 2 * 8 + lane_of() % 4 * 2);
        kept |= kept_pair(mask, index) << (2 * k);
    }
    return kept;
}

/* Whether keys u0 .. u1 - 1 are among those of a span; a warp leaves out a tile of which it sees nothing. */
static __device__ __forceinline__ bool touches(const KeySpan &span, int u0, int u1)
{
    return u0 < span.end && u1 > span.first;
}

/* ---- the queries of a tile in the registers of a block ---- */

/* Which keys the rows of this thread see (none, where there is no such query) and the first numbers of their
 * dropout; from the first to the last key that the block sees, and the warp; those that all its rows see. */
template <int MS> struct TileKeys {
    KeySpan  own[MS][2], seen, warp, all;
    uint64_t dropout[MS][2];
};

template <int MS, typename Arguments>
static __device__ __forceinline__ void tile_keys(TileKeys<MS> *to, int *part, const Arguments &a, int64_t b,
                                                 int64_t s0, int row, int64_t h)
{
    const int64_t S = a.q.dim[1], U = a.k.dim[1];
    int first = INT32_MAX, end = 0;
    to->all = KeySpan{ 0, INT32_MAX };
#pragma unroll
    for (int m = 0; m < MS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t s = s0 + row + 16 * m + 8 * r + lane_of() / 4;
            const KeySpan own = s < S ? keys_of(a.rule, a.key_range_i, U, b, s) : KeySpan{ 0, 0 };
            to->dropout[m][r] = s < S && a.rule.p > 0 ? dropout_row(a.rule, a.sample_i, b, s, h) : 0;
            to->all.first = larger(to->all.first, own.first);
            to->all.end   = smaller(to->all.end, own.end);
            if (own.first < own.end) first = smaller(first, own.first), end = larger(end, own.end);
            to->own[m][r] = own;
        }
    to->all.first = lanes_max(to->all.first, 32);
    to->all.end   = -lanes_max(-to->all.end, 32);
    to->warp = KeySpan{ -lanes_max(-first, 32), lanes_max(end, 32) };
    end   = block_max(part, end);
    first = -block_max(part, -first);
    to->seen = end > 0 ? KeySpan{ first, end } : KeySpan{ 0, 0 };
}
#endif
#endif
