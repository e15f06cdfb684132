#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H
/* The settings that a test changes. They are set while no rank runs. */

/* When the work of streams runs: at the call; as late as a device may, which is where the host waits for it; or some at
 * each call, of any stream, as drawn */
typedef enum { GPU_CPU_AT_ONCE, GPU_CPU_LATE, GPU_CPU_DRAWN } GpuCpuPace;

/* What this thread has asked of the device since the start: kernels, products, and copies and fillings within the device;
 * copies between it and the host; calls that wait for it; calls that take or give memory of either side. */
typedef struct { long launches, copies, waits, allocations; } GpuCpuCounts;

struct GpuCpuStream;
#ifdef __cplusplus
extern "C" {
#endif
void gpu_cpu_pace(GpuCpuPace pace, unsigned seed);
void gpu_cpu_devices(int count);             /* 1 unless set, up to 16 */
void gpu_cpu_deadlock(unsigned seconds);     /* nothing moves for so long while a stream is waited for; 60 unless set */
void gpu_cpu_hang(struct GpuCpuStream *stream);      /* gives it a kernel that never ends */
void gpu_cpu_order(unsigned seed);           /* 0: blocks, warps and lanes run as numbered; else as drawn */
void gpu_cpu_patience(unsigned seconds);     /* a launch that takes longer is a deadlock; 60 unless set */
GpuCpuCounts gpu_cpu_counts(void);
extern int gpu_cpu_proposals;                /* algorithms of a product (cublaslt.cpp): 3 unless set, or 4 */
#ifdef __cplusplus
}
#endif
#endif
