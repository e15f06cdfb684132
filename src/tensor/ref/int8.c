/* Linear maps with weights in 8 bits.
 * T rows   C channels in   K channels out   P panels   B blocks   R rows of a panel */
#include "tensor/int8.h"
#include "tensor/ref/ref.h"

#define WANT_INT8(code, scale, K, C)                                          \
    do {                                                                      \
        WANT(code, int8_panels(K), int8_blocks(C), INT8_BYTES);               \
        WANT(scale, int8_panels(K), int8_blocks(C), INT8_ROWS);               \
    } while (0)

/* The scale and the codes of block b of row t of x, whose channels beyond the last are zeros. */
static float block_of(int8_t code[INT8_BLOCK], Tensor x, int64_t t, int64_t b)
{
    float block[INT8_BLOCK] = { 0 };
    for (int64_t c = b * INT8_BLOCK; c < x.dim[1] && c < (b + 1) * INT8_BLOCK; c++)
        block[c - b * INT8_BLOCK] = (float)*at2(x, t, c);
    float scale = int8_scale(block, INT8_BLOCK), inverse = int8_inverse(scale);
    for (int i = 0; i < INT8_BLOCK; i++) code[i] = int8_code(block[i], inverse);
    return scale;
}

REF(int8_quantize, Int8Quantize)
{
    int64_t K = a->w_KC.dim[0], C = a->w_KC.dim[1], blocks = int8_blocks(C);
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->w_KC, K, C);
    uint8_t *byte = a->code_PBN.data;
    double  *scale = a->scale_PBR.data;
    for (int64_t i = 0; i < tensor_count(a->code_PBN); i++) byte[i] = INT8_ZERO;
    for (int64_t i = 0; i < tensor_count(a->scale_PBR); i++) scale[i] = 0;
    for (int64_t k = 0; k < K; k++)
        for (int64_t b = 0; b < blocks; b++) {
            int8_t code[INT8_BLOCK];
            int64_t c = b * INT8_BLOCK;
            scale[int8_scale_place(k, c, blocks)] = (double)block_of(code, a->w_KC, k, b);
            for (int i = 0; i < INT8_BLOCK; i++)
                byte[int8_place(k, c + i, blocks)] = (uint8_t)(code[i] + INT8_ZERO);
        }
}

static int code_at(Tensor code_PBN, int64_t k, int64_t c)
{
    return ((const uint8_t *)code_PBN.data)[int8_place(k, c, code_PBN.dim[1])] - INT8_ZERO;
}

static double scale_at(Tensor scale_PBR, int64_t k, int64_t c)
{
    return ((const double *)scale_PBR.data)[int8_scale_place(k, c, scale_PBR.dim[1])];
}

REF(int8_dequantize, Int8Dequantize)
{
    int64_t K = a->w_KC.dim[0], C = a->w_KC.dim[1];
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->w_KC, K, C);
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < C; c++)
            *at2(a->w_KC, k, c) = code_at(a->code_PBN, k, c) * scale_at(a->scale_PBR, k, c);
}

/* y = x wT + bias with both quantized */
REF(int8_matmul_forward, Int8MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->y_TK, T, K);
    WANT(a->x_TC, T, C);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < K; k++) {
            double sum = tensor_present(a->bias_K) ? *at1(a->bias_K, k) : 0;
            for (int64_t b = 0; b < int8_blocks(C); b++) {
                int8_t x[INT8_BLOCK];
                double scale = (double)block_of(x, a->x_TC, t, b), products = 0;
                for (int64_t i = 0; i < INT8_BLOCK; i++)
                    products += x[i] * code_at(a->code_PBN, k, b * INT8_BLOCK + i);
                sum += products * scale * scale_at(a->scale_PBR, k, b * INT8_BLOCK);
            }
            *at2(a->y_TK, t, k) = sum;
        }
}
