/* What the shim's devices, streams and events promise, under each pace; and with a name one fault, which the shim must name in the words
 * that tests.cmake expects. */
#include "tensor/cuda/gpu.h"
#include "order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>

enum { MANY = 1000 };
#define MUST(cond) do { if (!(cond)) { printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

static void put_kernel(float *out, float value) { out[threadIdx.x] = value; }
static void add_kernel(float *out, const float *in) { out[threadIdx.x] += in[threadIdx.x]; }

static float *device_new(int device)
{
    void *memory;
    MUST(gpuSetDevice(device) == 0 && gpuMalloc(&memory, MANY * sizeof(float)) == 0);
    return (float *)memory;
}

static gpuStream_t stream_new(int device)
{
    gpuStream_t s;
    MUST(gpuSetDevice(device) == 0 && gpuStreamCreateWithPriority(&s, gpuStreamNonBlocking, 0) == 0);
    return s;
}

static gpuEvent_t event_new(void)
{
    gpuEvent_t e;
    MUST(gpuEventCreateUntimed(&e) == 0);
    return e;
}

static float first_of(const float *x, gpuStream_t s)
{
    float value;
    MUST(gpuMemcpyAsync(&value, x, sizeof value, gpuMemcpyDefault, s) == 0 && gpuStreamSynchronize(s) == 0);
    return value;
}

static void put(float *x, float value, gpuStream_t s)       { GPU_LAUNCH(put_kernel, 1, 32, s, x, value); }
static void add(float *x, const float *y, gpuStream_t s)    { GPU_LAUNCH(add_kernel, 1, 32, s, x, y); }

/* A stream that waits for an event sees what came before its record, and nothing of the host waits. */
static void a_stream_waits_for_an_event(void)
{
    float *x = device_new(0), *y = device_new(0);
    gpuStream_t a = stream_new(0), b = stream_new(0);
    gpuEvent_t e = event_new();
    for (int i = 1; i < 20; i++) {
        put(x, (float)i, a);
        MUST(gpuEventRecord(e, a) == 0 && gpuStreamWaitEvent(b, e, 0) == 0);
        put(y, 0, b);
        add(y, x, b);
        MUST(gpuEventRecord(e, b) == 0 && gpuStreamWaitEvent(a, e, 0) == 0);       /* x is read before the next */
    }
    MUST(first_of(y, b) == 19);
    gpuEventDestroy(e);
    gpuFree(x);
    gpuFree(y);
    gpuStreamDestroy(a);
    gpuStreamDestroy(b);
}

/* The event means its record at the call, and none where it has none; it may be destroyed at once. */
static void a_wait_takes_the_record_of_its_call(void)
{
    float *x = device_new(0), *y = device_new(0);
    gpuStream_t a = stream_new(0), b = stream_new(0);
    gpuEvent_t e = event_new();
    MUST(gpuStreamWaitEvent(b, e, 0) == 0 && gpuEventQuery(e) == 0 && gpuEventSynchronize(e) == 0);
    put(x, 1, a);
    MUST(gpuEventRecord(e, a) == 0 && gpuStreamWaitEvent(b, e, 0) == 0);
    MUST(gpuEventRecord(e, a) == 0);                          /* another one, which b does not wait for */
    put(y, 2, b);
    gpuEventDestroy(e);
    add(y, x, b);
    MUST(first_of(y, b) == 3);
    gpuFree(x);
    gpuFree(y);
    gpuStreamDestroy(a);
    gpuStreamDestroy(b);
}

/* A query waits for nothing, and who asks again and again sees the end. */
static void queries_become_true(void)
{
    float *x = device_new(0);
    gpuStream_t a = stream_new(0);
    gpuEvent_t e = event_new();
    bool early = false;
    for (int i = 0; i < 50; i++) put(x, 1, a);
    MUST(gpuEventRecord(e, a) == 0);
    early = gpuEventQuery(e) == 0;
    while (gpuEventQuery(e) != 0) early = false;
    MUST(gpuStreamQuery(a) == 0);
    put(x, 1, a);
    while (gpuStreamQuery(a) != 0) early = false;
    (void)early;
    gpuEventDestroy(e);
    gpuFree(x);
    gpuStreamDestroy(a);
}

static bool is_late(void)
{
    float *x = device_new(0);
    gpuStream_t a = stream_new(0);
    gpuEvent_t e = event_new();
    put(x, 1, a);
    MUST(gpuEventRecord(e, a) == 0);
    const bool late = gpuEventQuery(e) == gpuErrorNotReady;
    gpuStreamDestroy(a);
    gpuEventDestroy(e);
    gpuFree(x);
    return late;
}

