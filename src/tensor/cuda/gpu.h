#ifndef TENSOR_CUDA_GPU_H
#define TENSOR_CUDA_GPU_H
/* One kernel source for three compilers: nvcc (CUDA), hipcc (HIP) and, in tests, any C++ compiler with the
 * shim that runs kernels on the CPU (GPU_CPU). Kernels work with warps of 32 lanes (NVIDIA) and of 64
 * (AMD): thread blocks are a multiple of 64 threads, shuffles are by the whole warp, and there are no
 * ballot masks. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(GPU_CPU)
/* the build of the shim includes its header before this one */

#elif defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
typedef hipStream_t gpuStream_t;
typedef hipEvent_t gpuEvent_t;
#define gpuSetDevice         hipSetDevice
#define gpuGetDevice         hipGetDevice
#define gpuGetDeviceCount    hipGetDeviceCount
#define gpuDeviceGetPCIBusId hipDeviceGetPCIBusId
typedef hipDeviceProp_t gpuDeviceProperties;
#define gpuGetDeviceProperties hipGetDeviceProperties
#define gpuGetErrorString(e) hipGetErrorString((hipError_t)(e))
#define gpuGetLastError      hipGetLastError
#define gpuMalloc            hipMalloc
#define gpuFree              hipFree
#define gpuMallocAsync       hipMallocAsync
#define gpuFreeAsync         hipFreeAsync
#define gpuMallocHost(m, n)  hipHostMalloc((m), (n), 0)
#define gpuFreeHost          hipHostFree
#define gpuMemcpyAsync       hipMemcpyAsync
#define gpuMemcpyDefault     hipMemcpyDefault
#define gpuMemsetAsync       hipMemsetAsync
#define gpuEventCreate       hipEventCreate
#define gpuEventCreateUntimed(e) hipEventCreateWithFlags((e), hipEventDisableTiming)
#define gpuEventQuery        hipEventQuery
#define gpuErrorNotReady     hipErrorNotReady
#define gpuStreamNonBlocking hipStreamNonBlocking
#define gpuEventDestroy      hipEventDestroy
#define gpuEventRecord       hipEventRecord
#define gpuEventSynchronize  hipEventSynchronize
#define gpuEventElapsedTime  hipEventElapsedTime
#define gpuStreamCreateWithPriority hipStreamCreateWithPriority
#define gpuDeviceGetStreamPriorityRange hipDeviceGetStreamPriorityRange
#define gpuStreamDestroy     hipStreamDestroy
#define gpuStreamSynchronize hipStreamSynchronize
#define gpuStreamQuery       hipStreamQuery
#define gpuStreamWaitEvent   hipStreamWaitEvent
#define GPU_WARP warpSize
#define GPU_HOST_WARP 64               /* where the host must know it: the wider of the two that AMD has */
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define gpu_shuffle_xor(value, mask) __shfl_xor((value), (mask))
#define GPU_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) \
    do {                                                                                  \
        hipLaunchKernelGGL(kernel, (grid), dim3(block), (bytes), (stream), __VA_ARGS__);  \
        gpu_check(gpuGetLastError(), #kernel);                                            \
    } while (0)

#else
#include <cuda_runtime.h>
typedef cudaStream_t gpuStream_t;
typedef cudaEvent_t gpuEvent_t;
#define gpuSetDevice         cudaSetDevice
#define gpuGetDevice         cudaGetDevice
#define gpuGetDeviceCount    cudaGetDeviceCount
#define gpuDeviceGetPCIBusId cudaDeviceGetPCIBusId
typedef cudaDeviceProp gpuDeviceProperties;
#define gpuGetDeviceProperties cudaGetDeviceProperties
#define gpuGetErrorString(e) cudaGetErrorString((cudaError_t)(e))
#define gpuGetLastError      cudaGetLastError
#define gpuMalloc            cudaMalloc
#define gpuFree              cudaFree
#define gpuMallocAsync       cudaMallocAsync
#define gpuFreeAsync         cudaFreeAsync
#define gpuMallocHost        cudaMallocHost
#define gpuFreeHost          cudaFreeHost
#define gpuMemcpyAsync       cudaMemcpyAsync
#define gpuMemcpyDefault     cudaMemcpyDefault
#define gpuMemsetAsync       cudaMemsetAsync
#define gpuEventCreate       cudaEventCreate
#define gpuEventCreateUntimed(e) cudaEventCreateWithFlags((e), cudaEventDisableTiming)
#define gpuEventQuery        cudaEventQuery
#define gpuErrorNotReady     cudaErrorNotReady
#define gpuStreamNonBlocking cudaStreamNonBlocking
#define gpuEventDestroy      cudaEventDestroy
#define gpuEventRecord       cudaEventRecord
#define gpuEventSynchronize  cudaEventSynchronize
#define gpuEventElapsedTime  cudaEventElapsedTime
#define gpuStreamCreateWithPriority cudaStreamCreateWithPriority
#define gpuDeviceGetStreamPriorityRange cudaDeviceGetStreamPriorityRange
#define gpuStreamDestroy     cudaStreamDestroy
#define gpuStreamSynchronize cudaStreamSynchronize
#define gpuStreamQuery       cudaStreamQuery
#define gpuStreamWaitEvent   cudaStreamWaitEvent
#define GPU_WARP 32
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define gpu_shuffle_xor(value, mask) __shfl_xor_sync(0xffffffffu, (value), (mask))
#define GPU_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) \
    do {                                                                                                   \
        if ((bytes) > 48 * 1024)           /* more than that must be asked for */                         \
            gpu_check(cudaFuncSetAttribute((kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,          \
                                           (int)(bytes)), #kernel);                                        \
        (kernel)<<<(grid), (block), (bytes), (stream)>>>(__VA_ARGS__);                                     \
        gpu_check(gpuGetLastError(), #kernel);                                                             \
    } while (0)
#endif
#define GPU_LAUNCH(kernel, grid, block, stream, ...) \
    GPU_LAUNCH_SHARED(kernel, grid, block, 0, stream, __VA_ARGS__)

/* What a block has besides its GPU_SHARED arrays: the bytes that GPU_LAUNCH_SHARED gives it. */
#if !defined(GPU_HOST_WARP)
#define GPU_HOST_WARP GPU_WARP
#endif
#if !defined(GPU_CPU)
#define GPU_DYNAMIC(type, name)                            \
    extern __shared__ __align__(16) char gpu_dynamic[];    \
    type *name = (type *)gpu_dynamic
#endif

/* ---- device: bits of floats, the fast exponential ---- */
__device__ __forceinline__ float gpu_float_of(uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

/* x rounded to bf16, to the nearest, ties to even; a NaN stays one */
__device__ __forceinline__ uint16_t gpu_bf16_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* 2^x in one instruction, to 2 units of the last place of a float */
__device__ __forceinline__ float gpu_exp2(float x)
{
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* e^x, relative error up to 1e-7 (1 + |x|) */
__device__ __forceinline__ float gpu_fast_exp(float x)
{
    return gpu_exp2(x * 1.4426950409f);
}

/* Stops the job (CHECK) when a call or a launch has failed on the current device; error is the runtime's
 * error number, 0 for success. */
void gpu_check(int error, const char *what);
#endif
