#ifndef TENSOR_CUDA_STREAM_H
#define TENSOR_CUDA_STREAM_H
/* Where kernels run: a device, one of its streams, and a workspace for the sums over thread blocks. C and
 * C++ sources include it, so no type of the CUDA or HIP headers is in it. A call of the runtime that fails
 * is a CHECK unless said otherwise. */
#include "tensor/ops.h"

typedef struct {
    void  *stream;                     /* cudaStream_t or hipStream_t */
    void  *workspace;                  /* device memory, owned; ops run in order and share it */
    size_t bytes;                      /* of the workspace */
} GpuStream;

/* A Queue whose ops run on a GPU. The queue is the first member, so that a kernel's launcher finds the
 * stream from the Queue pointer it receives. */
typedef struct { Queue queue; GpuStream gpu; } CudaQueue;

#ifdef __cplusplus
extern "C" {
#endif
/* Opens a stream of the device with that number and allocates `workspace` bytes on it. BAD_OPTION when
 * there is no GPU or no such device, NO_MEMORY when the workspace does not fit. */
Status gpu_stream_open (GpuStream *s, int device, size_t workspace);
void   gpu_stream_close(GpuStream *s);
/* Returns when all kernels and copies of the stream are done. */
void   gpu_stream_wait (GpuStream *s);
/* Device memory, at start-up only; the caller frees it with gpu_free. */
void  *gpu_alloc(size_t bytes);
void   gpu_free (void *memory);
/* Copies in the order of the stream and may return before the copy is done. Each side is host or device
 * memory. */
void   gpu_copy (GpuStream *s, void *to, const void *from, size_t bytes);
#ifdef __cplusplus
}
#endif
#endif
