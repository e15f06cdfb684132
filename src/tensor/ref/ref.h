#ifndef TENSOR_REF_REF_H
#define TENSOR_REF_REF_H
/* The reference back end: naive loops in double, one element at a time through its strides. It is what a row
 * of ops.def means, and the oracle of every other back end; clearness before speed. */
#include <math.h>
#include "tensor/ops.h"
#include "tensor/ref/want.h"

#define REF(name, Struct) void ref_##name(Queue *q __attribute__((unused)), const Struct *a)
#define OP(heat, name, Struct, ...) REF(name, Struct);
#include "tensor/ops.def"
#undef OP

typedef int64_t RefIndex;
static inline double *at1(Tensor x, RefIndex i) { return (double *)x.data + i * x.stride[0]; }
static inline double *at2(Tensor x, RefIndex i, RefIndex j) { return at1(x, i) + j * x.stride[1]; }
static inline double *at3(Tensor x, RefIndex i, RefIndex j, RefIndex k) { return at2(x, i, j) + k * x.stride[2]; }
static inline double *at4(Tensor x, RefIndex i, RefIndex j, RefIndex k, RefIndex l)
{
    return at3(x, i, j, k) + l * x.stride[3];
}
static inline int32_t int1(Tensor x, int64_t i) { return ((const int32_t *)x.data)[i * x.stride[0]]; }

/* What element `index` of a dropout stream is multiplied by: 0 or 1 / (1 - p) */
double ref_keep(uint64_t key, uint64_t index, double p);
#endif
