#ifndef TENSOR_CPU_LINEAR_H
#define TENSOR_CPU_LINEAR_H
/* The three products of a linear map as gemm takes them.
 * T rows   C channels in   K channels out   w [K, C] */
#include "tensor/cpu/gemm.h"
#include "tensor/ops.h"

/* y = x wT (+ bias, where present) */
static inline Gemm linear_product(Tensor y_TK, Tensor x_TC, Tensor w_KC, Tensor bias_K)
{
    return (Gemm){ .M = y_TK.dim[0], .N = y_TK.dim[1], .K = x_TC.dim[1],
                   .y = y_TK.data, .y_row = y_TK.stride[0], .output = y_TK.dtype,
                   .a = { x_TC.data, x_TC.stride[0], 1 }, .input = x_TC.dtype,
                   .b = { w_KC.data, 1, w_KC.stride[0] },
                   .bias = tensor_present(bias_K) ? bias_K.data : NULL, .bias_type = bias_K.dtype };
}

/* dx = dy w */
static inline Gemm linear_input_product(Tensor dx_TC, Tensor dy_TK, Tensor w_KC)
{
    return (Gemm){ .M = dx_TC.dim[0], .N = dx_TC.dim[1], .K = dy_TK.dim[1],
                   .y = dx_TC.data, .y_row = dx_TC.stride[0], .output = dx_TC.dtype,
                   .a = { dy_TK.data, dy_TK.stride[0], 1 }, .input = dy_TK.dtype,
                   .b = { w_KC.data, w_KC.stride[0], 1 } };
}

/* dw += dyT x */
static inline Gemm linear_weight_product(Tensor dw_KC, Tensor dy_TK, Tensor x_TC)
{
    return (Gemm){ .M = dw_KC.dim[0], .N = dw_KC.dim[1], .K = x_TC.dim[0], .add = true,
                   .y = dw_KC.data, .y_row = dw_KC.stride[0], .output = dw_KC.dtype,
                   .a = { dy_TK.data, 1, dy_TK.stride[0] }, .input = dy_TK.dtype,
                   .b = { x_TC.data, x_TC.stride[0], 1 } };
}
#endif
