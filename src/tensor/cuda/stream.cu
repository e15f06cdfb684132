/* Devices, streams and device memory (see stream.h), in calls that CUDA, HIP and the tests' shim share. */
#include <stdio.h>
#include <stdlib.h>
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/stream.h"

/* What a person can do about an error. Its number is the same in CUDA and in HIP, where HIP has it. */
static const char *cure(int error)
{
    switch (error) {
    case 2:
        return "nvidia-smi shows which programs hold its memory; smaller micro-batches, "
               "--recompute-granularity full or more ranks need less";
    case 35:
        return "update the driver, which is older than the CUDA that this program was built with";
    case 46:
        return "nvidia-smi shows which program has it alone; nvidia-smi -c DEFAULT lets several use it";
    case 100:
        return "nvidia-smi lists the GPUs of a machine, and CUDA_VISIBLE_DEVICES may hide them";
    case 98: case 209: case 701:
        return "build with -DJOTUN_CUDA_ARCHITECTURES of its compute capability, which nvidia-smi "
               "--query-gpu=compute_cap --format=csv prints";
    case 214:
        return "its memory is damaged: nvidia-smi -q -d ECC counts the errors; reset it by nvidia-smi -r, or "
               "take another GPU";
    case 702:
        return "the driver ends long kernels on a GPU that has a display; take one without";
    case 802:
        return "GPUs that NVSwitch joins need the service nvidia-fabricmanager";
    case 803:
        return "the driver and its libraries have different versions; start the machine again after an "
               "update of the driver";
    default:
        return "the cause may be an earlier kernel, which CUDA_LAUNCH_BLOCKING=1 names (of several "
               "ranks with --device-transport staged); dmesg (lines with "
               "Xid) and nvidia-smi tell whether the GPU itself has failed, and then another one is needed";
    }
}

static void check_on(int device, int error, const char *what)
{
    CHECK(error == 0, "%s failed on GPU %d: %s; %s", what, device, gpuGetErrorString(error), cure(error));
}

void gpu_check(int error, const char *what)
{
    int device = 0;
    if (error) (void)gpuGetDevice(&device);
    check_on(device, error, what);
}

extern "C" void gpu_check_earlier(const char *what) { gpu_check(gpuGetLastError(), what); }

/* Before a run begins a failure is a Status, on which the ranks agree. */
static Status check_at_start(int device, int error, const char *what)
{
    if (error == 0) return OK;
    return fail(error == 2 ? NO_MEMORY : BAD_OPTION, "GPU %d cannot be used: %s: %s; %s", device, what,
                gpuGetErrorString(error), cure(error));
}

static void *memory_take(void *, size_t bytes)  { return gpu_alloc(bytes); }
static void  memory_give(void *, void *memory)  { gpu_free(memory); }
static void *pinned_take(void *, size_t bytes)  { return gpu_host_alloc(bytes); }
static void  pinned_give(void *, void *memory)  { gpu_host_free(memory); }

/* Numbers are modulo the number of devices. Streams that share a connection to the device wait for each
 * other, which the kernels of NCCL would not survive (comm/nccl.h): there is one for each, up to 32; nor a
 * kernel that is loaded at its first launch, for which the driver may wait for all others. Both are set
 * before the first call of the runtime, unless the environment has them. */
static Status device_find(int *device)
{
    static const int set = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) |
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)set;
    int devices = 0, error = gpuGetDeviceCount(&devices);
    if (error)
        return fail(BAD_OPTION, "no GPU can be used on this machine: %s; %s, or use --device cpu",
                    gpuGetErrorString(error), cure(error));
    if (devices < 1) return fail(BAD_OPTION, "this machine has no GPU; use --device cpu");
    *device %= devices;
    return OK;
}

extern "C" Status gpu_address(char *address, int bytes, int device)
{
    TRY(device_find(&device));
    return check_at_start(device, gpuDeviceGetPCIBusId(address, bytes, device), "gpuDeviceGetPCIBusId");
}

extern "C" Status gpu_facts(DeviceFacts *facts, int device)
{
    gpuDeviceProperties properties;
    TRY(device_find(&device));
    TRY(check_at_start(device, gpuGetDeviceCount(&facts->devices), "gpuGetDeviceCount"));
    TRY(check_at_start(device, gpuGetDeviceProperties(&properties, device), "gpuGetDeviceProperties"));
    snprintf(facts->name, sizeof facts->name, "%s", properties.name);
    facts->bytes = properties.totalGlobalMem;
    return OK;
}

static Status stream_open(GpuStream *s, int device, bool urgent)
{
    int least, greatest;
    TRY(device_find(&device));
    gpuStream_t stream;
    TRY(check_at_start(device, gpuSetDevice(device), "gpuSetDevice"));
    TRY(check_at_start(device, gpuDeviceGetStreamPriorityRange(&least, &greatest),
                       "gpuDeviceGetStreamPriorityRange"));
    int error = gpuStreamCreateWithPriority(&stream, gpuStreamNonBlocking, urgent ? greatest : least);
    if (error) (void)gpuGetLastError();
    TRY(check_at_start(device, error, "gpuStreamCreate"));
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

static bool passed(int device, int error, const char *what)
{
    if (error == gpuErrorNotReady) return (void)gpuGetLastError(), false;
    check_on(device, error, what);
    return true;
}

extern "C" bool gpu_stream_passed(GpuStream *s)
{
    return passed(s->device, gpuStreamQuery((gpuStream_t)s->stream), "a kernel or a copy");
}

/* The device is named in failures, which another thread may find. */
typedef struct { gpuEvent_t event; int device; } GpuEvent;

extern "C" void *gpu_event_open(void)
{
    GpuEvent *e = (GpuEvent *)malloc(sizeof *e);
    CHECK(e, "no memory for an event");
    gpu_check(gpuGetDevice(&e->device), "gpuGetDevice");
    gpu_check(gpuEventCreateUntimed(&e->event), "gpuEventCreate");
    return e;
}

extern "C" void gpu_event_close(void *event)
{
    GpuEvent *e = (GpuEvent *)event;
    check_on(e->device, gpuEventDestroy(e->event), "gpuEventDestroy");
    free(e);
}

extern "C" void gpu_event_record(void *event, GpuStream *s)
{
    check_on(s->device, gpuEventRecord(((GpuEvent *)event)->event, (gpuStream_t)s->stream), "gpuEventRecord");
}

extern "C" bool gpu_event_passed(void *event)
{
    const GpuEvent *e = (GpuEvent *)event;
    gpuSetDevice(e->device);                          /* of the watchdog's thread, which has none */
    return passed(e->device, gpuEventQuery(e->event), "a kernel or a message");
}

extern "C" void gpu_event_wait(void *event)
{
    const GpuEvent *e = (GpuEvent *)event;
    check_on(e->device, gpuEventSynchronize(e->event), "a kernel or a message");
}

extern "C" void gpu_stream_follow(GpuStream *s, void *event)
{
    check_on(s->device, gpuStreamWaitEvent((gpuStream_t)s->stream, ((GpuEvent *)event)->event, 0),
             "gpuStreamWaitEvent");
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
