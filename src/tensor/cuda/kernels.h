#ifndef TENSOR_CUDA_KERNELS_H
#define TENSOR_CUDA_KERNELS_H
/* The rows of ops.def that have GPU kernels, in F32. The queue must be the one in a CudaQueue; the tensors
 * and the queue's StepState are in device memory. A call launches its kernels on the queue's stream and
 * returns before they are done. The kernels are deterministic: there are no float atomics, and sums over
 * thread blocks have a fixed order. */
#include "tensor/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif
void cuda_norm_forward        (Queue *q, const NormForward *a);
void cuda_norm_backward_input (Queue *q, const NormBackwardInput *a);
void cuda_norm_backward_weight(Queue *q, const NormBackwardWeight *a);
void cuda_activation_forward  (Queue *q, const ActivationForward *a);
void cuda_activation_backward (Queue *q, const ActivationBackward *a);
void cuda_embed_backward      (Queue *q, const EmbedBackward *a);
void cuda_xent_stats          (Queue *q, const XentStats *a);
void cuda_xent_forward        (Queue *q, const XentForward *a);
void cuda_xent_backward       (Queue *q, const XentBackward *a);
void cuda_adamw               (Queue *q, const Adamw *a);
/* The bytes of workspace that the kernels above need at most for tensors of this size. */
size_t cuda_workspace(int64_t tokens, int64_t channels);
#ifdef __cplusplus
}
#endif
#endif
