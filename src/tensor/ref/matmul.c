/* Linear maps and their gradients: three matrix products and the column sums of a bias.
 * T rows   C channels in   K channels out   w [K, C] */
#include "tensor/ref/ref.h"

/* y = x wT + bias */
REF(matmul_forward, MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT_LINEAR(a->y_TK, a->x_TC, a->w_KC);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < K; k++) {
            double sum = tensor_present(a->bias_K) ? *at1(a->bias_K, k) : 0;
            for (int64_t c = 0; c < C; c++) sum += *at2(a->x_TC, t, c) * *at2(a->w_KC, k, c);
            *at2(a->y_TK, t, k) = sum;
        }
}

/* h = x wT,  y = act(h + bias) */
REF(matmul_activation_forward, MatmulActivationForward)
{
    ref_matmul_forward(q, &(MatmulForward){ .y_TK = a->h_TK, .x_TC = a->x_TC, .w_KC = a->w_KC });
    ref_activation_forward(q, &(ActivationForward){ .y_TF = a->y_TF, .x_TF = a->h_TK, .bias_F = a->bias_K,
        .kind = a->kind });
}

/* y = residual + drop(x wT + bias) */
REF(matmul_residual_forward, MatmulResidualForward)
{
    CHECK(tensor_count(a->y_TK) == 0 || a->y_TK.data != a->residual_TK.data,
          "y holds the product before residual is read");
    ref_matmul_forward(q, &(MatmulForward){ .y_TK = a->y_TK, .x_TC = a->x_TC, .w_KC = a->w_KC });
    ref_dropout_forward(q, &(DropoutForward){ .y_TC = a->y_TK, .residual_TC = a->residual_TK, .x_TC = a->y_TK,
        .bias_C = a->bias_K, .dropout_index_i = a->dropout_index_i, .p = a->p, .site = a->site });
}

/* dx = dy w */
REF(matmul_backward_input, MatmulBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1], K = a->dy_TK.dim[1];
    WANT_LINEAR(a->dy_TK, a->dx_TC, a->w_KC);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++) sum += *at2(a->dy_TK, t, k) * *at2(a->w_KC, k, c);
            *at2(a->dx_TC, t, c) = sum;
        }
}

/* dw += dyT x */
REF(matmul_backward_weight, MatmulBackwardWeight)
{
    int64_t K = a->dw_KC.dim[0], C = a->dw_KC.dim[1], T = a->x_TC.dim[0];
    WANT_LINEAR(a->dy_TK, a->x_TC, a->dw_KC);
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += *at2(a->dy_TK, t, k) * *at2(a->x_TC, t, c);
            *at2(a->dw_KC, k, c) += sum;
        }
}

/* db += sums of the columns of dy */
REF(bias_backward, BiasBackward)
{
    int64_t T = a->dy_TK.dim[0], K = a->dy_TK.dim[1];
    WANT(a->db_K, K);
    WANT(a->dy_TK, T, K);
    for (int64_t k = 0; k < K; k++) {
        double sum = 0;
        for (int64_t t = 0; t < T; t++) sum += *at2(a->dy_TK, t, k);
        *at1(a->db_K, k) += sum;
    }
}
