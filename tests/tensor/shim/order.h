#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H
/* The settings that a test changes. They are set while no rank runs. */

/* When the work of streams runs: at the call; as late as a device may, which is where the host waits for it; or some at
 * each call, of any stream, as drawn */
typedef enum { GPU_CPU_AT_ONCE, GPU_CPU_LATE, GPU_CPU_DRAWN } GpuCpuPace;

/* What this thread has asked of the device since the start: kernels, products, and copies and fillings within the device;
 * copies between it and the host; calls that wait for it; calls that take or give memory of either side. */
typedef struct { long launches, copies, waits, allocations; } GpuCpuCounts;

/* What goes wrong in the emulated NCCL (nccl.cpp), from the call number `after` on of the rank on a device: that call has another
 * count, or another root or peer; it goes behind the next one; it is never made; the communicator fails; the rank ends in it; its kernel
 * never ends; it returns an error. Or the library is missing, or too old, or the opening of communicator number `after` fails. */
typedef enum { GPU_CPU_NCCL_NO_FAULT, GPU_CPU_NCCL_COUNT, GPU_CPU_NCCL_ROOT, GPU_CPU_NCCL_SWAP, GPU_CPU_NCCL_LOST, GPU_CPU_NCCL_ERROR,
               GPU_CPU_NCCL_DEAD, GPU_CPU_NCCL_HANG, GPU_CPU_NCCL_CALL, GPU_CPU_NCCL_OPEN, GPU_CPU_NCCL_MISSING, GPU_CPU_NCCL_OLD,
               GPU_CPU_NCCL_FAULTS } GpuCpuNcclFault;
struct GpuCpuStream;
#ifdef __cplusplus
extern "C" {
#endif
void gpu_cpu_pace(GpuCpuPace pace, unsigned seed);
void gpu_cpu_devices(int count);             /* 1 unless set, up to 16 */
void gpu_cpu_deadlock(unsigned seconds);     /* nothing moves for so long while a stream is waited for; 60 unless set; 0: never */
void gpu_cpu_hang(struct GpuCpuStream *stream);      /* gives it a kernel that never ends */
void gpu_cpu_nccl_fault(GpuCpuNcclFault kind, int device, long after);
int  gpu_cpu_nccl_most(void);                /* the most blocks of its kernels that a device had at once, since the last call */
void gpu_cpu_order(unsigned seed);           /* 0: blocks, warps and lanes run as numbered; else as drawn */
void gpu_cpu_patience(unsigned seconds);     /* a launch that takes longer is a deadlock; 60 unless set */
GpuCpuCounts gpu_cpu_counts(void);
void gpu_cpu_fail(const char *words);        /* as GPU_CPU_FAIL (fail.cpp); NULL: nothing fails from now on */
extern int gpu_cpu_proposals;                /* algorithms of a product (cublaslt.cpp): 3 unless set, or 4 */
extern int gpu_cpu_algorithm;                /* of the last product */
#ifdef __cplusplus
}
#endif
#endif
