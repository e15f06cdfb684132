/* Fill, copy, sums and initial values.
 * N elements of a flat tensor   R ranks   T rows */
#include "base/random.h"
#include "tensor/checksum.h"
#include "tensor/cpu/cpu.h"

/* ---- fill, copy, accumulate: by runs along the last dim in use ---- */
/* Steps are in elements. */
typedef void StridedRun(char *y, int64_t y_step, Dtype y_dtype, const char *x, int64_t x_step, Dtype x_dtype,
                        int64_t count);
typedef struct { Tensor y, x; StridedRun *run; } StridedWalk;

static void zero_run(char *y, int64_t y_step, Dtype y_dtype, const char *x, int64_t x_step, Dtype x_dtype,
                     int64_t count)
{
    int64_t width = (int64_t)dtype_width(y_dtype);
    (void)x, (void)x_step, (void)x_dtype;
    if (y_step == 1) memset(y, 0, (size_t)(count * width));
    else for (int64_t i = 0; i < count; i++, y += y_step * width) memset(y, 0, (size_t)width);
}

static void copy_run(char *y, int64_t y_step, Dtype y_dtype, const char *x, int64_t x_step, Dtype x_dtype,
                     int64_t count)
{
    int64_t width = (int64_t)dtype_width(y_dtype);
    (void)x_dtype;
    if (y_step == 1 && x_step == 1) memmove(y, x, (size_t)(count * width));
    else for (int64_t i = 0; i < count; i++, y += y_step * width, x += x_step * width)
        memmove(y, x, (size_t)width);
}

/* Any two floating-point types; without gaps in tiles, else element by element. */
static CLONES void add_run(char *y, int64_t y_step, Dtype y_dtype, const char *x, int64_t x_step,
                           Dtype x_dtype, int64_t count)
{
    float to[TILE], from[TILE];
    int64_t y_width = (int64_t)dtype_width(y_dtype), x_width = (int64_t)dtype_width(x_dtype);
    int64_t tile = y_step == 1 && x_step == 1 ? TILE : 1;
    for (int64_t first = 0; first < count; first += tile) {
        int64_t n = count - first < tile ? count - first : tile;
        void *at = y + first * y_step * y_width;
        dtype_convert(to, F32, at, y_dtype, n);
        dtype_convert(from, F32, x + first * x_step * x_width, x_dtype, n);
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
        dtype_convert(at, y_dtype, to, F32, n);
    }
}

/* Both tensors contiguous: a chunk is a single run. */
static void walk_flat(void *context, int64_t begin, int64_t end)
{
    const StridedWalk *w = context;
    w->run(tile_at(w->y, 0, begin), 1, w->y.dtype, tile_at(w->x, 0, begin), 1, w->x.dtype, end - begin);
}

/* Any strides: item i is one run along the last dim, at the i-th index of the other three. */
static void walk_rows(void *context, int64_t begin, int64_t end)
{
    const StridedWalk *w = context;
    const int64_t *dim = w->y.dim;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[3] = { i / (dim[1] * dim[2]), i / dim[2] % dim[1], i % dim[2] }, at_y = 0, at_x = 0;
        for (int d = 0; d < 3; d++) at_y += at[d] * w->y.stride[d], at_x += at[d] * w->x.stride[d];
        w->run(tile_at(w->y, 0, at_y), w->y.stride[3], w->y.dtype, tile_at(w->x, 0, at_x), w->x.stride[3],
               w->x.dtype, dim[3]);
    }
}

/* Moves the dims in use to the end, [T, C, 1, 1] to [1, 1, T, C], so that a run is along the longest
 * useful one. */
static Tensor last_dims(Tensor x, int used)
{
    Tensor y = x;
    for (int d = 0; d < 4; d++) {
        y.dim[d]    = d < 4 - used ? 1 : x.dim[d - 4 + used];
        y.stride[d] = d < 4 - used ? 0 : x.stride[d - 4 + used];
    }
    return y;
}

static void strided_walk(Queue *q, Tensor y, Tensor x, StridedRun *run)
{
    int used = 1;
    for (int d = 0; d < 4; d++) {
        CHECK(y.dim[d] == x.dim[d], "dim %d is %lld and %lld", d, (long long)y.dim[d], (long long)x.dim[d]);
        if (y.dim[d] > 1) used = d + 1;
    }
    StridedWalk w = { last_dims(y, used), last_dims(x, used), run };
    int64_t n = tensor_count(y);
    if (n == 0) return;
    if (tensor_contiguous(y) && tensor_contiguous(x)) team_for(q->team, n, CHUNK_ELEMENTS, walk_flat, &w);
    else team_for(q->team, n / w.y.dim[3], chunk_rows(w.y.dim[3]), walk_rows, &w);
}

