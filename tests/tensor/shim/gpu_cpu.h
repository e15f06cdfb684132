#ifndef SHIM_GPU_CPU_H
#define SHIM_GPU_CPU_H
/* The CPU shim: what the build includes before src/tensor/cuda/gpu.h, under GPU_CPU. A kernel becomes a C++ function, a launch
 * runs its blocks one after another, and each thread of a block is a fiber that runs to its next barrier or
 * shuffle. Which block and warp run next, and lanes in which order, is set by a seed, so that a result that
 * hangs on the order changes with it. Blocks have one dim.
 *
 * Not modelled: memory order between blocks (and so spinning on another block), bank conflicts, speed. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <functional>
#include <mutex>
#include <tuple>

#ifndef GPU_WARP
#define GPU_WARP 32                            /* or 64, as AMD's */
#endif
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(16) uint4  { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8)  float2 { float x, y; };
struct alignas(8)  int2   { int x, y; };
static inline uint4  make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{ x, y, z, w }; }
static inline float2 make_float2(float x, float y) { return float2{ x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{ x, y, z, w }; }

/* What a kernel reads of its place. */
struct GpuCpuPlace { dim3 thread, block, threads, blocks; };
extern GpuCpuPlace gpu_cpu_place;
#define threadIdx gpu_cpu_place.thread
#define blockIdx  gpu_cpu_place.block
#define blockDim  gpu_cpu_place.threads
#define gridDim   gpu_cpu_place.blocks

/* Shared memory: the first thread of a block at the line takes it from the heap, full of NaN, the others find
 * it by the address of a static byte. No section or linker trick, so it works in templates and inlines,
 * and sanitizers see its ends. */
#define GPU_SHARED(type, name, count) \
    static char name##_key;           \
    type (&name)[count] = *(type (*)[count])gpu_cpu_shared(&name##_key, sizeof(type[count]))
void *gpu_cpu_shared(const void *key, size_t bytes);
/* The shared memory of the launch, also on the heap and full of NaN. */
#define GPU_DYNAMIC(type, name) type *name = (type *)gpu_cpu_dynamic()
void *gpu_cpu_dynamic(void);

void     gpu_cpu_barrier(const char *file, int line);
uint64_t gpu_cpu_exchange(uint64_t bits, unsigned lane, const char *file, int line);   /* what `lane` gave */
#define __syncthreads() gpu_cpu_barrier(__FILE__, __LINE__)
#define gpu_shuffle_xor(value, mask) \
    gpu_cpu_shuffle((value), threadIdx.x % GPU_WARP ^ (unsigned)(mask), __FILE__, __LINE__)

/* Something that all lanes of a warp do at once: when the whole warp is there, `all` is called with what each
 * lane has passed. Matrix products of a warp and the loads for them are such. */
typedef void GpuCpuTogether(void *const argument[GPU_WARP]);
void gpu_cpu_together(GpuCpuTogether *all, void *argument, const char *file, int line);

template <typename T> T gpu_cpu_shuffle(T value, unsigned lane, const char *file, int line)
{
    uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits, "a shuffle moves up to 8 bytes");
    memcpy(&bits, &value, sizeof value);
    bits = gpu_cpu_exchange(bits, lane, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

void gpu_cpu_run(dim3 grid, dim3 block, size_t bytes, void (*body)(void *), void *context);
template <typename Body> void gpu_cpu_launch(dim3 grid, dim3 block, size_t bytes, Body body)
{
    gpu_cpu_run(grid, block, bytes, [](void *context) { (*(Body *)context)(); }, &body);
}

/* ---- the runtime (runtime.cpp): what a stream is given runs later, and when is set by gpu_cpu_pace. The memory of a device can be
 * touched after gpu_cpu_reach(device) alone, which is where work of its streams runs (memory.cpp) ---- */
struct GpuCpuStream;
struct GpuCpuEvent;
typedef GpuCpuStream *gpuStream_t;
typedef GpuCpuEvent  *gpuEvent_t;
enum { gpuMemcpyDefault, gpuStreamNonBlocking = 1, gpuErrorNotReady = 600 };
void gpu_cpu_enqueue(gpuStream_t stream, std::function<void()> work);
/* The arguments are converted and copied at the call. */
template <typename... P, typename... A>
void gpu_cpu_put(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes, gpuStream_t stream, A... given)
{
    const std::tuple<std::decay_t<P>...> kept(static_cast<std::decay_t<P>>(given)...);
    gpu_cpu_enqueue(stream, [=] { gpu_cpu_launch(grid, block, bytes, [&] { std::apply(kernel, kept); }); });
}
#define GPU_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...)                           \
    do {                                                                                     \
        gpu_cpu_put((kernel), dim3(grid), dim3(block), (bytes), (stream), __VA_ARGS__);      \
        gpu_check(gpuGetLastError(), #kernel);                                               \
    } while (0)

enum { GPU_CPU_DEVICES = 16, GPU_CPU_NOWHERE = -1 };
void gpu_cpu_reach(int device);                        /* memory of this device alone can be touched; GPU_CPU_NOWHERE: of none */
int  gpu_cpu_device(void);                             /* of the calling thread */
/* Held by every call of the runtime, and while a kernel runs; a thread may hold it several times. */
struct GpuCpuAlone { GpuCpuAlone(); ~GpuCpuAlone(); };
bool gpu_cpu_within(void);                             /* this thread holds it */
bool gpu_cpu_is_device(const void *memory);            /* of gpuMalloc */
bool gpu_cpu_is_pinned(const void *memory);            /* of gpuMallocHost */
int  gpu_cpu_holder(const void *memory);               /* whose it is */
void gpu_cpu_release(void *memory);                    /* frees it without waiting */
void gpu_cpu_settle(int device);                       /* runs all that was put on its streams */
int gpuMalloc(void **memory, size_t bytes);
int gpuFree(void *memory);
int gpuMallocHost(void **memory, size_t bytes);
int gpuFreeHost(void *memory);
int gpuMemcpyAsync(void *to, const void *from, size_t bytes, int kind, gpuStream_t stream);
int gpuMemsetAsync(void *memory, int byte, size_t bytes, gpuStream_t stream);
int gpuEventCreate(gpuEvent_t *event);
int gpuEventCreateUntimed(gpuEvent_t *event);
int gpuEventDestroy(gpuEvent_t event);
int gpuEventRecord(gpuEvent_t event, gpuStream_t stream);
int gpuEventSynchronize(gpuEvent_t event);
int gpuEventQuery(gpuEvent_t event);
int gpuEventElapsedTime(float *milliseconds, gpuEvent_t from, gpuEvent_t to);
int gpuStreamCreateWithPriority(gpuStream_t *stream, unsigned flags, int priority);
int gpuDeviceGetStreamPriorityRange(int *least, int *greatest);
int gpuStreamDestroy(gpuStream_t stream);
int gpuStreamSynchronize(gpuStream_t stream);
int gpuStreamQuery(gpuStream_t stream);
int gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event, unsigned flags);
int gpuSetDevice(int device);
int gpuGetDeviceCount(int *devices);
struct gpuDeviceProperties { char name[256]; size_t totalGlobalMem; };
int gpuGetDeviceProperties(gpuDeviceProperties *of, int device);
int gpuDeviceGetPCIBusId(char *name, int bytes, int device);
int gpuMallocAsync(void **memory, size_t bytes, gpuStream_t stream);
int gpuFreeAsync(void *memory, gpuStream_t stream);
int gpuGetDevice(int *device);
int gpuGetLastError(void);
const char *gpuGetErrorString(int error);

#include "gpu_cpu_mma.h"
#endif
