#ifndef TENSOR_CUDA_TIMING_H
#define TENSOR_CUDA_TIMING_H
/* What the choice among algorithms needs: times on the device, and whether two results have the same bits. */
#include "tensor/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif
void   timing_begin(GpuStream *s);
double timing_end  (GpuStream *s);                  /* milliseconds since; waits */
/* All bytes 0. */
void   timing_fill (GpuStream *s, void *memory, size_t bytes);
/* Whether both have the same bytes; workspace: 4 bytes of device memory. Waits. */
bool   timing_same (GpuStream *s, const void *a, const void *b, size_t bytes, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
