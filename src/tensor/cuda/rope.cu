/* Rotary position embedding on a GPU.
 * T rows   n heads   D channels of a head, of which the first 2 pairs turn
 * Angles are computed in double, because a position times a frequency in float would lose the digits that
 * matter at large positions. A block takes several rows, whose cosines and sines are computed once for all
 * heads. */
#include "tensor/cuda/vector.h"

enum { ROPE_ROWS = 16, MOST_PAIRS = 128 };

/* (x1, x2) rotated by the angle sign position frequency. N elements of a vector are of neighbouring pairs;
 * interleaved pairs are taken one by one. */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
rope_kernel(Tensor x_TnD, Tensor position_i, RopeRule rule, double sign)
{
    GPU_SHARED(float, cosine, ROPE_ROWS * MOST_PAIRS);
    GPU_SHARED(float, sine, ROPE_ROWS * MOST_PAIRS);
    const int64_t first = (int64_t)blockIdx.x * ROPE_ROWS, left = x_TnD.dim[0] - first;
    const int     rows = left < ROPE_ROWS ? (int)left : ROPE_ROWS, heads = (int)x_TnD.dim[1];
    const int     half = (int)rule.pairs;

    for (int k = threadIdx.x; k < rows * half; k += GPU_THREADS) {
        double s, c;
        const double frequency = sign * rule.frequency[k % half];
        sincos((double)*gpu_row<int32_t>(position_i, first + k / half) * frequency, &s, &c);
        cosine[k] = (float)(rule.scale * c), sine[k] = (float)(rule.scale * s);
    }
    __syncthreads();
    const int vectors = half / N, each = heads * vectors;
    for (int k = threadIdx.x; k < rows * each; k += GPU_THREADS) {
        const int row = k / each, head = k % each / vectors, i = k % vectors * N;
        T *x = gpu_row<T>(x_TnD, first + row) + head * x_TnD.stride[1] + (rule.interleaved ? 2 * i : i);
        T *pair = x + (rule.interleaved ? 1 : half);
        const float *c = cosine + row * half + i, *s = sine + row * half + i;
        float x1[N], x2[N], y1[N], y2[N];
        load(x1, x);
        load(x2, pair);
#pragma unroll
        for (int j = 0; j < N; j++) {
            y1[j] = x1[j] * c[j] - x2[j] * s[j];
            y2[j] = x1[j] * s[j] + x2[j] * c[j];
        }
        store(x, y1);
        store(pair, y2);
    }
}

static void rotate(Queue *q, const Tensor &x_TnD, const Tensor &position_i, const RopeRule &rule, double sign)
{
    const int64_t T = x_TnD.dim[0], n = x_TnD.dim[1], D = x_TnD.dim[2];
    GPU_WANT(x_TnD, x_TnD.dtype, T, n, D);
    GPU_WANT(position_i, I32, T);
    CHECK(2 * rule.pairs <= D, "a head of %lld channels has no %lld pairs", (long long)D, (long long)rule.pairs);
    CHECK(rule.pairs <= MOST_PAIRS, "RoPE of %lld channels of a head: the GPU rotates up to %d",
          (long long)(2 * rule.pairs), 2 * MOST_PAIRS);
    if (T * n == 0) return;
    by_vector(x_TnD.dtype, !rule.interleaved && rows_aligned(x_TnD, rule.pairs), [&](auto zero, auto width) {
        const auto rope = rope_kernel<decltype(zero), width>;
        GPU_LAUNCH(rope, blocks_for(T, ROPE_ROWS), GPU_THREADS, gpu_stream_of(q), x_TnD, position_i, rule, sign);
    });
}

extern "C" void cuda_rope_forward(Queue *q, const RopeForward *a)
{
    rotate(q, a->x_TnD, a->position_i, a->rule, +1);
}

extern "C" void cuda_rope_backward(Queue *q, const RopeBackward *a)
{
    rotate(q, a->dx_TnD, a->position_i, a->rule, -1);
}
