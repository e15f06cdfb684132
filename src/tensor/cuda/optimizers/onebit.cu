/* 1-bit LAMB on a GPU (its step of the weights is in lamb.cu), and the signs that workers send.
 * N elements of a flat parameter block */
#include "tensor/cuda/update.h"

/* ---- before the freeze ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,   fresh = v
 * g = m / (sqrt(v) + epsilon) + decay w */
struct WarmRule : UpdateKind {
    enum { G, M, V, FRESH, W, TENSORS, WRITTEN = W };
    static constexpr RuleParam PARAM = NO_PARAM;
    float factor, beta1, rest1, beta2, rest2, epsilon, decay;

    __device__ WarmRule(const OnebitDirection &a, const StepState &s, const double *)
        : factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)), epsilon((float)a.epsilon), decay((float)(a.decay * s.weight_decay)) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float scaled = x[G] * factor;
        x[M] = beta1 * x[M] + rest1 * scaled;
        x[V] = beta2 * x[V] + rest2 * scaled * scaled;
        x[FRESH] = x[V];
        return x[G] = x[M] / (sqrtf(x[V]) + epsilon) + decay * x[W];
    }
};

extern "C" void cuda_onebit_direction(Queue *q, const OnebitDirection *a)
{
    update<WarmRule>(q, *a, a->g_N.dim[0],
                     { FLAT(a->g_N), FLAT(a->m_N), FLAT(a->v_N), FLAT(a->fresh_N), FLAT(a->w_N) }, tensor_none());
}

/* ---- after it ---- */
/* e += scale (beta1 m + (1 - beta1) workers g) */
struct MomentumRule : UpdateKind {
    enum { E, M, G, TENSORS, WRITTEN = M };
    static constexpr RuleParam PARAM = NO_PARAM;
    float of_m, of_g;

    __device__ MomentumRule(const OnebitMomentum &a, const StepState &s, const double *)
    {
        const double scale = (double)((const float *)a.numbers_3.data)[ONEBIT_SCALE];
        of_m = (float)(scale * a.beta1);
        of_g = (float)(scale * (1 - a.beta1) * a.workers * s.factor);
    }
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        return x[E] += of_m * x[M] + of_g * x[G];
    }
};

extern "C" void cuda_onebit_momentum(Queue *q, const OnebitMomentum *a)
{
    GPU_WANT(a->numbers_3, F32, ONEBIT_NUMBERS);
    update<MomentumRule>(q, *a, a->e_N.dim[0], { FLAT(a->e_N), FLAT(a->m_N), FLAT(a->g_N) }, tensor_none());
}

/* m' = +-sqrt(squares / count) / scale by bits, or e / scale and e = 0;   0 where v is 0
 * g = (m' - beta1 m) / (1 - beta1),   fresh = beta2 fresh + (1 - beta2) g g,   m = m'
 * u = m / (sqrt(v) + epsilon) + decay w, in the place of g */
struct CompressedRule : UpdateKind {
    enum { G, M, FRESH, E, V, W, TENSORS, WRITTEN = V };
    static constexpr RuleParam PARAM = NO_PARAM;
    const uint8_t *bits;                           /* NULL: none */
    int64_t first;
    float   size, unscale, beta1, per_rest1, beta2, rest2, epsilon, decay;

    __device__ CompressedRule(const OnebitCompressed &a, const StepState &s, const double *)
        : bits(present(a.bits_B) ? (const uint8_t *)a.bits_B.data : nullptr), first(a.first), size(0),
          beta1((float)a.beta1), per_rest1((float)(1 / (1 - a.beta1))), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)), epsilon((float)a.epsilon), decay((float)(a.decay * s.weight_decay))
    {
        const double per_scale = onebit_unscale((double)((const float *)a.numbers_3.data)[ONEBIT_SCALE]);
        if (bits) size = (float)(sqrt((double)*(const float *)a.squares_1.data / a.count) * per_scale);
        unscale = (float)per_scale;
    }
    __device__ float element(float (&x)[TENSORS + 1], int64_t i) const
    {
        float next = x[E] * unscale;
        if (bits) next = bits[(first + i) / 8] >> (first + i) % 8 & 1 ? size : -size;
        else      x[E] = 0;
        if (x[V] == 0) next = 0;
        const float mean = (next - beta1 * x[M]) * per_rest1;
        x[FRESH] = beta2 * x[FRESH] + rest2 * mean * mean;
        x[M] = next;
        return x[G] = next / (sqrtf(x[V]) + epsilon) + decay * x[W];
    }
};

