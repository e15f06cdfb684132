/* Fill, copy, sums and initial values.
 * N elements of a flat tensor   R ranks   T rows */
#include "base/random.h"
#include "tensor/cpu/cpu.h"

/* ---- fill, copy, accumulate: by runs along the last dim in use ---- */
/* Steps are in elements, and width is the bytes of one element. */
typedef void StridedRun(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t count, int64_t width);
typedef struct { Tensor y, x; int64_t width; StridedRun *run; } StridedWalk;

static void zero_run(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t count, int64_t width)
{
    (void)x, (void)x_step;
    if (y_step == 1) memset(y, 0, (size_t)(count * width));
    else for (int64_t i = 0; i < count; i++, y += y_step * width) memset(y, 0, (size_t)width);
}

static void copy_run(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t count, int64_t width)
{
    if (y_step == 1 && x_step == 1) memmove(y, x, (size_t)(count * width));
    else for (int64_t i = 0; i < count; i++, y += y_step * width, x += x_step * width)
        memmove(y, x, (size_t)width);
}

static CLONES void add_run(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t count,
                           int64_t width)
{
    (void)width;
    float *to = (float *)y;
    const float *from = (const float *)x;
    if (y_step == 1 && x_step == 1) for (int64_t i = 0; i < count; i++) to[i] += from[i];
    else for (int64_t i = 0; i < count; i++) to[i * y_step] += from[i * x_step];
}

/* Both tensors contiguous: a chunk is a single run. */
static void walk_flat(void *context, int64_t begin, int64_t end)
{
    const StridedWalk *w = context;
    int64_t at = begin * w->width;
    w->run((char *)w->y.data + at, 1, (const char *)w->x.data + at, 1, end - begin, w->width);
}

/* Any strides: item i is one run along the last dim, at the i-th index of the other three. */
static void walk_rows(void *context, int64_t begin, int64_t end)
{
    const StridedWalk *w = context;
    const int64_t *dim = w->y.dim;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[3] = { i / (dim[1] * dim[2]), i / dim[2] % dim[1], i % dim[2] }, at_y = 0, at_x = 0;
        for (int d = 0; d < 3; d++) at_y += at[d] * w->y.stride[d], at_x += at[d] * w->x.stride[d];
        w->run((char *)w->y.data + at_y * w->width, w->y.stride[3], (const char *)w->x.data + at_x * w->width,
               w->x.stride[3], dim[3], w->width);
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
    CHECK(y.dtype == x.dtype, "%s and %s do not mix", dtype_name(y.dtype), dtype_name(x.dtype));
    for (int d = 0; d < 4; d++) {
        CHECK(y.dim[d] == x.dim[d], "dim %d is %lld and %lld", d, (long long)y.dim[d], (long long)x.dim[d]);
        if (y.dim[d] > 1) used = d + 1;
    }
    StridedWalk w = { last_dims(y, used), last_dims(x, used), (int64_t)dtype_width(y.dtype), run };
    int64_t n = tensor_count(y);
    if (n == 0) return;
    if (tensor_contiguous(y) && tensor_contiguous(x)) team_for(q->team, n, CHUNK_ELEMENTS, walk_flat, &w);
    else team_for(q->team, n / w.y.dim[3], chunk_rows(w.y.dim[3]), walk_rows, &w);
}

CPU(fill_zero, FillZero) { strided_walk(q, a->y, a->y, zero_run); }
CPU(copy_strided, CopyStrided) { strided_walk(q, a->y, a->x, copy_run); }
CPU(accumulate, Accumulate)
{
    CHECK(a->y.dtype == F32, "y is %s, wanted F32", dtype_name(a->y.dtype));
    strided_walk(q, a->y, a->x, add_run);
}

