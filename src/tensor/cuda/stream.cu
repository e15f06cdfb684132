/* Devices, streams and device memory (see stream.h), in calls that CUDA, HIP and the tests' shim share. */
#include <stdio.h>
#include <stdlib.h>
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/stream.h"

void gpu_check(int error, const char *what)
{
    CHECK(error == 0, "%s failed on the GPU: %s", what, gpuGetErrorString(error));
}

static void *memory_take(void *, size_t bytes)  { return gpu_alloc(bytes); }
static void  memory_give(void *, void *memory)  { gpu_free(memory); }
static void *pinned_take(void *, size_t bytes)  { return gpu_host_alloc(bytes); }
static void  pinned_give(void *, void *memory)  { gpu_host_free(memory); }

/* Devices are counted through again. Streams that share a connection to the device wait for each other,
 * which the kernels of NCCL would not survive (comm/nccl.h): there is one for each, up to 32; nor a kernel
 * that is loaded at its first launch, for which the driver may wait for all others. Both are set before the
 * first call of the runtime, unless the environment has them. */
static Status device_find(int *device)
{
    static const int set = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) |
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)set;
    int devices = 0, error = gpuGetDeviceCount(&devices);
    if (error)
        return fail(BAD_OPTION, "no GPU can be used on this machine: %s; use --device cpu",
                    gpuGetErrorString(error));
    if (devices < 1) return fail(BAD_OPTION, "this machine has no GPU; use --device cpu");
    *device %= devices;
    return OK;
}

extern "C" Status gpu_address(char *address, int bytes, int device)
{
    TRY(device_find(&device));
    gpu_check(gpuDeviceGetPCIBusId(address, bytes, device), "gpuDeviceGetPCIBusId");
    return OK;
}

extern "C" Status gpu_facts(DeviceFacts *facts, int device)
{
    gpuDeviceProperties properties;
    TRY(device_find(&device));
    gpu_check(gpuGetDeviceCount(&facts->devices), "gpuGetDeviceCount");
    gpu_check(gpuGetDeviceProperties(&properties, device), "gpuGetDeviceProperties");
    snprintf(facts->name, sizeof facts->name, "%s", properties.name);
    facts->bytes = properties.totalGlobalMem;
    return OK;
}

static Status stream_open(GpuStream *s, int device, bool urgent)
{
    int least, greatest;
    TRY(device_find(&device));
    gpu_check(gpuSetDevice(device), "gpuSetDevice");
    gpu_check(gpuDeviceGetStreamPriorityRange(&least, &greatest), "gpuDeviceGetStreamPriorityRange");
    gpuStream_t stream;
    gpu_check(gpuStreamCreateWithPriority(&stream, gpuStreamNonBlocking, urgent ? greatest : least),
              "gpuStreamCreate");
    *s = GpuStream{};
    s->stream = (void *)stream;
    s->device = device;
    snprintf(s->name, sizeof s->name, "GPU %d", device);
    s->memory.take  = memory_take;
    s->memory.give  = memory_give;
    s->memory.where = s->name;
    s->pinned.take  = pinned_take;
    s->pinned.give  = pinned_give;
    s->pinned.where = "pinned memory of the host";
    return OK;
}

extern "C" Status gpu_stream_open(GpuStream *s, int device)        { return stream_open(s, device, false); }
extern "C" Status gpu_stream_open_urgent(GpuStream *s, int device) { return stream_open(s, device, true); }

extern "C" void gpu_stream_close(GpuStream *s)
{
    for (void *event : s->event)
        if (event) gpu_check(gpuEventDestroy((gpuEvent_t)event), "gpuEventDestroy");
    gpu_check(gpuStreamDestroy((gpuStream_t)s->stream), "gpuStreamDestroy");
    *s = GpuStream{};
}

extern "C" void gpu_stream_wait(GpuStream *s)
{
    gpu_check(gpuStreamSynchronize((gpuStream_t)s->stream), "a kernel or a copy");
}

static bool passed(int error, const char *what)
{
    if (error == gpuErrorNotReady) return (void)gpuGetLastError(), false;
    gpu_check(error, what);
    return true;
}

extern "C" bool gpu_stream_passed(GpuStream *s)
{
    return passed(gpuStreamQuery((gpuStream_t)s->stream), "a kernel or a copy");
}

extern "C" void *gpu_event_open(void)
{
    gpuEvent_t event;
    gpu_check(gpuEventCreateUntimed(&event), "gpuEventCreate");
    return (void *)event;
}

extern "C" void gpu_event_close(void *event)
{
    gpu_check(gpuEventDestroy((gpuEvent_t)event), "gpuEventDestroy");
}

extern "C" void gpu_event_record(void *event, GpuStream *s)
{
    gpu_check(gpuEventRecord((gpuEvent_t)event, (gpuStream_t)s->stream), "gpuEventRecord");
}

extern "C" bool gpu_event_passed(void *event)
{
    return passed(gpuEventQuery((gpuEvent_t)event), "a kernel or a message");
}

extern "C" void gpu_event_wait(void *event)
{
    gpu_check(gpuEventSynchronize((gpuEvent_t)event), "a kernel or a message");
}

extern "C" void gpu_stream_follow(GpuStream *s, void *event)
{
    gpu_check(gpuStreamWaitEvent((gpuStream_t)s->stream, (gpuEvent_t)event, 0), "gpuStreamWaitEvent");
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

extern "C" void *gpu_stream_alloc(GpuStream *s, size_t bytes)
{
    void *memory = nullptr;
    if (gpuMallocAsync(&memory, bytes, (gpuStream_t)s->stream) == 0) return memory;
    (void)gpuGetLastError();
    return nullptr;
}

extern "C" void gpu_stream_free(GpuStream *s, void *memory)
{
    gpu_check(gpuFreeAsync(memory, (gpuStream_t)s->stream), "gpuFreeAsync");
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
