/* Optimizers with second moments of rows, columns or blocks of rows on a GPU: Adafactor and Adam-mini.
 * N elements of a part of a matrix   R rows   C columns   B blocks of rows */
#include "tensor/cuda/update.h"

/* Divides in 32 bits where it can, as place_of. */
__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) <= UINT32_MAX) return (uint32_t)a / (uint32_t)b;
    return a / b;
}

/* ---- sums ---- */
/* row[r / group] += g g, one thread block for each number that has elements here, which are neighbours */
__global__ void __launch_bounds__(GPU_THREADS)
row_sums_kernel(FactorSums a, int64_t first_block, const StepState *step_state)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    const int64_t b = first_block + blockIdx.x, count = a.group * a.columns, N = a.g_N.dim[0];
    const int64_t from = (b * a.group - a.row0) * a.columns - a.first;
    const int64_t begin = from > 0 ? from : 0, end = from + count < N ? from + count : N;
    const double factor = (double)(float)step_state->factor;
    const float *g = (const float *)a.g_N.data;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += GPU_THREADS) {
        const double x = (double)g[i] * factor;
        sum += x * x;
    }
    sum = block_sum(part, sum);
    if (threadIdx.x == 0) ((double *)a.row_B.data)[b] += sum;
}

/* Rows of the part that a thread block of column_parts_kernel adds. The division into them depends on their
 * number alone. */
constexpr int64_t COLUMN_PARTS = 128, COLUMN_ROWS = 32;

static int64_t rows_of(const FactorSums *a)
{
    return a->g_N.dim[0] > 0 ? (a->first + a->g_N.dim[0] - 1) / a->columns - a->first / a->columns + 1 : 0;
}

static int64_t rows_at_once(int64_t rows)
{
    const int64_t even = (rows + COLUMN_PARTS - 1) / COLUMN_PARTS;
    return even > COLUMN_ROWS ? even : COLUMN_ROWS;
}

/* A thread adds one column of its block's rows, in their order. */
__global__ void __launch_bounds__(GPU_THREADS)
column_parts_kernel(FactorSums a, double *part_PC, int64_t rows, int64_t each, const StepState *step_state)
{
    const int64_t c = (int64_t)blockIdx.y * GPU_THREADS + threadIdx.x, N = a.g_N.dim[0];
    const int64_t end = (blockIdx.x + 1) * each < rows ? (blockIdx.x + 1) * each : rows;
    const double factor = (double)(float)step_state->factor;
    const float *g = (const float *)a.g_N.data;
    if (c >= a.columns) return;
    double sum = 0;
    for (int64_t r = blockIdx.x * each; r < end; r++) {
        const int64_t i = r * a.columns + c - a.first % a.columns;
        const double  x = i >= 0 && i < N ? (double)g[i] * factor : 0;
        sum += x * x;
    }
    part_PC[blockIdx.x * a.columns + c] = sum;
}

/* column[c] += the sum over parts, in their order */
__global__ void __launch_bounds__(GPU_THREADS)
column_join_kernel(FactorSums a, const double *part_PC, int64_t parts)
{
    const int64_t c = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (c >= a.columns) return;
    double sum = 0;
    for (int64_t p = 0; p < parts; p++) sum += part_PC[p * a.columns + c];
    ((double *)a.column_C.data)[a.column0 + c] += sum;
}

extern "C" size_t cuda_factor_sums_workspace(const Queue *, const FactorSums *a)
{
    const int64_t rows = rows_of(a), each = rows_at_once(rows);
    return tensor_present(a->column_C) ? (size_t)((rows + each - 1) / each * a->columns) * sizeof(double) : 0;
}

extern "C" void cuda_factor_sums(Queue *q, const FactorSums *a)
{
    const int64_t N = a->g_N.dim[0], rows = rows_of(a), each = rows_at_once(rows);
    const gpuStream_t stream = gpu_stream_of(q);
    const StepState *step_state = q->step_state;
    GPU_WANT(a->row_B, F64, a->row_B.dim[0]);
    GPU_WANT(a->g_N, F32, N);
    if (N == 0) return;
    const int64_t row = a->row0 + a->first / a->columns, block = row / a->group;
    const int64_t last = (row + rows - 1) / a->group;
    CHECK(last < a->row_B.dim[0], "row %lld of %lld", (long long)last, (long long)a->row_B.dim[0]);
    GPU_LAUNCH(row_sums_kernel, blocks_for(last - block + 1, 1), GPU_THREADS, stream, *a, block, step_state);
    if (!tensor_present(a->column_C)) return;
    GPU_WANT(a->column_C, F64, a->column_C.dim[0]);
    CHECK(a->column0 + a->columns <= a->column_C.dim[0], "columns beyond %lld", (long long)a->column_C.dim[0]);
    const unsigned parts = blocks_for(rows, each), wide = blocks_for(a->columns, GPU_THREADS);
    double *part = workspace_of<double>(q, parts * a->columns);
    GPU_LAUNCH(column_parts_kernel, dim3(parts, wide), GPU_THREADS, stream, *a, part, rows, each, step_state);
    GPU_LAUNCH(column_join_kernel, wide, GPU_THREADS, stream, *a, (const double *)part, (int64_t)parts);
}

/* ---- moments ---- */
/* 1 - b = t^-rate */
__device__ __forceinline__ double growing_rest(const StepState &s, double rate)
{
    return pow((double)(s.updates + 1), -rate);
}

/* v = b v + (1 - b) sums / count */
struct MomentRule : UpdateKind {
    enum { V, SUMS, TENSORS, WRITTEN = SUMS };
    static constexpr RuleParam PARAM = NO_PARAM;
    static constexpr int CORRECTIONS = 1;
    double rest, count;

