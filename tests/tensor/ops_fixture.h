#ifndef TESTS_TENSOR_OPS_FIXTURE_H
#define TESTS_TENSOR_OPS_FIXTURE_H
/* Random tensors for the tests of the ops, kept in double; `fixture_reset` frees all of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "tensor/ops.h"
#include <cmocka.h>                                      /* last: its macro `fail` hides base/status.h's */

enum { BUFFERS = 48 };
typedef struct { char *data; int64_t count; Dtype dtype; bool sums; } Buffer;  /* sums: F64 in both */
static Buffer   buffer[BUFFERS];
static int      buffers;
static uint64_t drawn;                                     /* random numbers asked so far */
static Dtype    drawn_as = F64;                            /* real numbers are rounded to it */

static inline double draw(double low, double high) { return low + (high - low) * random_uniform(7, drawn++); }

static inline void fixture_reset(void)
{
    while (buffers > 0) free(buffer[--buffers].data);
}

static inline Tensor fixture_new(Dtype dtype, bool sums, const int64_t *dim, int dims)
{
    assert_true(buffers < BUFFERS);
    Tensor x = tensor_at(NULL, dtype, dim, dims);
    x.data = calloc((size_t)tensor_count(x), dtype_width(dtype));
    assert_non_null(x.data);
    buffer[buffers++] = (Buffer){ x.data, tensor_count(x), dtype, sums };
    return x;
}

/* Values as a type holds them. Many at a time, since a conversion of one value costs a sanitizer a page of stack. */
static inline void round_to(Dtype dtype, double *value, int64_t count)
{
    char narrow[512 * 8];
    for (int64_t at = 0; at < count; at += 512) {
        int64_t some = count - at < 512 ? count - at : 512;
        dtype_convert(narrow, dtype, value + at, F64, some);
        dtype_convert(value + at, F64, narrow, dtype, some);
    }
}

static inline Tensor fixture_real(const int64_t *dim, int dims, double low, double high)
{
    Tensor x = fixture_new(F64, false, dim, dims);
    int64_t count = tensor_count(x);
    for (int64_t i = 0; i < count; i++) ((double *)x.data)[i] = draw(low, high);
    round_to(drawn_as, x.data, count);
    return x;
}

#define DIMS(...) \
    (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t))
#define real(...)            fixture_real(DIMS(__VA_ARGS__), -1, 1)
#define between(low, high, ...) fixture_real(DIMS(__VA_ARGS__), low, high)
#define sums(...)            fixture_new(F64, true, DIMS(__VA_ARGS__))

static inline Tensor ints(int64_t n, int low, int high)    /* low .. high - 1 */
{
    Tensor x = fixture_new(I32, false, &n, 1);
    for (int64_t i = 0; i < n; i++) ((int32_t *)x.data)[i] = (int32_t)floor(draw(low, high));
    return x;
}

/* [T, C] within wider rows, or rows of their own */
static inline Tensor matrix(int64_t T, int64_t C, bool wide)
{
    return wide ? tensor_slice(real(T, C + 7), 1, 3, C) : real(T, C);
}

/* The offset of element i in row-major order */
static inline int64_t offset(Tensor x, int64_t i)
{
    int64_t at = 0;
    for (int d = 3; d >= 0 && i > 0; d--) {
        if (x.dim[d] == 1) continue;                       /* divisions are most of a comparison's time */
        at += i % x.dim[d] * x.stride[d];
        i /= x.dim[d];
    }
    return at;
}

static inline double *element(Tensor x, int64_t i) { return (double *)x.data + offset(x, i); }

static inline int tensors_of(int op)
{
    static const int count[] = {
#define OP(heat, name, Struct, types, ...) (int)sizeof(types) - 1,
#include "tensor/ops.def"
#undef OP
    };
    return count[op];
}

/* The largest struct of arguments */
typedef union {
#define OP(heat, name, Struct, types, ...) Struct name;
#include "tensor/ops.def"
#undef OP
} Arguments;

static inline void perform(Queue *q, int op, const Arguments *a)
{
    switch (op) {
#define OP(heat, name, Struct, types, ...) case OP_##name: name(q, a->name); break;
#include "tensor/ops.def"
#undef OP
    }
}

/* key_range_i [B, S, 2]: random intervals of the keys 0 .. U - 1, every fifth empty */
static inline Tensor visible(int64_t B, int64_t S, int64_t U)
{
    Tensor x = fixture_new(I32, false, DIMS(B, S, 2));
    for (int64_t i = 0; i < B * S; i++) {
        int32_t *row = (int32_t *)x.data + 2 * i;
        row[0] = (int32_t)floor(draw(0, (double)U));
        row[1] = i % 5 == 4 ? row[0] : row[0] + 1 + (int32_t)floor(draw(0, (double)(U - row[0])));
    }
    return x;
}
#endif
