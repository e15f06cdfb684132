#ifndef TENSOR_CUDA_TIMING_H
#define TENSOR_CUDA_TIMING_H
/* What the choice among algorithms needs: times on the device, operands whose products tell orders of
 * summation apart, and whether two results have the same bits. */
#include "tensor/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif
void   timing_begin(GpuStream *s);
double timing_end  (GpuStream *s);                  /* milliseconds since; waits */
/* All bytes 0. */
void   timing_fill (GpuStream *s, void *memory, size_t bytes);
/* A matrix in memory, F32, BF16 or F16, and which of its dimensions a product sums over. */
typedef struct { void *data; Dtype dtype; int64_t rows, columns, stride; bool sums_rows; } TimingMatrix;
/* Random numbers with magnitudes from 2^-8 scale to 2^8 scale, each exact in BF16 where scale is 1,
 * and in F16. Along the dimension of the
 * sum the second half repeats the first, with the other sign where `negated`; an odd last number is 0. So the
 * sum of a negated matrix times another is 0 but for rounding errors, which depend on the order of summation,
 * and which no rounding to 16 bits hides. */
void   timing_operand(GpuStream *s, TimingMatrix x, bool negated, float scale, uint64_t key);
/* Whether both have the same bytes; workspace: 4 bytes of device memory. Waits. */
bool   timing_same (GpuStream *s, const void *a, const void *b, size_t bytes, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
