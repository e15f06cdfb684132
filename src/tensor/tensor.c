/* Construction of tensors and views of them. A view shares the memory of its source; nothing here copies
 * data. */
#include "tensor/tensor.h"

#include <inttypes.h>

/* Row-major strides, computed from the last dim to the first. Unused dims are 1, so loops over four dims
 * work for all. */
Tensor tensor_at(void *data, Dtype dtype, const int64_t *dim, int dims)
{
    CHECK(dims >= 1 && dims <= 4, "a tensor has 1 to 4 dims, got %d", dims);
    Tensor x = { .data = data, .dtype = dtype, .dim = { 1, 1, 1, 1 }, .stride = { 1, 1, 1, 1 } };
    for (int d = dims - 1; d >= 0; d--) {
        CHECK(dim[d] >= 0, "dim %d of a tensor is %" PRId64, d, dim[d]);
        x.dim[d]    = dim[d];
        x.stride[d] = d == dims - 1 ? 1 : x.dim[d + 1] * x.stride[d + 1];
    }
    return x;
}

Tensor tensor_push(Arena *arena, const char *what, Dtype dtype, const int64_t *dim, int dims)
{
    Tensor x = tensor_at(NULL, dtype, dim, dims);
    x.data   = arena_push(arena, what, tensor_bytes(x));
    return x;
}

int64_t tensor_count(Tensor x) { return x.dim[0] * x.dim[1] * x.dim[2] * x.dim[3]; }

size_t tensor_bytes(Tensor x) { return (size_t)tensor_count(x) * dtype_width(x.dtype); }

bool tensor_contiguous(Tensor x)
{
    int64_t expected = 1;
    for (int d = 3; d >= 0; d--) {
        if (x.dim[d] != 1 && x.stride[d] != expected) return false;   /* a dim of 1 uses no stride */
        expected *= x.dim[d];
    }
    return true;
}

Tensor tensor_reshape(Tensor x, const int64_t *dim, int dims)
{
    CHECK(tensor_contiguous(x), "only a contiguous tensor can be reshaped");
    Tensor y = tensor_at(x.data, x.dtype, dim, dims);
    CHECK(tensor_count(y) == tensor_count(x), "a tensor of %" PRId64 " elements cannot be reshaped to %" PRId64,
          tensor_count(x), tensor_count(y));
    return y;
}

/* The comparison with dim - count avoids an overflow of first + count. */
Tensor tensor_slice(Tensor x, int axis, int64_t first, int64_t count)
{
    CHECK(axis >= 0 && axis < 4, "a tensor has no axis %d", axis);
    CHECK(first >= 0 && count >= 0 && first <= x.dim[axis] - count,
          "slice %" PRId64 " + %" PRId64 " is outside of axis %d of %" PRId64,
          first, count, axis, x.dim[axis]);
    if (x.data) x.data = (char *)x.data + first * x.stride[axis] * (int64_t)dtype_width(x.dtype);
    x.dim[axis] = count;
    return x;
}

Tensor tensor_flat(Tensor x, int64_t first, int64_t count)
{
    CHECK(tensor_contiguous(x), "only a contiguous tensor can be sliced as flat");
    return tensor_slice(tensor_view(x, tensor_count(x)), 0, first, count);
}
