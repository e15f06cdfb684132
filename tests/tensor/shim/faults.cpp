/* Faulty kernels, one a run: faults <name>. The shim, or AddressSanitizer, must say what is wrong, in the
 * words that tests.cmake expects. */
#include "tensor/cuda/gpu.h"
#include "order.h"
#include <stdio.h>
#include <string.h>

enum { THREADS = 128 };

static void different_barriers(float *out)
{
    if (threadIdx.x < 64) __syncthreads();
    else                                   /* on a line of its own */
        __syncthreads();
    out[threadIdx.x] = 1;
}

static void early_return(float *out)
{
    if (threadIdx.x >= 100) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

static void different_shuffles(float *out)
{
    float v = 1;
    if (threadIdx.x % GPU_WARP < 8) v += gpu_shuffle_xor(v, 1);
    else                                   /* on a line of its own */
        v += gpu_shuffle_xor(v, 1);
    out[threadIdx.x] = v;
}

static void missing_lanes(float *out)
{
    float v = 1;
    if (threadIdx.x % GPU_WARP < 8) v += gpu_shuffle_xor(v, 1);
    out[threadIdx.x] = v;
}

static void barrier_in_a_warp(float *out)
{
    if (threadIdx.x % 2) __syncthreads();
    else out[threadIdx.x] = gpu_shuffle_xor(1.0f, 2);
}

static void lane_outside(float *out)
{
    out[threadIdx.x] = gpu_shuffle_xor(1.0f, GPU_WARP);
}

static void unset_shared(float *out)
{
    GPU_SHARED(float, half, THREADS);
    if (threadIdx.x < THREADS / 2) half[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = half[threadIdx.x];
}

static void spin(float *out)
{
    GPU_SHARED(volatile int, flag, 1);
    if (threadIdx.x == 0) flag[0] = 0;
    __syncthreads();
    while (threadIdx.x == 0 && !flag[0]) {}         /* waits for a thread that waits for it */
    __syncthreads();
    out[threadIdx.x] = 1;
}

static void beyond_global(float *out)
{
    out[threadIdx.x + 1] = 1;
}

/* The host writes afterwards. */
static void host_access(float *out)
{
    out[threadIdx.x] = 1;
}

static void beyond_shared(float *out)
{
    GPU_SHARED(float, all, THREADS);
    float *cell = all;                              /* past UBSan, which knows the array's bounds */
    cell[threadIdx.x + 1] = 1;
    __syncthreads();
    out[threadIdx.x] = cell[threadIdx.x];
}

#define FAULT(name) { #name, name }
static const struct { const char *name; void (*kernel)(float *); } FAULTS[] = {
    FAULT(different_barriers), FAULT(early_return), FAULT(different_shuffles), FAULT(missing_lanes),
    FAULT(barrier_in_a_warp),  FAULT(lane_outside), FAULT(unset_shared),       FAULT(spin),
    FAULT(beyond_global),      FAULT(beyond_shared),      FAULT(host_access),
};

int main(int words, char **word)
{
    void *memory;
    gpu_cpu_patience(1);
    for (const auto &fault : FAULTS) {
        if (words != 2 || strcmp(word[1], fault.name) != 0) continue;
        if (gpuMalloc(&memory, THREADS * sizeof(float)) != 0) return 3;
        float *out = (float *)memory, last;
        GPU_LAUNCH(fault.kernel, 1, THREADS, nullptr, out);
        gpuMemcpyAsync(&last, out + THREADS - 1, sizeof last, gpuMemcpyDefault, nullptr);
        gpuStreamSynchronize(nullptr);
        if (strcmp(fault.name, "host_access") == 0) out[0] = 1;
        puts(isnan(last) ? "unset shared memory came out as NaN" : "not noticed");
        gpuFree(memory);
        return 0;
    }
    puts("usage: faults NAME");
    return 2;
}
