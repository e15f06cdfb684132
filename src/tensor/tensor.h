#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H
/* Strided views of up to four dimensions. A Tensor never owns its memory, which belongs to an arena or to
 * the caller, so it is passed by value and never freed. Sizes and strides are in elements throughout, and
 * functions take tensors instead of a pointer with a count, so that a shape always travels with its data. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "tensor/dtype.h"

typedef struct {
    void   *data;                      /* not owned; NULL in a dry run */
    int64_t dim[4];                    /* elements; unused dims are 1 and come last */
    int64_t stride[4];                 /* elements; that of the last used dim is 1 */
    Dtype   dtype;
} Tensor;

#ifdef __cplusplus
extern "C" {
#endif
/* tensor_new(arena, "what", F32, T, C) pushes a contiguous tensor of 1 to 4 dims on an arena under the
 * name "what". The contents are not set. An arena that is full is a CHECK. */
#define tensor_new(arena, what, dtype, ...)                        \
    tensor_push(arena, what, dtype, (const int64_t[]){ __VA_ARGS__ }, \
                (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)))
/* tensor_view(x, B, S, C) is x with another shape of the same number of elements. */
#define tensor_view(x, ...)                              \
    tensor_reshape(x, (const int64_t[]){ __VA_ARGS__ }, \
                   (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)))

/* A wrong shape, axis or range in the functions below is a programming error and stops the job (CHECK). */
Tensor  tensor_push   (Arena *arena, const char *what, Dtype dtype, const int64_t *dim, int dims);
/* A contiguous view of memory that the caller owns. */
Tensor  tensor_at     (void *data, Dtype dtype, const int64_t *dim, int dims);
/* x must be contiguous and the new shape must have as many elements. */
Tensor  tensor_reshape(Tensor x, const int64_t *dim, int dims);
/* Indices first .. first + count - 1 of one axis; the strides stay, so the view is in general not
 * contiguous. */
Tensor  tensor_slice  (Tensor x, int axis, int64_t first, int64_t count);
/* Elements first .. first + count - 1 of a contiguous tensor in row-major order, as a 1-dim tensor. */
Tensor  tensor_flat   (Tensor x, int64_t first, int64_t count);
int64_t tensor_count  (Tensor x);                                    /* elements */
size_t  tensor_bytes  (Tensor x);                                    /* bytes of a contiguous copy */
bool    tensor_contiguous(Tensor x);                                 /* row-major without gaps */
#ifdef __cplusplus
}
#endif
#endif