extern "C" void cuda_onebit_compressed(Queue *q, const OnebitCompressed *a)
{
    const int64_t N = a->g_N.dim[0];
    GPU_WANT(a->numbers_3, F32, ONEBIT_NUMBERS);
    if (tensor_present(a->bits_B)) {
        GPU_WANT(a->squares_1, F32, 1);
        GPU_WANT(a->bits_B, U8, a->bits_B.dim[0]);
        CHECK(8 * a->bits_B.dim[0] >= a->first + N, "%lld bytes of signs for %lld elements",
              (long long)a->bits_B.dim[0], (long long)(a->first + N));
    }
    update<CompressedRule>(q, *a, N, { FLAT(a->g_N), FLAT(a->m_N), FLAT(a->fresh_N), FLAT(a->e_N),
                                       FLAT(a->v_N), FLAT(a->w_N) }, tensor_none());
}

/* ---- lengths ---- */
/* Of blocks the sums of squares of d = m / (sqrt(v) + epsilon), and the largest
 * (sqrt(v) + epsilon) / (sqrt(fresh) + epsilon); then those of all, by one thread block. */
constexpr int64_t LENGTH_BLOCK = 4096;
struct Lengths { double *sum; float *most; };

__global__ void __launch_bounds__(GPU_THREADS) length_blocks_kernel(Lengths out, OnebitLengths a)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    GPU_SHARED(float, part_most, GPU_MAX_WARPS);
    const int64_t N = a.m_N.dim[0], first = (int64_t)blockIdx.x * LENGTH_BLOCK;
    const int64_t end = first + LENGTH_BLOCK < N ? first + LENGTH_BLOCK : N;
    const float *m = (const float *)a.m_N.data, *v = (const float *)a.v_N.data;
    const float *fresh = (const float *)a.fresh_N.data, epsilon = (float)a.epsilon;
    double sum = 0;
    float  most = 0;
    for (int64_t i = first + threadIdx.x; i < end; i += GPU_THREADS) {
        const float divisor = sqrtf(v[i]) + epsilon, length = m[i] / divisor;
        sum += (double)length * (double)length;
        most = larger(divisor / (sqrtf(fresh[i]) + epsilon), most);
    }
    sum  = block_sum(part, sum);
    most = block_max(part_most, most);
    if (threadIdx.x == 0) out.sum[blockIdx.x] = sum, out.most[blockIdx.x] = most;
}

__global__ void __launch_bounds__(GPU_THREADS)
length_join_kernel(OnebitLengths a, Lengths of_block, int64_t blocks)
{
    GPU_SHARED(double, part, GPU_MAX_WARPS);
    GPU_SHARED(float, part_most, GPU_MAX_WARPS);
    double sum = 0;
    float  most = 0;
    for (int64_t b = threadIdx.x; b < blocks; b += GPU_THREADS) {
        sum += of_block.sum[b];
        most = larger(of_block.most[b], most);
    }
    sum  = block_sum(part, sum);
    most = block_max(part_most, most);
    if (threadIdx.x != 0) return;
    float *all = (float *)a.most_1.data;
    *(double *)a.out_1.data += sum;
    *all = larger(most, *all);
}

extern "C" size_t cuda_onebit_lengths_workspace(const Queue *, const OnebitLengths *a)
{
    return (size_t)((a->m_N.dim[0] + LENGTH_BLOCK - 1) / LENGTH_BLOCK) * 2 * sizeof(double);
}

extern "C" void cuda_onebit_lengths(Queue *q, const OnebitLengths *a)
{
    const int64_t N = a->m_N.dim[0];
    GPU_WANT(a->out_1, F64, 1);
    GPU_WANT(a->most_1, F32, 1);
    GPU_WANT(a->m_N, F32, N);
    GPU_WANT(a->v_N, F32, N);
    GPU_WANT(a->fresh_N, F32, N);
    if (N == 0) return;
    const unsigned blocks = blocks_for(N, LENGTH_BLOCK);
    double *sum = workspace_of<double>(q, 2 * (int64_t)blocks);
    const Lengths lengths = { sum, (float *)(sum + blocks) };
    GPU_LAUNCH(length_blocks_kernel, blocks, GPU_THREADS, gpu_stream_of(q), lengths, *a);
    GPU_LAUNCH(length_join_kernel, 1, GPU_THREADS, gpu_stream_of(q), *a, lengths, (int64_t)blocks);
}

/* ---- a few numbers, by one thread ---- */
__global__ void numbers_kernel(OnebitNumbers a, const StepState *step_state)
{
    if (threadIdx.x != 0 || step_state->skip) return;
    const float *of_u = (const float *)a.squares_2.data;
    const double squares[2] = { (double)of_u[0], (double)of_u[1] };
    float *number = (float *)a.numbers_3.data, *mean = number + ONEBIT_MEAN, *factor = number + ONEBIT_FACTOR;
    if (present(a.most_1))
        *factor = (float)onebit_factor(&a.bounds, (double)*factor, squares,
                                       (double)*(const float *)a.most_1.data,
                                       a.decay * step_state->weight_decay > 0);
    else
        *mean = (float)onebit_mean(&a.bounds, (double)*mean, onebit_ratio(&a.bounds, squares));
}

