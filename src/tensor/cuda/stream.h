#ifndef TENSOR_CUDA_STREAM_H
#define TENSOR_CUDA_STREAM_H
/* Where kernels run: a device and one of its streams. C and C++ sources include it, so no type of the CUDA or
 * HIP headers is in it. A call of the runtime that fails is a CHECK unless said otherwise. */
#include "tensor/ops.h"

typedef struct Products Products;      /* tensor/cuda/product.h */
typedef struct {
    void       *stream;                /* cudaStream_t or hipStream_t */
    int         device;                /* its number */
    Products   *products;              /* owned */
    void       *event[2];              /* of timing.h; owned */
    ArenaMemory memory, pinned;        /* of the device; of the host */
    char        name[16];              /* "GPU 0" */
} GpuStream;

#ifdef __cplusplus
extern "C" {
#endif
/* Opens a stream of the device with that number, modulo how many there are. BAD_OPTION: there is no GPU. */
Status gpu_stream_open (GpuStream *s, int device);
/* Its kernels get the multiprocessors that become free before those of other streams: messages, for which the
 * other ranks wait too. */
Status gpu_stream_open_urgent(GpuStream *s, int device);
void   gpu_stream_close(GpuStream *s);
/* A CHECK that no earlier call has failed, where a library has only said that something did. */
void   gpu_check_earlier(const char *what);
/* Returns when all kernels and copies of the stream are done. */
void   gpu_stream_wait (GpuStream *s);
bool   gpu_stream_passed(GpuStream *s);            /* they are done already; does not wait */
/* Events order streams without the host: what is put on a stream after gpu_stream_follow runs after what the
 * event's stream had at the last gpu_event_record, on any device of the process. */
void  *gpu_event_open  (void);                     /* on the current device; the caller closes it */
void   gpu_event_close (void *event);
void   gpu_event_record(void *event, GpuStream *s);
bool   gpu_event_passed(void *event);              /* any thread may ask; true where nothing was recorded */
void   gpu_event_wait  (void *event);
void   gpu_stream_follow(GpuStream *s, void *event);
/* The bus address of a device, "0000:17:00.0", which tells GPUs of a host apart whatever their numbers are.
 * BAD_OPTION: there is no GPU. */
Status gpu_address(char *address, int bytes, int device);
/* BAD_OPTION: there is no GPU. */
Status gpu_facts(DeviceFacts *facts, int device);
/* Device memory, at start-up only; the caller frees it with gpu_free. NULL where there is not so much. */
void  *gpu_alloc(size_t bytes);
void   gpu_free (void *memory);
/* Device memory for what is put on the stream between the two calls, which wait for nothing. gpu_free waits
 * for the whole device, and so for messages: during a step that would be a deadlock, since what the other
 * ranks need for those may come later. NULL where there is not so much. */
void  *gpu_stream_alloc(GpuStream *s, size_t bytes);
void   gpu_stream_free (GpuStream *s, void *memory);
/* Pinned memory of the host. NULL where there is not so much. */
void  *gpu_host_alloc(size_t bytes);
void   gpu_host_free (void *memory);
/* Copies in the order of the stream and may return before the copy is done, but not before `from` was read
 * where that is host memory of malloc. Each side is host or device memory. */
void   gpu_copy (GpuStream *s, void *to, const void *from, size_t bytes);
#ifdef __cplusplus
}
#endif
#endif