    static __device__ double correction(const MomentOfSums &a, const StepState &s, int)
    {
        return a.rate > 0 ? growing_rest(s, a.rate) : 1 - a.beta;
    }
    __device__ MomentRule(const MomentOfSums &a, const StepState &, const double *correct)
        : rest(correct[0]), count(a.count) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        return x[V] = (float)((1 - rest) * (double)x[V] + rest * (double)x[SUMS] / count);
    }
};

extern "C" void cuda_moment_of_sums(Queue *q, const MomentOfSums *a)
{
    update<MomentRule>(q, *a, a->v_B.dim[0], { FLAT(a->v_B), FLAT(a->sums_B) }, tensor_none());
}

/* ---- Adafactor ---- */
/* Threads add what is GPU_THREADS apart, so that the order is always the same. */
__global__ void __launch_bounds__(GPU_THREADS) row_mean_kernel(float *mean, FactoredDirection a)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    const float *row = (const float *)a.row_R.data;
    double sum = 0;
    for (int64_t r = threadIdx.x; r < a.row_R.dim[0]; r += GPU_THREADS) sum += (double)row[r];
    sum = block_sum(part, sum);
    if (threadIdx.x == 0) *mean = (float)fmax(sum / (double)a.row_R.dim[0], a.epsilon);
}

/* g = g / max(sqrt(v), epsilon),   v = row column / max(mean of row, epsilon) */
struct FactoredMean { FactoredDirection a; const float *mean; };
struct FactoredRule : UpdateKind {
    enum { G, TENSORS, WRITTEN = TENSORS };
    static constexpr RuleParam PARAM = NO_PARAM;
    const float *row, *column;
    int64_t first, columns;
    float   factor, epsilon, mean;

    __device__ FactoredRule(const FactoredMean &f, const StepState &s, const double *)
        : row((const float *)f.a.row_R.data + f.a.row0),
          column((const float *)f.a.column_C.data + f.a.column0), first(f.a.first), columns(f.a.columns),
          factor((float)s.factor), epsilon((float)f.a.epsilon),
          mean(*f.mean) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t i) const
    {
        const int64_t r = quotient(first + i, columns), c = first + i - r * columns;
        return x[G] = x[G] * factor / fmaxf(sqrtf(row[r] / mean * column[c]), epsilon);
    }
};

extern "C" size_t cuda_factored_direction_workspace(const Queue *, const FactoredDirection *)
{
    return sizeof(float);
}

extern "C" void cuda_factored_direction(Queue *q, const FactoredDirection *a)
{
    float *mean = workspace_of<float>(q, 1);
    GPU_WANT(a->row_R, F32, a->row_R.dim[0]);
    GPU_WANT(a->column_C, F32, a->column_C.dim[0]);
    GPU_LAUNCH(row_mean_kernel, 1, GPU_THREADS, gpu_stream_of(q), mean, *a);
    update<FactoredRule>(q, FactoredMean{ *a, mean }, a->g_N.dim[0], { FLAT(a->g_N) }, tensor_none());
}

/* v = b v + (1 - b) g g,   g = g / max(sqrt(v), epsilon) */
struct VectorRule : UpdateKind {
    enum { G, V, TENSORS, WRITTEN = TENSORS };
    static constexpr RuleParam PARAM = NO_PARAM;
    static constexpr int CORRECTIONS = 1;
    float factor, epsilon, beta, rest;

    static __device__ double correction(const AdafactorDirection &a, const StepState &s, int)
    {
        return growing_rest(s, a.rate);
    }
    __device__ VectorRule(const AdafactorDirection &a, const StepState &s, const double *correct)
        : factor((float)s.factor), epsilon((float)a.epsilon), beta((float)(1 - correct[0])),
          rest((float)correct[0]) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float scaled = x[G] * factor;
        x[V] = beta * x[V] + rest * scaled * scaled;
        return x[G] = scaled / fmaxf(sqrtf(x[V]), epsilon);
    }
};

extern "C" void cuda_adafactor_direction(Queue *q, const AdafactorDirection *a)
{
    update<VectorRule>(q, *a, a->g_N.dim[0], { FLAT(a->g_N), FLAT(a->v_N) }, tensor_none());
}

/* ---- Adam-mini ---- */
/* m = beta1 m + (1 - beta1) g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon),   v = v[row / group] */
struct BlockRule : UpdateKind {
    enum { W, M, G, TENSORS, WRITTEN = G };
    static constexpr int CORRECTIONS = 2;
    const float *v;
    int64_t first, columns, row0, group;
    float   factor, beta1, rest1, epsilon, unbias, shrink, rate;

    static __device__ double correction(const BlockAdam &a, const StepState &s, int k)
    {
        return bias_correction(s, k ? a.beta2 : a.beta1);
    }
    __device__ BlockRule(const BlockAdam &a, const StepState &s, const double *correct)
        : v((const float *)a.v_B.data), first(a.first), columns(a.columns), row0(a.row0), group(a.group),
          factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)),
          epsilon((float)a.epsilon), unbias((float)correct[1]),
          shrink((float)(1 - STEP_LR(&s, a.decoupled) * (a.decay * s.weight_decay))),
          rate((float)(STEP_LR(&s, a.decoupled) * correct[0])) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t i) const
    {
        const int64_t block = quotient(row0 + quotient(first + i, columns), group);
        x[M] = beta1 * x[M] + rest1 * (x[G] * factor);
        return x[W] = x[W] * shrink - rate * x[M] / (sqrtf(v[block] * unbias) + epsilon);
    }
};

extern "C" void cuda_block_adam(Queue *q, const BlockAdam *a)
{
    GPU_WANT(a->v_B, F32, a->v_B.dim[0]);
    update<BlockRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->m_N), FLAT(a->g_N) }, a->param_N);
}
