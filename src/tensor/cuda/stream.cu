/* Devices, streams and device memory (see stream.h), in calls that CUDA, HIP and the tests' shim share. */
#include <stdio.h>
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/stream.h"

void gpu_check(int error, const char *what)
{
    CHECK(error == 0, "%s failed on the GPU: %s", what, gpuGetErrorString(error));
}

static void *memory_take(void *, size_t bytes)  { return gpu_alloc(bytes); }
static void  memory_give(void *, void *memory)  { gpu_free(memory); }

extern "C" Status gpu_stream_open(GpuStream *s, int device)
{
    int devices = 0, error = gpuGetDeviceCount(&devices);
    if (error)
        return fail(BAD_OPTION, "no GPU can be used on this machine: %s; use --device cpu",
                    gpuGetErrorString(error));
    if (devices < 1) return fail(BAD_OPTION, "this machine has no GPU; use --device cpu");
    device %= devices;
    gpu_check(gpuSetDevice(device), "gpuSetDevice");
    gpuStream_t stream;
    gpu_check(gpuStreamCreate(&stream, gpuStreamNonBlocking), "gpuStreamCreate");
    *s = GpuStream{};
    s->stream = (void *)stream;
    s->device = device;
    snprintf(s->name, sizeof s->name, "GPU %d", device);
    s->memory.take  = memory_take;
    s->memory.give  = memory_give;
    s->memory.where = s->name;
    return OK;
}

extern "C" void gpu_stream_close(GpuStream *s)
{
    gpu_stream_wait(s);
    for (void *event : s->event)
        if (event) gpu_check(gpuEventDestroy((gpuEvent_t)event), "gpuEventDestroy");
    gpu_check(gpuStreamDestroy((gpuStream_t)s->stream), "gpuStreamDestroy");
    *s = GpuStream{};
}

extern "C" void gpu_stream_wait(GpuStream *s)
{
    gpu_check(gpuStreamSynchronize((gpuStream_t)s->stream), "a kernel or a copy");
}

extern "C" void *gpu_alloc(size_t bytes)
{
    void *memory = nullptr;
    if (gpuMalloc(&memory, bytes) == 0) return memory;
    (void)gpuGetLastError();                       /* clears the error, which the next launch would report */
    return nullptr;
}

extern "C" void gpu_free(void *memory)
{
    gpu_check(gpuFree(memory), "gpuFree");
}

extern "C" void *gpu_host_alloc(size_t bytes)
{
    void *memory = nullptr;
    if (gpuMallocHost(&memory, bytes) == 0) return memory;
    (void)gpuGetLastError();
    return nullptr;
}

extern "C" void gpu_host_free(void *memory)
{
    gpu_check(gpuFreeHost(memory), "gpuFreeHost");
}

extern "C" void gpu_copy(GpuStream *s, void *to, const void *from, size_t bytes)
{
    gpu_check(gpuMemcpyAsync(to, from, bytes, gpuMemcpyDefault, (gpuStream_t)s->stream), "gpuMemcpyAsync");
}
