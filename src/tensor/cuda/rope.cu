/* Rotary position embedding on a GPU.
 * T rows   n heads   D channels of a head: channels i and i + D/2 are a pair
 * Angles are computed in double, because a position times a frequency in float would lose the digits that
 * matter at large positions. A block takes several rows, so that each frequency is computed once for all of
 * them, and each cosine and sine once for all heads. */
#include "tensor/cuda/vector.h"

enum { ROPE_ROWS = 16, MOST_PAIRS = 128 };

/* (x1, x2) rotated by the angle sign position / base^(2i/D) */
template <typename T, int N> __global__ void __launch_bounds__(GPU_THREADS)
rope_kernel(Tensor x_TnD, Tensor position_i, double base, double sign)
{
    GPU_SHARED(double, frequency, MOST_PAIRS);
    GPU_SHARED(float, cosine, ROPE_ROWS * MOST_PAIRS);
    GPU_SHARED(float, sine, ROPE_ROWS * MOST_PAIRS);
    const int64_t first = (int64_t)blockIdx.x * ROPE_ROWS, left = x_TnD.dim[0] - first;
    const int     rows = left < ROPE_ROWS ? (int)left : ROPE_ROWS, heads = (int)x_TnD.dim[1];
    const int     half = (int)x_TnD.dim[2] / 2;

    for (int i = threadIdx.x; i < half; i += GPU_THREADS)
        frequency[i] = sign / pow(base, 2.0 * i / (2.0 * half));
    __syncthreads();
    for (int k = threadIdx.x; k < rows * half; k += GPU_THREADS) {
        double s, c;
        sincos((double)*gpu_row<int32_t>(position_i, first + k / half) * frequency[k % half], &s, &c);
        cosine[k] = (float)c, sine[k] = (float)s;
    }
    __syncthreads();
    const int vectors = half / N, each = heads * vectors;
    for (int k = threadIdx.x; k < rows * each; k += GPU_THREADS) {
        const int row = k / each, head = k % each / vectors, i = k % vectors * N;
        T *x = gpu_row<T>(x_TnD, first + row) + head * x_TnD.stride[1] + i;
        const float *c = cosine + row * half + i, *s = sine + row * half + i;
        float x1[N], x2[N], y1[N], y2[N];
        load(x1, x);
        load(x2, x + half);
#pragma unroll
        for (int j = 0; j < N; j++) {
            y1[j] = x1[j] * c[j] - x2[j] * s[j];
            y2[j] = x1[j] * s[j] + x2[j] * c[j];
        }
        store(x, y1);
        store(x + half, y2);
    }
}

static void rotate(Queue *q, const Tensor &x_TnD, const Tensor &position_i, double base, double sign)
{
    const int64_t T = x_TnD.dim[0], n = x_TnD.dim[1], D = x_TnD.dim[2];
    GPU_WANT(x_TnD, x_TnD.dtype, T, n, D);
    GPU_WANT(position_i, I32, T);
    CHECK(D % 2 == 0, "a head of %lld channels cannot be split into pairs", (long long)D);
    CHECK(D / 2 <= MOST_PAIRS, "a head of %lld channels: the GPU rotates up to %d", (long long)D, 2 * MOST_PAIRS);
    if (T * n == 0) return;
    by_vector(x_TnD.dtype, rows_aligned(x_TnD, D / 2), [&](auto zero, auto width) {
        const auto rope = rope_kernel<decltype(zero), width>;
        GPU_LAUNCH(rope, blocks_for(T, ROPE_ROWS), GPU_THREADS, gpu_stream_of(q), x_TnD, position_i, base, sign);
    });
}

extern "C" void cuda_rope_forward(Queue *q, const RopeForward *a)
{
    rotate(q, a->x_TnD, a->position_i, a->base, +1);
}

extern "C" void cuda_rope_backward(Queue *q, const RopeBackward *a)
{
    rotate(q, a->dx_TnD, a->position_i, a->base, -1);
}
