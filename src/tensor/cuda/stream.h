#ifndef TENSOR_CUDA_STREAM_H
#define TENSOR_CUDA_STREAM_H
/* Where kernels run: a device, a stream of it, and a workspace for sums over blocks. C includes it too. */
#include "tensor/ops.h"

typedef struct {
    void  *stream;                     /* cudaStream_t or hipStream_t */
    void  *workspace;                  /* device memory; ops run one after another, so that one is enough */
    size_t bytes;
} GpuStream;

/* A Queue whose ops run on a GPU: the launchers find the stream behind the queue they are given. */
typedef struct { Queue queue; GpuStream gpu; } CudaQueue;

#ifdef __cplusplus
extern "C" {
#endif
/* NO_MEMORY where the workspace does not fit, BAD_OPTION where there is no such device. */
Status gpu_stream_open (GpuStream *s, int device, size_t workspace);
void   gpu_stream_close(GpuStream *s);
void   gpu_stream_wait (GpuStream *s);
void  *gpu_alloc(size_t bytes);                    /* at start-up only */
void   gpu_free (void *memory);
void   gpu_copy (GpuStream *s, void *to, const void *from, size_t bytes);   /* either side host or device */
#ifdef __cplusplus
}
#endif
#endif
