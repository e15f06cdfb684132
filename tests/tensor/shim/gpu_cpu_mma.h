#ifndef SHIM_GPU_CPU_MMA_H
#define SHIM_GPU_CPU_MMA_H
/* What tensor/cuda/attention/mma.h has on a GPU: what the 32 lanes of a warp do together, with the layouts of PTX's
 * m16n8k16 and ldmatrix. Copies to shared memory are made as late as they may be, when they are waited for,
 * and what they will overwrite is NaN until then. */
void gpu_cpu_async_copy(void *to, const void *from, size_t bytes, bool there);
void gpu_cpu_async_commit(void);
void gpu_cpu_async_wait(int left);

#if GPU_WARP == 32
#define GPU_HAS_MMA 1

struct GpuCpuMma { float *d; const uint32_t *a; uint32_t b[2]; };

/* One of the two elements of a word; tensor/cuda/vector.h has first_of and second_of. */
template <typename T> float first_of(uint32_t pair);
template <typename T> float second_of(uint32_t pair);
template <typename T> float gpu_cpu_half(uint32_t word, int half) { return half ? second_of<T>(word) : first_of<T>(word); }

template <typename T> void gpu_cpu_mma_all(void *const argument[GPU_WARP])
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < GPU_WARP; lane++) {
        const GpuCpuMma *x = (const GpuCpuMma *)argument[lane];
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < 2; e++) a[g + i % 2 * 8][2 * t + e + i / 2 * 8] = gpu_cpu_half<T>(x->a[i], e);
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < 2; e++) b[2 * t + e + i * 8][g] = gpu_cpu_half<T>(x->b[i], e);
    }
    for (int lane = 0; lane < GPU_WARP; lane++) {
        float *d = ((const GpuCpuMma *)argument[lane])->d;
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++) d[i] += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
    }
}

#define mma_add(zero, d, a, b0, b1)                                                   \
    do {                                                                              \
        GpuCpuMma mma_ = { (d), (a), { (b0), (b1) } };                                \
        gpu_cpu_together(gpu_cpu_mma_all<decltype(zero)>, &mma_, __FILE__, __LINE__); \
    } while (0)

struct GpuCpuLoad { uint32_t *to; const void *row; };

template <bool TRANSPOSED> void gpu_cpu_load_all(void *const argument[GPU_WARP])
{
    for (int lane = 0; lane < GPU_WARP; lane++)
        for (int i = 0; i < 4; i++) {
            const GpuCpuLoad *x = (const GpuCpuLoad *)argument[lane];
            uint32_t bits[2];
            for (int e = 0; e < 2; e++) {
                const int one = lane / 4, two = lane % 4 * 2 + e;
                const void *row = ((const GpuCpuLoad *)argument[8 * i + (TRANSPOSED ? two : one)])->row;
                bits[e] = ((const uint16_t *)row)[TRANSPOSED ? one : two];
            }
            x->to[i] = bits[0] | bits[1] << 16;
        }
}

#define gpu_cpu_load(transposed, to, row)                                             \
    do {                                                                              \
        GpuCpuLoad load_ = { (to), (row) };                                           \
        gpu_cpu_together(gpu_cpu_load_all<transposed>, &load_, __FILE__, __LINE__);   \
    } while (0)
#define mma_load(to, row)            gpu_cpu_load(false, to, row)
#define mma_load_transposed(to, row) gpu_cpu_load(true, to, row)

template <int BYTES> void async_copy(void *to, const void *from, bool there)
{
    gpu_cpu_async_copy(to, from, BYTES, there);
}
static inline void async_commit(void) { gpu_cpu_async_commit(); }
template <int LEFT> void async_wait(void) { gpu_cpu_async_wait(LEFT); }
#endif
#endif
