#ifndef TENSOR_REF_REF_H
#define TENSOR_REF_REF_H
/* The reference back end: naive loops in double, one element at a time through its strides. It defines
 * what a row of ops.def means, and the tests compare every other back end with it. It prefers clarity to
 * speed and has one thread. */
#include <math.h>
#include "tensor/ops.h"
#include "tensor/ref/want.h"

/* The head of the function that implements a row: REF(rope_forward, RopeForward) { ... } with arguments q
 * and a. */
#define REF(name, Struct) void ref_##name(Queue *q __attribute__((unused)), const Struct *a)
#define OP(heat, name, Struct, types, ...) REF(name, Struct);
#include "tensor/ops.def"
#undef OP

/* The address of an element by its 1 to 4 indices, through the tensor's strides. Bounds are checked by
 * WANT before. */
typedef int64_t RefIndex;
static inline double *at1(Tensor x, RefIndex i) { return (double *)x.data + i * x.stride[0]; }
static inline double *at2(Tensor x, RefIndex i, RefIndex j) { return at1(x, i) + j * x.stride[1]; }
static inline double *at3(Tensor x, RefIndex i, RefIndex j, RefIndex k)
{
    return at2(x, i, j) + k * x.stride[2];
}
static inline double *at4(Tensor x, RefIndex i, RefIndex j, RefIndex k, RefIndex l)
{
    return at3(x, i, j, k) + l * x.stride[3];
}
/* Element i of a 1-dim I32 tensor: ids, targets, positions. */
static inline int32_t int1(Tensor x, int64_t i) { return ((const int32_t *)x.data)[i * x.stride[0]]; }

/* Element i of a contiguous I32 tensor of any dims. */
static inline int32_t *int_at(Tensor x, int64_t i) { return (int32_t *)x.data + i; }

/* The factor of element `index` of the dropout mask of `key`: 0 when dropped, else 1 / (1 - p). p is 0 ..
 * 1. */
double ref_dropout(uint64_t key, uint64_t index, double p);
#endif
