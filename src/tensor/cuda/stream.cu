/* Devices, streams and device memory (see stream.h), in calls that CUDA, HIP and the tests' shim share. */
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/stream.h"

void gpu_check(int error, const char *what)
{
    CHECK(error == 0, "%s failed on the GPU: %s", what, gpuGetErrorString(error));
}

extern "C" Status gpu_stream_open(GpuStream *s, int device, size_t workspace)
{
    int devices = 0, error = gpuGetDeviceCount(&devices);
    if (error)
        return fail(BAD_OPTION, "no GPU can be used on this machine: %s; use --device cpu",
                    gpuGetErrorString(error));
    if (device < 0 || device >= devices)
        return fail(BAD_OPTION, "GPU %d does not exist; this machine has %d, numbered from 0", device,
                    devices);
    gpu_check(gpuSetDevice(device), "gpuSetDevice");
    gpuStream_t stream;
    gpu_check(gpuStreamCreate(&stream), "gpuStreamCreate");
    *s = GpuStream{ (void *)stream, nullptr, workspace };
    if (gpuMalloc(&s->workspace, workspace) != 0) {
        (void)gpuGetLastError();                   /* clears the error, which the next launch would report */
        (void)gpuStreamDestroy(stream);
        return fail(NO_MEMORY, "GPU %d does not have %zu bytes left for a workspace", device, workspace);
    }
    return OK;
}

extern "C" void gpu_stream_close(GpuStream *s)
{
    gpu_stream_wait(s);
    gpu_free(s->workspace);
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
    gpu_check(gpuMalloc(&memory, bytes), "gpuMalloc");
    return memory;
}

extern "C" void gpu_free(void *memory)
{
    gpu_check(gpuFree(memory), "gpuFree");
}

extern "C" void gpu_copy(GpuStream *s, void *to, const void *from, size_t bytes)
{
    gpu_check(gpuMemcpyAsync(to, from, bytes, gpuMemcpyDefault, (gpuStream_t)s->stream), "gpuMemcpyAsync");
}
