#ifndef TESTS_TENSOR_OPS_BYTES_H
#define TESTS_TENSOR_OPS_BYTES_H
/* The cases of the linear maps of 8-bit numbers, for ops_test.c: of FP8 for training, of integers for generation. */
#include "ops_attention.h"
#include "tensor/int8.h"

static Dtype drawn_fp8 = F8_E4M3;                          /* the type of a letter r */

/* [T, C] of an 8-bit type, within wider rows or rows of their own; both back ends take it as it is */
static Tensor bytes(Dtype dtype, int64_t T, int64_t C, bool wide)
{
    Tensor x = fixture_new(dtype, false, DIMS(T, C + (wide ? 7 : 0)));
    for (int64_t i = 0; i < tensor_count(x); i++) {
        double value = draw(-9, 9);
        dtype_convert((char *)x.data + i, dtype, &value, F64, 1);
    }
    return wide ? tensor_slice(x, 1, 3, C) : x;
}

/* The last two are deeper than a pass of gemm. */
static const struct { int64_t T, K, C; } linear_fp8[] = {
    { 1, 1, 1 }, { 3, 5, 7 }, { 17, 33, 300 }, { 270, 70, 40 }, { 33, 31, 1000 }, { 5, 9, 3301 }, { 3301, 9, 5 },
};
enum { LINEAR_FP8 = sizeof linear_fp8 / sizeof *linear_fp8 };

/* y, x, w and scales */
static bool make_fp8_matmul_forward(Arguments *a, int variant)
{
    int64_t T = linear_fp8[variant % LINEAR_FP8].T, K = linear_fp8[variant % LINEAR_FP8].K,
            C = linear_fp8[variant % LINEAR_FP8].C;
    bool wide = variant >= LINEAR_FP8;
    a->fp8_matmul_forward = (Fp8MatmulForward){
        .y_TK = matrix(T, K, wide), .x_TC = bytes(F8_E4M3, T, C, wide), .w_KC = bytes(F8_E4M3, K, C, wide),
        .x_scale_1 = between(0.01, 100, 1), .w_scale_1 = between(0.01, 100, 1) };
    if (variant % 2) a->fp8_matmul_forward.bias_K = real(K);
    return variant < 2 * LINEAR_FP8;
}

static bool make_fp8_matmul_backward_input(Arguments *a, int variant)
{
    int64_t T = linear_fp8[variant % LINEAR_FP8].T, C = linear_fp8[variant % LINEAR_FP8].K,
            K = linear_fp8[variant % LINEAR_FP8].C;
    bool wide = variant >= LINEAR_FP8;
    a->fp8_matmul_backward_input = (Fp8MatmulBackwardInput){
        .dx_TC = matrix(T, C, wide), .dy_TK = bytes(drawn_fp8, T, K, wide), .w_KC = bytes(F8_E4M3, K, C, wide),
        .dy_scale_1 = between(0.01, 100, 1), .w_scale_1 = between(0.01, 100, 1) };
    return variant < 2 * LINEAR_FP8;
}

static bool make_fp8_matmul_backward_weight(Arguments *a, int variant)
{
    int64_t T = linear_fp8[variant % LINEAR_FP8].T, K = linear_fp8[variant % LINEAR_FP8].K,
            C = linear_fp8[variant % LINEAR_FP8].C;
    bool wide = variant >= LINEAR_FP8;
    a->fp8_matmul_backward_weight = (Fp8MatmulBackwardWeight){
        .dw_KC = matrix(K, C, wide), .dy_TK = bytes(drawn_fp8, T, K, wide), .x_TC = bytes(F8_E4M3, T, C, wide),
        .dy_scale_1 = between(0.01, 100, 1), .x_scale_1 = between(0.01, 100, 1) };
    return variant < 2 * LINEAR_FP8;
}

/* An infinity is an amax. That a NaN is none: fp8_test.c. */
static bool make_fp8_amax(Arguments *a, int variant)
{
    a->fp8_amax = (Fp8Amax){ .amax_1 = between(0, 1, 1), .x_TC = matrix(variant ? 90 : 3, 601, variant == 1) };
    if (variant == 2) *element(a->fp8_amax.x_TC, 700) = -INFINITY;
    if (variant == 3) *element(a->fp8_amax.amax_1, 0) = 4;
    return variant < 4;
}

