#ifndef TENSOR_CUDA_ATTENTION_TILED_H
#define TENSOR_CUDA_ATTENTION_TILED_H
/* Attention for all types, masks and head dims up to MOST_CHANNELS. The arguments are checked, and neither
 * queries nor keys are none. */
#include "tensor/cuda/attention/rule.h"

enum { MOST_CHANNELS = 256 };
void tiled_forward (Queue *q, const AttentionForward *a);
void tiled_backward(Queue *q, const AttentionBackward *a);
#endif