extern "C" void cuda_onebit_numbers(Queue *q, const OnebitNumbers *a)
{
    GPU_WANT(a->numbers_3, F32, ONEBIT_NUMBERS);
    GPU_WANT(a->squares_2, F32, 2);
    if (tensor_present(a->most_1)) GPU_WANT(a->most_1, F32, 1);
    GPU_LAUNCH(numbers_kernel, 1, 64, gpu_stream_of(q), *a, (const StepState *)q->step_state);
}

__global__ void scale_kernel(OnebitScale a)
{
    if (threadIdx.x != 0) return;
    const double mean = (double)*(const float *)a.total_1.data / a.tensors;
    const double size = sqrt((double)*(const float *)a.squares_1.data / a.count);
    ((float *)a.numbers_3.data)[ONEBIT_SCALE] = (float)onebit_scale_of(mean, size);
}

extern "C" void cuda_onebit_scale(Queue *q, const OnebitScale *a)
{
    GPU_WANT(a->numbers_3, F32, ONEBIT_NUMBERS);
    GPU_WANT(a->squares_1, F32, 1);
    GPU_WANT(a->total_1, F32, 1);
    GPU_LAUNCH(scale_kernel, 1, 64, gpu_stream_of(q), *a);
}

__global__ void root_mean_kernel(AddRootMean a)
{
    if (threadIdx.x != 0) return;
    *(double *)a.total_1.data += sqrt((double)*(const float *)a.squares_1.data / a.count);
}

extern "C" void cuda_add_root_mean(Queue *q, const AddRootMean *a)
{
    GPU_WANT(a->total_1, F64, 1);
    GPU_WANT(a->squares_1, F32, 1);
    GPU_LAUNCH(root_mean_kernel, 1, 64, gpu_stream_of(q), *a);
}

__global__ void add_scaled_kernel(AddScaled a)
{
    if (threadIdx.x != 0) return;
    *(double *)a.y_1.data += a.factor * *(const double *)a.x_1.data;
}

extern "C" void cuda_add_scaled(Queue *q, const AddScaled *a)
{
    GPU_WANT(a->y_1, F64, 1);
    GPU_WANT(a->x_1, F64, 1);
    GPU_LAUNCH(add_scaled_kernel, 1, 64, gpu_stream_of(q), *a);
}

/* ---- signs ---- */
/* A thread for each byte of eight signs. */
__global__ void __launch_bounds__(GPU_THREADS) sign_pack_kernel(SignPack a, const StepState *step_state)
{
    const int64_t N = a.x_N.dim[0], B = a.bits_B.dim[0];
    const int64_t b = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (b >= B) return;
    const float size = step_state->skip ? 0 : (float)sqrt((double)*(const float *)a.squares_1.data / a.count);
    float *x = (float *)a.x_N.data;
    unsigned bits = 0;
    for (int k = 0; k < 8 && 8 * b + k < N; k++) {
        float *one = x + 8 * b + k;
        const bool up = *one >= 0;
        bits |= (unsigned)up << k;
        *one -= up ? size : -size;
    }
    ((uint8_t *)a.bits_B.data)[b] = (uint8_t)bits;
}

extern "C" void cuda_sign_pack(Queue *q, const SignPack *a)
{
    const int64_t N = a->x_N.dim[0], B = a->bits_B.dim[0];
    GPU_WANT(a->bits_B, U8, B);
    GPU_WANT(a->x_N, F32, N);
    GPU_WANT(a->squares_1, F32, 1);
    CHECK(8 * B >= N, "%lld bytes hold no signs of %lld elements", (long long)B, (long long)N);
    if (B > 0)
        GPU_LAUNCH(sign_pack_kernel, blocks_for(B, GPU_THREADS), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
}

__global__ void __launch_bounds__(GPU_THREADS) sign_mean_kernel(SignMean a, const StepState *step_state)
{
    const int64_t N = a.y_N.dim[0], P = a.bits_PB.dim[0];
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= N || step_state->skip) return;
    double sum = 0;
    for (int64_t p = 0; p < P; p++) {
        const double size = sqrt((double)((const float *)a.squares_P.data)[p] / a.count);
        sum += gpu_row<uint8_t>(a.bits_PB, p)[i / 8] >> i % 8 & 1 ? size : -size;
    }
    ((float *)a.y_N.data)[i] += (float)(sum / (double)P);
}

extern "C" void cuda_sign_mean(Queue *q, const SignMean *a)
{
    const int64_t N = a->y_N.dim[0], P = a->bits_PB.dim[0];
    GPU_WANT(a->y_N, F32, N);
    GPU_WANT(a->bits_PB, U8, P, a->bits_PB.dim[1]);
    GPU_WANT(a->squares_P, F32, P);
    CHECK(8 * a->bits_PB.dim[1] >= N, "rows of %lld bytes hold no signs of %lld elements",
          (long long)a->bits_PB.dim[1], (long long)N);
    if (N > 0)
        GPU_LAUNCH(sign_mean_kernel, blocks_for(N, GPU_THREADS), GPU_THREADS, gpu_stream_of(q), *a,
                   (const StepState *)q->step_state);
}
