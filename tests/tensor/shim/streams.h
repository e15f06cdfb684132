#ifndef SHIM_STREAMS_H
#define SHIM_STREAMS_H
/* What the files of the shim share beyond the runtime's functions. */
#include "order.h"
#include "tensor/cuda/gpu.h"
#include <memory>
#include <string>

/* One item of a stream. ready: true when it may run (work), asked again whenever something has moved; empty: always. explain: what
 * it waits for. */
struct GpuCpuItem {
    std::function<void()> work;
    std::function<bool()> ready;
    std::function<std::string()> explain;
};
extern thread_local GpuCpuCounts gpu_cpu_counted;      /* of gpu_cpu_counts */
void gpu_cpu_put_item(gpuStream_t stream, GpuCpuItem item);
void gpu_cpu_moved(void);                              /* something may be ready that was not */
void gpu_cpu_wait(std::function<bool()> done, std::function<std::string()> explain);      /* for other threads */
void gpu_cpu_member(int more);                         /* threads that will use streams: where all sleep, it is a deadlock */
int  gpu_cpu_device_of(gpuStream_t stream);
/* Failures (fail.cpp). The kinds of calls that are counted; GPU_CPU_ANY: all, also those of no kind. */
enum GpuCpuCall { GPU_CPU_MALLOC, GPU_CPU_HOST_MALLOC, GPU_CPU_STREAM, GPU_CPU_EVENT, GPU_CPU_LAUNCH, GPU_CPU_COPY, GPU_CPU_PRODUCT, GPU_CPU_WAIT,
                  GPU_CPU_ANY, GPU_CPU_CALLS };
int  gpu_cpu_call(GpuCpuCall call, int device);        /* the error that the call returns, having done nothing; 0: it works */
bool gpu_cpu_goes_wrong(int device);                   /* the work of that call will */
void gpu_cpu_break(int device);                        /* now: every call of the device fails, nothing of its streams is done */
int  gpu_cpu_error(int device);                        /* what every call of the device returns; 0: it has not failed */
void gpu_cpu_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#endif