CPU(fill_zero, FillZero) { strided_walk(q, a->y, a->y, zero_run); }
CPU(copy_strided, CopyStrided)
{
    CHECK(a->y.dtype == a->x.dtype, "%s and %s do not mix", dtype_name(a->y.dtype), dtype_name(a->x.dtype));
    strided_walk(q, a->y, a->x, copy_run);
}
CPU(accumulate, Accumulate) { strided_walk(q, a->y, a->x, add_run); }

static void convert_elements(void *context, int64_t begin, int64_t end)
{
    const Convert *a = context;
    dtype_convert(tile_at(a->y_N, 0, begin), a->y_N.dtype, tile_at(a->x_N, 0, begin), a->x_N.dtype,
                  end - begin);
}

CPU(convert, Convert)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, convert_elements, (void *)a);
}

/* ---- sums ---- */
/* Rank by rank within a tile: the order of additions of an element is the order of ranks. */
static CLONES void rank_sum_elements(void *context, int64_t begin, int64_t end)
{
    const RankSum *a = context;
    TileBuffer x_tile;
    float sum[TILE];
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        tile_load(sum, a->x_RN, 0, first, n);
        for (int64_t r = 1; r < a->x_RN.dim[0]; r++) {
            const float *x = tile_read(&x_tile, a->x_RN, r, first, n);
            for (int64_t i = 0; i < n; i++) sum[i] += x[i];
        }
        tile_store(a->y_N, 0, first, sum, n);
    }
}

CPU(rank_sum, RankSum)
{
    int64_t R = a->x_RN.dim[0], N = a->x_RN.dim[1];
    WANT(a->y_N, N);
    WANT(a->x_RN, R, N);
    team_for(q->team, N, CHUNK_ELEMENTS, rank_sum_elements, (void *)a);
}

static CLONES void rank_max_elements(void *context, int64_t begin, int64_t end)
{
    const RankMax *a = context;
    for (int64_t i = begin; i < end; i++) {
        float most = row(a->x_RN, 0)[i];
        for (int64_t r = 1; r < a->x_RN.dim[0]; r++) {
            float x = row(a->x_RN, r)[i];
            most = most < x ? x : most;
        }
        flat(a->y_N)[i] = most;
    }
}

CPU(rank_max, RankMax)
{
    int64_t R = a->x_RN.dim[0], N = a->x_RN.dim[1];
    WANT(a->y_N, N);
    WANT(a->x_RN, R, N);
    team_for(q->team, N, CHUNK_ELEMENTS, rank_max_elements, (void *)a);
}

/* Threads sum blocks in any order, and the caller adds the blocks' sums in their order. 32 MiB of
 * floats at a time: the sums fit on the stack, so that nothing is allocated, and waking the threads costs
 * little beside them. */
enum { SQUARE_BLOCK = 4096, BLOCKS_AT_ONCE = 2048, BLOCKS_OF_CHUNK = CHUNK_ELEMENTS / SQUARE_BLOCK };
typedef struct { Tensor x_N; double sum[BLOCKS_AT_ONCE]; } BlockSums;

static CLONES void square_blocks(void *context, int64_t begin, int64_t end)
{
    BlockSums *s = context;
    TileBuffer tile;
    for (int64_t b = begin; b < end; b++) {
        int64_t N = s->x_N.dim[0], last = N < (b + 1) * SQUARE_BLOCK ? N : (b + 1) * SQUARE_BLOCK;
        Doubles sum = { 0 };
        for (int64_t first = b * SQUARE_BLOCK; first < last; first += TILE) {
            int64_t n = tile_count(last, first);
            const float *x = tile_read(&tile, s->x_N, 0, first, n);
            int64_t i = 0;
            for (; i + LANES <= n; i += LANES) sum += doubles_of(x + i) * doubles_of(x + i);
            for (; i < n; i++) sum[i % LANES] += (double)x[i] * (double)x[i];
        }
        s->sum[b] = lanes_total(&sum);
    }
}

