#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H
/* A Tensor is a view; the arena owns the bytes. Sizes are elements everywhere; no function takes a bare pointer with a count. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"

typedef enum { F64, F32, I32, U8 } Dtype;

typedef struct {
    void   *data;                      /* NULL in a dry run */
    int64_t dim[4], stride[4];         /* in elements; unused dims are 1, at the end; the last used stride is 1 */
    Dtype   dtype;
} Tensor;

#ifdef __cplusplus
extern "C" {
#endif
/* tensor_new(arena, "what", F32, T, C): pushed on an arena, contiguous, 1 to 4 dims. Contents are not set. */
#define tensor_new(arena, what, dtype, ...) \
    tensor_push(arena, what, dtype, (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)))
#define tensor_view(x, ...) \
    tensor_reshape(x, (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)))

Tensor  tensor_push   (Arena *arena, const char *what, Dtype dtype, const int64_t *dim, int dims);
Tensor  tensor_at     (void *data, Dtype dtype, const int64_t *dim, int dims);   /* contiguous view of someone's memory */
Tensor  tensor_reshape(Tensor x, const int64_t *dim, int dims);      /* same count; x must be contiguous */
Tensor  tensor_slice  (Tensor x, int axis, int64_t first, int64_t count);        /* a view, strides kept */
Tensor  tensor_flat   (Tensor x, int64_t first, int64_t count);      /* a 1-dim run of a contiguous tensor */
int64_t tensor_count  (Tensor x);
size_t  tensor_bytes  (Tensor x);                                    /* count * width: what a contiguous copy takes */
bool    tensor_contiguous(Tensor x);
size_t  dtype_width(Dtype dtype);
const char *dtype_name(Dtype dtype);                                 /* "F64", "F32", "I32", "U8": safetensors' words */
#ifdef __cplusplus
}
#endif
#endif