/* ---- sums ---- */
/* Rank by rank within a chunk: the order of additions of an element is the order of ranks. */
static CLONES void rank_sum_elements(void *context, int64_t begin, int64_t end)
{
    const RankSum *a = context;
    float *y = flat(a->y_N);
    for (int64_t i = begin; i < end; i++) y[i] = row(a->x_RN, 0)[i];
    for (int64_t r = 1; r < a->x_RN.dim[0]; r++) {
        const float *x = row(a->x_RN, r);
        for (int64_t i = begin; i < end; i++) y[i] += x[i];
    }
}

CPU(rank_sum, RankSum)
{
    int64_t R = a->x_RN.dim[0], N = a->x_RN.dim[1];
    WANT(a->y_N, F32, N);
    WANT(a->x_RN, F32, R, N);
    team_for(q->team, N, CHUNK_ELEMENTS, rank_sum_elements, (void *)a);
}

/* Threads sum blocks in any order, and the caller adds the blocks' sums in their order. 64 blocks at a
 * time, so that the sums fit on the stack and nothing is allocated. */
enum { SQUARE_BLOCK = 4096, BLOCKS_AT_ONCE = 64 };
typedef struct { const float *x; int64_t N; double sum[BLOCKS_AT_ONCE]; } SquareSums;

static void square_blocks(void *context, int64_t begin, int64_t end)
{
    SquareSums *s = context;
    for (int64_t b = begin; b < end; b++) {
        double sum = 0;
        for (int64_t i = b * SQUARE_BLOCK; i < s->N && i < (b + 1) * SQUARE_BLOCK; i++)
            sum += (double)s->x[i] * (double)s->x[i];
        s->sum[b] = sum;
    }
}

CPU(square_sum, SquareSum)
{
    int64_t N = a->x_N.dim[0];
    WANT(a->out_1, F64, 1);
    WANT(a->x_N, F32, N);
    double *out = a->out_1.data;
    SquareSums s;
    for (int64_t first = 0; first < N; first += BLOCKS_AT_ONCE * SQUARE_BLOCK) {
        s.x = flat(a->x_N) + first;
        s.N = N - first < BLOCKS_AT_ONCE * SQUARE_BLOCK ? N - first : BLOCKS_AT_ONCE * SQUARE_BLOCK;
        int64_t n = (s.N + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
        team_for(q->team, n, 1, square_blocks, &s);
        for (int64_t b = 0; b < n; b++) *out += s.sum[b];
    }
}

CPU(weighted_sum, WeightedSum)
{
    int64_t T = a->x_T.dim[0];
    WANT(a->out_2, F64, 2);
    WANT(a->x_T, F32, T);
    WANT(a->loss_weight_T, F32, T);
    double sum = 0, weight = 0, *out = a->out_2.data;
    for (int64_t t = 0; t < T; t++) {
        sum += (double)flat(a->x_T)[t] * (double)flat(a->loss_weight_T)[t];
        weight += (double)flat(a->loss_weight_T)[t];
    }
    out[0] += sum;
    out[1] += weight;
}

/* ---- initial values of parameters ---- */
/* Computed in double from the element's index in the logical tensor, and rounded once; ref has the same
 * values. */
static void init_normal_elements(void *context, int64_t begin, int64_t end)
{
    const InitNormal *a = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t r = (a->first + i) / a->cols, c = (a->first + i) % a->cols;
        uint64_t index = (uint64_t)((a->row0 + r) * a->global_cols + a->col0 + c);
        flat(a->y_N)[i] = r < a->rows ? (float)(a->std * random_normal(a->key, index)) : 0;
    }
}

CPU(init_normal, InitNormal)
{
    WANT(a->y_N, F32, a->y_N.dim[0]);
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, init_normal_elements, (void *)a);
}

static void init_value_elements(void *context, int64_t begin, int64_t end)
{
    const InitValue *a = context;
    for (int64_t i = begin; i < end; i++) flat(a->y_N)[i] = (float)a->value;
}

CPU(init_value, InitValue)
{
    WANT(a->y_N, F32, a->y_N.dim[0]);
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, init_value_elements, (void *)a);
}