/* Each thread has a device of its own; memory and streams belong to the one that was current. */
static void threads_have_devices(void)
{
    gpu_cpu_devices(4);
    std::thread thread[4];
    for (int d = 0; d < 4; d++)
        thread[d] = std::thread([d] {
            int devices;
            char bus[2][32];
            MUST(gpuGetDeviceCount(&devices) == 0 && devices == 4 && gpuSetDevice(4) != 0 && gpuSetDevice(-1) != 0);
            MUST(gpuDeviceGetPCIBusId(bus[0], 32, d) == 0 && gpuDeviceGetPCIBusId(bus[1], 32, (d + 1) % 4) == 0);
            MUST(strcmp(bus[0], bus[1]) != 0);
            gpuStream_t s = stream_new(d);
            float *x = device_new(d);
            for (int i = 0; i < 50; i++) put(x, (float)(d + i), s);
            MUST(first_of(x, s) == (float)(d + 49));
            gpuFree(x);
            gpuStreamDestroy(s);
        });
    for (std::thread &t : thread) t.join();
    gpu_cpu_devices(1);
}

/* Freed in the order of the stream: what was put before still reads it. */
static void memory_is_freed_in_order(void)
{
    float *y = device_new(0);
    void *x;
    gpuStream_t a = stream_new(0);
    MUST(gpuMallocAsync(&x, MANY * sizeof(float), a) == 0);
    put((float *)x, 4, a);
    put(y, 1, a);
    add(y, (float *)x, a);
    MUST(gpuFreeAsync(x, a) == 0);
    MUST(first_of(y, a) == 5);
    gpuFree(y);
    gpuStreamDestroy(a);
}

/* An error of a call is returned once more by gpuGetLastError, and no later call has it. One of a kernel shows where the host waits, with
 * that in every call of the device, and of no other device. */
static void failures_are_those_of_the_device(void)
{
    void *memory;
    gpu_cpu_devices(2);
    gpuStream_t a = stream_new(0), b = stream_new(1);
    gpu_cpu_fail("malloc:2@0");
    float *y = device_new(1), *x = device_new(0);
    MUST(gpuMalloc(&memory, 1) == 2 && gpuGetLastError() == 2 && gpuGetLastError() == 0);
    MUST(gpuMalloc(&memory, 1) == 0 && gpuFree(memory) == 0);
    gpu_cpu_fail("address:2");
    put(x, 1, a);
    MUST(gpuStreamSynchronize(a) == 0);
    put(x, 2, a);
    MUST(gpuGetLastError() == 0 && gpuStreamSynchronize(a) == 700 && gpuStreamQuery(a) == 700 && gpuMalloc(&memory, 1) == 700 && gpuGetLastError() == 700);
    MUST(gpuSetDevice(1) == 0);
    put(y, 3, b);
    MUST(first_of(y, b) == 3);
    gpu_cpu_fail(NULL);
    gpuStreamDestroy(a);
    gpuStreamDestroy(b);
    gpuFree(x);
    gpuFree(y);
    gpu_cpu_devices(1);
}

/* ---- faults ---- */
static void kernel_elsewhere(void)
{
    gpu_cpu_devices(2);
    float *x = device_new(1);
    gpuStream_t s = stream_new(0);
    put(x, 1, s);
    gpuStreamSynchronize(s);
}

static void copy_elsewhere(void)
{
    gpu_cpu_devices(2);
    float *x = device_new(1);
    first_of(x, stream_new(0));
}

static void launch_elsewhere(void)
{
    gpu_cpu_devices(2);
    gpuStream_t s = stream_new(0);
    put(device_new(1), 1, s);
}

/* The record is on a stream behind something that never ends. */
static void an_event_never_comes(void)
{
    float *x = device_new(0);
    gpuStream_t a = stream_new(0), b = stream_new(0);
    gpuEvent_t e = event_new();
    gpu_cpu_deadlock(1);
    gpu_cpu_hang(a);
    MUST(gpuEventRecord(e, a) == 0 && gpuStreamWaitEvent(b, e, 0) == 0);
    put(x, 1, b);
    gpuStreamSynchronize(b);
}

static void no_event_is_ready(void)
{
    gpuStream_t a = stream_new(0);
    gpu_cpu_deadlock(1);
    gpu_cpu_hang(a);
    while (gpuStreamQuery(a) != 0) {}
}

#define FAULT(name) { #name, name }
static const struct { const char *name; void (*run)(void); } FAULTS[] = {
    FAULT(kernel_elsewhere), FAULT(copy_elsewhere), FAULT(launch_elsewhere), FAULT(an_event_never_comes), FAULT(no_event_is_ready),
};

int main(int words, char **word)
{
    for (const auto &fault : FAULTS)
        if (words == 2 && strcmp(word[1], fault.name) == 0) {
            fault.run();
            puts("not noticed");
            return 0;
        }
    if (words > 1) return 2;
    failures_are_those_of_the_device();
    for (int pace = GPU_CPU_AT_ONCE; pace <= GPU_CPU_DRAWN; pace++)
        for (unsigned seed = 1; seed < 9; seed++) {
            gpu_cpu_pace((GpuCpuPace)pace, seed);
            a_stream_waits_for_an_event();
            a_wait_takes_the_record_of_its_call();
            queries_become_true();
            threads_have_devices();
            memory_is_freed_in_order();
            MUST(pace == GPU_CPU_DRAWN || is_late() == (pace == GPU_CPU_LATE));
        }
    return 0;
}
