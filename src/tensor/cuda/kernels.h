#ifndef TENSOR_CUDA_KERNELS_H
#define TENSOR_CUDA_KERNELS_H
/* The rows of ops.def that have kernels, in F32. The queue is a CudaQueue; tensors and its StepState are device
 * memory. Results are the same from run to run: no float atomics, and sums over blocks have a fixed order. */
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
size_t cuda_workspace(int64_t tokens, int64_t channels);     /* bytes the kernels above ask for at most */
#ifdef __cplusplus
}
#endif
#endif