/* Scales that leave subnormal numbers, and such that saturate. */
static bool make_fp8_quantize(Arguments *a, int variant)
{
    static const double scale[] = { 1, 0x1p-7, 500, 0x1p18 };
    int64_t T = variant % 2 ? 90 : 3, C = 601;
    if (variant >= 8) return false;
    a->fp8_quantize = (Fp8Quantize){ .q_TC = bytes(drawn_fp8, T, C, variant % 2), .x_TC = matrix(T, C, variant % 2),
                                     .scale_1 = between(scale[variant / 2], scale[variant / 2], 1) };
    if (variant % 2) a->fp8_quantize.amax_1 = between(0, 1, 1);
    if (variant == 4) *element(a->fp8_quantize.x_TC, 700) = -INFINITY;
    return true;
}

/* Histories of several lengths, or none; the tensors of a kind are every third. Some amax are 0, infinite, tiny. */
static bool make_fp8_scale(Arguments *a, int variant)
{
    int64_t N = 5, L = variant / 2 % 4;
    a->fp8_scale = (Fp8Scale){ .scale_NK = tensor_slice(between(1, 9, N, 3), 1, 1, 2),
        .amax_NK = tensor_slice(between(0, 4, N, 3), 1, 1, 2), .format = variant % 3 ? F8_E4M3 : F8_E5M2,
        .margin = variant % 4, .most_recent = variant & 1 };
    if (L > 0) a->fp8_scale.history_NKL = tensor_slice(between(0, 4, N, 3, L + 1), 1, 1, 2);
    *element(a->fp8_scale.amax_NK, 3) = 0;
    *element(a->fp8_scale.amax_NK, 4) = INFINITY;
    return variant < 12;
}

/* ---- weights in 8-bit integers ---- */

/* One block and panel or less of them, several, and tails of both; more rows than a tile and than a piece of work. */
static const struct { int64_t T, K, C; } linear_int8[] = {
    { 1, 1, 1 }, { 3, 5, 7 }, { 1, 64, 128 }, { 5, 33, 300 }, { 7, 47, 64 }, { 16, 70, 200 }, { 210, 40, 130 },
};
enum { LINEAR_INT8 = sizeof linear_int8 / sizeof *linear_int8 };

static Tensor int8_codes(int64_t K, int64_t C)             /* any codes but -128 */
{
    Tensor x = fixture_new(U8, false, DIMS(int8_panels(K), int8_blocks(C), INT8_BYTES));
    for (int64_t i = 0; i < tensor_count(x); i++) ((uint8_t *)x.data)[i] = (uint8_t)floor(draw(1, 256));
    return x;
}

static Tensor int8_scales(int64_t K, int64_t C)
{
    return between(0, 0.01, int8_panels(K), int8_blocks(C), INT8_ROWS);
}

/* A row of zeros has the scale 0, and so has a block of numbers that are as small as no scale is. */
static bool make_int8_quantize(Arguments *a, int variant)
{
    if (variant >= 2 * LINEAR_INT8) return false;
    int64_t K = linear_int8[variant % LINEAR_INT8].K, C = linear_int8[variant % LINEAR_INT8].C;
    a->int8_quantize = (Int8Quantize){ int8_codes(K, C), int8_scales(K, C), matrix(K, C, variant >= LINEAR_INT8) };
    for (int64_t c = 0; c < C && K > 4; c++) *element(a->int8_quantize.w_KC, 4 * C + c) = 0;
    return true;
}

static bool make_int8_dequantize(Arguments *a, int variant)
{
    if (variant >= 2 * LINEAR_INT8) return false;
    int64_t K = linear_int8[variant % LINEAR_INT8].K, C = linear_int8[variant % LINEAR_INT8].C;
    a->int8_dequantize = (Int8Dequantize){ matrix(K, C, variant >= LINEAR_INT8), int8_codes(K, C), int8_scales(K, C) };
    return true;
}

static bool make_int8_matmul_forward(Arguments *a, int variant)
{
    if (variant >= 2 * LINEAR_INT8) return false;
    int64_t T = linear_int8[variant % LINEAR_INT8].T, K = linear_int8[variant % LINEAR_INT8].K,
            C = linear_int8[variant % LINEAR_INT8].C;
    bool wide = variant >= LINEAR_INT8;
    a->int8_matmul_forward = (Int8MatmulForward){ matrix(T, K, wide), matrix(T, C, wide), int8_codes(K, C),
                                                  int8_scales(K, C), variant % 2 ? real(K) : tensor_none() };
    return true;
}
#endif