/* out += the sums of all blocks */
static void sum_blocks(Queue *q, double *out, Tensor x_N, void (*blocks)(void *context, int64_t begin,
                                                                         int64_t end))
{
    int64_t N = x_N.dim[0];
    BlockSums s;
    for (int64_t first = 0; first < N; first += BLOCKS_AT_ONCE * SQUARE_BLOCK) {
        int64_t count = N - first < BLOCKS_AT_ONCE * SQUARE_BLOCK ? N - first : BLOCKS_AT_ONCE * SQUARE_BLOCK;
        int64_t n = (count + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
        s.x_N = tensor_slice(x_N, 0, first, count);
        team_for(q->team, n, BLOCKS_OF_CHUNK, blocks, &s);
        for (int64_t b = 0; b < n; b++) *out += s.sum[b];
    }
}

CPU(square_sum, SquareSum)
{
    WANT(a->out_1, 1);
    WANT(a->x_N, a->x_N.dim[0]);
    sum_blocks(q, a->out_1.data, a->x_N, square_blocks);
}

typedef struct { Tensor x_N; uint64_t sum; } WordSum;

static CLONES void checksum_words(void *context, int64_t begin, int64_t end)
{
    WordSum *s = context;
    uint64_t bytes = tensor_bytes(s->x_N), sum = 0;
    for (int64_t i = begin; i < end; i++) sum += checksum_word(s->x_N.data, (uint64_t)i, bytes);
    __atomic_fetch_add(&s->sum, sum, __ATOMIC_RELAXED);
}

CPU(checksum, Checksum)
{
    WordSum s = { .x_N = a->x_N };
    WANT(a->sum_2, 2);
    team_for(q->team, (int64_t)(tensor_bytes(a->x_N) + CHECKSUM_WORD - 1) / CHECKSUM_WORD, CHUNK_ELEMENTS,
             checksum_words, &s);
    float *sum = flat(a->sum_2);
    sum[0] = (float)checksum_number(s.sum);
    sum[1] = -sum[0];
}

static CLONES void nonzero_blocks(void *context, int64_t begin, int64_t end)
{
    BlockSums *s = context;
    TileBuffer tile;
    for (int64_t b = begin; b < end; b++) {
        int64_t N = s->x_N.dim[0], last = N < (b + 1) * SQUARE_BLOCK ? N : (b + 1) * SQUARE_BLOCK, count = 0;
        for (int64_t first = b * SQUARE_BLOCK; first < last; first += TILE) {
            int64_t n = tile_count(last, first);
            const float *x = tile_read(&tile, s->x_N, 0, first, n);
            for (int64_t i = 0; i < n; i++) count += x[i] != 0;
        }
        s->sum[b] = (double)count;
    }
}

CPU(nonzero_count, NonzeroCount)
{
    WANT(a->out_1, 1);
    WANT(a->x_N, a->x_N.dim[0]);
    sum_blocks(q, a->out_1.data, a->x_N, nonzero_blocks);
}

CPU(weighted_sum, WeightedSum)
{
    int64_t T = a->x_T.dim[0];
    WANT(a->out_2, 2);
    WANT(a->x_T, T);
    WANT(a->loss_weight_T, T);
    double sum = 0, weight = 0, *out = a->out_2.data;
    for (int64_t t = 0; t < T; t++) {
        sum += (double)flat(a->x_T)[t] * (double)flat(a->loss_weight_T)[t];
        weight += (double)flat(a->loss_weight_T)[t];
    }
    out[0] += sum;
    out[1] += weight;
}

/* ---- initial values of parameters ---- */
/* Computed in double from the element's index in the logical tensor, and rounded to float, then to the type:
 * the optimizer's weights in float, rounded, are the parameters in a narrower type. ref has the values before
 * any rounding. */
static void init_random_elements(void *context, int64_t begin, int64_t end)
{
    const InitRandom *a = context;
    double number[TILE];
    float value[TILE];
    for (int64_t i = begin, n; i < end; i += n) {
        int64_t r = (a->first + i) / a->cols, c = (a->first + i) % a->cols, in_row = a->cols - c;
        uint64_t index = (uint64_t)((a->row0 + r) * a->global_cols + a->col0 + c);
        n = tile_count(end, i);
        if (n > in_row) n = in_row;
        if (r < a->rows && !a->uniform) random_normals(number, a->key, index, n);
        else if (r < a->rows)
            for (int64_t k = 0; k < n; k++)
                number[k] = sqrt(3) * (2 * random_uniform(a->key, index + (uint64_t)k) - 1);
        else memset(number, 0, sizeof number);
        for (int64_t k = 0; k < n; k++) value[k] = (float)(a->std * number[k]);
        tile_store(a->y_N, 0, i, value, n);
    }
}

CPU(init_random, InitRandom)
{
    WANT(a->y_N, a->y_N.dim[0]);
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, init_random_elements, (void *)a);
}

static void init_value_elements(void *context, int64_t begin, int64_t end)
{
    const InitValue *a = context;
    float value = (float)a->value;
    for (int64_t i = begin; i < end; i++) tile_store(a->y_N, 0, i, &value, 1);
}

CPU(init_value, InitValue)
{
    WANT(a->y_N, a->y_N.dim[0]);
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, init_value_elements, (void *)a);
}
