#ifndef TENSOR_REF_WANT_H
#define TENSOR_REF_WANT_H
/* The shape that an operation requires of a tensor: WANT(a->x_TC, T, C). Anything else is a bug of the
 * caller and a CHECK that names the op and the tensor, so that a kernel never reads outside of its tensors.
 * Strides are free except the last one, which is 1. Types are checked before, by the op's row (ops.c). */
#include "tensor/tensor.h"

#define WANT(x, ...) \
    want(#x, x, (const int64_t[]){ __VA_ARGS__ }, sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t))

/* A linear map's y [T, K], x [T, C] and w [K, C], or gradients in their places. */
#define WANT_LINEAR(y, x, w)                   \
    do {                                       \
        WANT(y, (x).dim[0], (w).dim[0]);       \
        WANT(x, (x).dim[0], (w).dim[1]);       \
        WANT(w, (w).dim[0], (w).dim[1]);       \
    } while (0)

/* dim has dims entries; the tensor's further dims must be 1. */
static inline void want(const char *name, Tensor x, const int64_t *dim, size_t dims)
{
    long long w[4] = { 1, 1, 1, 1 };
    bool same = dim[dims - 1] <= 1 || x.stride[dims - 1] == 1;
    for (size_t i = 0; i < dims; i++) w[i] = dim[i];
    for (int i = 0; i < 4; i++) same = same && x.dim[i] == w[i];
    CHECK(same, "%s is [%lld, %lld, %lld, %lld], required is [%lld, %lld, %lld, %lld] with a last stride "
          "of 1",
          name, (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3], w[0],
          w[1], w[2], w[3]);
}
#endif
