/* Events around a product, and the comparison of two results (timing.h). */
#include "tensor/cuda/timing.h"
#include "tensor/cuda/block.h"
#include "tensor/cuda/random.h"
#include "tensor/cuda/vector.h"

extern "C" void timing_begin(GpuStream *s)
{
    for (int i = 0; i < 2; i++)
        if (!s->event[i]) gpu_check(gpuEventCreate((gpuEvent_t *)&s->event[i]), "gpuEventCreate");
    gpu_check(gpuEventRecord((gpuEvent_t)s->event[0], (gpuStream_t)s->stream), "gpuEventRecord");
}

extern "C" double timing_end(GpuStream *s)
{
    float milliseconds = 0;
    gpu_check(gpuEventRecord((gpuEvent_t)s->event[1], (gpuStream_t)s->stream), "gpuEventRecord");
    gpu_check(gpuEventSynchronize((gpuEvent_t)s->event[1]), "a matrix product");
    gpu_check(gpuEventElapsedTime(&milliseconds, (gpuEvent_t)s->event[0], (gpuEvent_t)s->event[1]),
              "gpuEventElapsedTime");
    return milliseconds;
}

extern "C" void timing_fill(GpuStream *s, void *memory, size_t bytes)
{
    gpu_check(gpuMemsetAsync(memory, 0, bytes, (gpuStream_t)s->stream), "gpuMemsetAsync");
}

/* Thread blocks whose threads stride over n items: no more than have work. */
static unsigned striding_blocks(int64_t n)
{
    const int64_t most = 1024, all = (n + GPU_THREADS - 1) / GPU_THREADS;
    return (unsigned)(all < 1 ? 1 : all < most ? all : most);
}

template <typename T>
__global__ void __launch_bounds__(GPU_THREADS)
operand_kernel(TimingMatrix x, bool negated, float scale, uint64_t key)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < x.rows * x.columns; i += step) {
        const int64_t r = i / x.columns, c = i % x.columns;
        const int64_t k = x.sums_rows ? r : c, half = (x.sums_rows ? x.rows : x.columns) / 2;
        float value = 0;
        if (k < 2 * half) {
            const uint32_t bits = gpu_random_bits(key, (uint64_t)((x.sums_rows ? c : r) * half + k % half));
            value = (float)(128 + (bits & 127)) / 128 * (float)(1u << (bits >> 7 & 15)) / 256 * scale;
            if ((bits >> 31 != 0) != (negated && k >= half)) value = -value;
        }
        store((T *)x.data + r * x.stride + c, value);
    }
}

extern "C" void timing_operand(GpuStream *s, TimingMatrix x, bool negated, float scale, uint64_t key)
{
    const unsigned blocks = striding_blocks(x.rows * x.columns);
    by_type(x.dtype, [&](auto zero) {
        GPU_LAUNCH(operand_kernel<decltype(zero)>, blocks, GPU_THREADS, (gpuStream_t)s->stream, x, negated, scale, key);
    });
}

/* Every thread that finds a difference writes the same number. */
__global__ void __launch_bounds__(GPU_THREADS)
differ_kernel(const unsigned char *a, const unsigned char *b, size_t bytes, int *differ)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step)
        if (a[i] != b[i]) *differ = 1;
}

extern "C" bool timing_same(GpuStream *s, const void *a, const void *b, size_t bytes, void *workspace)
{
    int differ = 0;
    timing_fill(s, workspace, sizeof differ);
    GPU_LAUNCH(differ_kernel, striding_blocks((int64_t)bytes), GPU_THREADS, (gpuStream_t)s->stream,
               (const unsigned char *)a, (const unsigned char *)b, bytes, (int *)workspace);
    gpu_copy(s, &differ, workspace, sizeof differ);
    gpu_stream_wait(s);
    return !differ;
}
