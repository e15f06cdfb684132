/* Products of 8-bit integers on any machine. */
#include "tensor/cpu/int8/int8_family.h"

/* One row and one panel */
static void row(const Int8Product *x, float *sum, const uint8_t *code, const float *scale, int64_t r)
{
    const int8_t *activation = x->x + r * x->blocks * INT8_BLOCK;
    for (int k = 0; k < INT8_ROWS; k++) sum[k] = 0;
    for (int64_t b = 0; b < x->blocks; b++, code += INT8_BYTES, scale += INT8_ROWS) {
        int32_t products[INT8_ROWS] = { 0 };
        float   x_scale = x->x_scale[r * x->blocks + b];
        for (int c = 0; c < INT8_BLOCK; c++) {
            const uint8_t *at = code + c / INT8_QUAD * INT8_ROWS * INT8_QUAD + c % INT8_QUAD;
            int32_t one = activation[b * INT8_BLOCK + c];
            for (int k = 0; k < INT8_ROWS; k++) products[k] += (at[k * INT8_QUAD] - INT8_ZERO) * one;
        }
        for (int k = 0; k < INT8_ROWS; k++) sum[k] += (float)products[k] * scale[k] * x_scale;
    }
}

static inline void portable(const Int8Product *x, int rows, int panels)
{
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < panels; p++)
            row(x, x->sum + (r * panels + p) * INT8_ROWS, x->code + p * x->blocks * INT8_BYTES,
                x->scale + p * x->blocks * INT8_ROWS, r);
}

#define KERNEL(r, p)    static void portable_##r##_##p(const Int8Product *x) { portable(x, r, p); }
#define KERNELS(r)      KERNEL(r, 1) KERNEL(r, 2)
#define NAMES(r)        { portable_##r##_1, portable_##r##_2 }
KERNELS(1) KERNELS(2) KERNELS(3) KERNELS(4) KERNELS(5) KERNELS(6)
const Int8Family int8_portable = { INT8_MOST_ROWS, INT8_MOST_PANELS,
                                   { NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5), NAMES(6) } };
