#ifndef TENSOR_CUDA_GPU_H
#define TENSOR_CUDA_GPU_H
/* One kernel source for three compilers: nvcc (CUDA), hipcc (HIP) and, in tests, any C++ compiler with the
 * shim that runs kernels on the CPU (GPU_CPU). Kernels work with warps of 32 lanes (NVIDIA) and of 64
 * (AMD): thread blocks are a multiple of 64 threads, shuffles are by the whole warp, and there are no
 * ballot masks. */
#include <math.h>
#include <stdint.h>

#if defined(GPU_CPU)
#include "gpu_cpu.h"

#elif defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
typedef hipStream_t gpuStream_t;
#define gpuSetDevice         hipSetDevice
#define gpuGetDeviceCount    hipGetDeviceCount
#define gpuGetErrorString(e) hipGetErrorString((hipError_t)(e))
#define gpuGetLastError      hipGetLastError
#define gpuMalloc            hipMalloc
#define gpuFree              hipFree
#define gpuMemcpyAsync       hipMemcpyAsync
#define gpuMemcpyDefault     hipMemcpyDefault
#define gpuStreamCreate      hipStreamCreate
#define gpuStreamDestroy     hipStreamDestroy
#define gpuStreamSynchronize hipStreamSynchronize
#define GPU_WARP warpSize
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define gpu_shuffle_xor(value, mask) __shfl_xor((value), (mask))
#define GPU_LAUNCH(kernel, grid, block, stream, ...) \
    do {                                                                            \
        hipLaunchKernelGGL(kernel, (grid), dim3(block), 0, (stream), __VA_ARGS__);  \
        gpu_check(gpuGetLastError(), #kernel);                                      \
    } while (0)

#else
#include <cuda_runtime.h>
typedef cudaStream_t gpuStream_t;
#define gpuSetDevice         cudaSetDevice
#define gpuGetDeviceCount    cudaGetDeviceCount
#define gpuGetErrorString(e) cudaGetErrorString((cudaError_t)(e))
#define gpuGetLastError      cudaGetLastError
#define gpuMalloc            cudaMalloc
#define gpuFree              cudaFree
#define gpuMemcpyAsync       cudaMemcpyAsync
#define gpuMemcpyDefault     cudaMemcpyDefault
#define gpuStreamCreate      cudaStreamCreate
#define gpuStreamDestroy     cudaStreamDestroy
#define gpuStreamSynchronize cudaStreamSynchronize
#define GPU_WARP 32
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define gpu_shuffle_xor(value, mask) __shfl_xor_sync(0xffffffffu, (value), (mask))
#define GPU_LAUNCH(kernel, grid, block, stream, ...) \
    do {                                                          \
        (kernel)<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__);  \
        gpu_check(gpuGetLastError(), #kernel);                    \
    } while (0)
#endif

/* Stops the job (CHECK) when a call or a launch has failed; error is the runtime's error number, 0 for
 * success. */
void gpu_check(int error, const char *what);
#endif
