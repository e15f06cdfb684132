#ifndef TENSOR_CUDA_KERNELS_H
#define TENSOR_CUDA_KERNELS_H
/* The operations of the back end `cuda`, the rows of kernels.def. The queue must be one of cuda_queue_open;
 * the tensors and the queue's StepState are in device memory. A call launches its kernels on the queue's
 * stream and returns before they are done. The kernels are deterministic: there are no float atomics, and
 * sums over thread blocks have a fixed order.
 *
 * cuda_<name>_workspace: bytes of the queue's op_workspace that a call needs, from shapes alone; tensors may
 * have no data. */
#include "tensor/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif
#define KERNEL(name, Struct) void cuda_##name(Queue *q, const Struct *a);
#define KERNEL_WORKSPACE(name, Struct)                \
    void   cuda_##name(Queue *q, const Struct *a);    \
    size_t cuda_##name##_workspace(const Queue *q, const Struct *a);
#include "tensor/cuda/kernels.def"
/* Backend.slow of both: why tiled.cu computes them. */
const char *cuda_attention_forward_slow (const AttentionForward *a);
const char *cuda_attention_backward_slow(const AttentionBackward *a);
#ifdef __cplusplus
}
#endif
#endif
