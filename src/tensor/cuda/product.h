#ifndef TENSOR_CUDA_PRODUCT_H
#define TENSOR_CUDA_PRODUCT_H
/* Matrix products on a GPU, by cuBLASLt. */
#include "tensor/cuda/stream.h"

/* d [m, n] = a [m, k] times b [k, n] + c [m, n] + bias [n], row-major; sums in F32, rounded once. With
 * a_turned a is in memory as [k, m], with b_turned b as [n, k]. c and bias may be NULL; c may be d. Strides:
 * elements from one row in memory to the next. `in`: the type of a and b; `out`: of d, c and bias. F32,
 * BF16 or F16; F32 inputs are not rounded. */
typedef struct {
    void       *d;
    const void *a, *b, *c, *bias;
    int64_t     m, n, k, d_stride, a_stride, b_stride, c_stride;
    bool        a_turned, b_turned;
    Dtype       in, out;
} Product;

/* Bytes of the workspace of every product. */
enum { PRODUCT_WORKSPACE = 32 << 20 };

#ifdef __cplusplus
extern "C" {
#endif
/* BAD_OPTION where the library cannot be opened, NO_MEMORY. After a failure there is nothing to close. */
Status products_open (Products **products, GpuStream *s);
void   products_close(Products *products);                         /* NULL is allowed */
/* Enqueues a product. At the first one of a shape several algorithms are timed, which allocates memory and
 * waits for the stream; later ones do neither. `workspace`: PRODUCT_WORKSPACE bytes of device memory. */
void   product_enqueue(GpuStream *s, const Product *p, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
