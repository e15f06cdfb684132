/* Copies of tokens for experts and back, and the linear maps of experts. T tokens   K experts of a token   J
 * copies for one expert   N, M rows of copies   R ranks   X experts held here */
#include "tensor/ref/ref.h"

REF(expert_gather, ExpertGather)
{
    int64_t N = a->slot_N.dim[0], T = a->x_TC.dim[0], C = a->x_TC.dim[1], K = a->K;
    WANT(a->y_NC, N, C);
    WANT(a->x_TC, T, C);
    WANT(a->slot_N, N);
    if (tensor_present(a->weight_TK)) WANT(a->weight_TK, T, K);
    for (int64_t n = 0; n < N; n++) {
        int32_t slot = int1(a->slot_N, n);
        CHECK(slot < T * K, "row %lld is of copy %d of %lld", (long long)n, slot, (long long)(T * K));
        for (int64_t c = 0; c < C && slot >= 0; c++) {
            double weight = tensor_present(a->weight_TK) ? *at2(a->weight_TK, slot / K, slot % K) : 1;
            *at2(a->y_NC, n, c) = weight * *at2(a->x_TC, slot / K, c);
        }
    }
}

/* sum over j of x[row[t, k, j], c] */
static double row_sum(Tensor x_NC, Tensor row_TKJ, int64_t i, int64_t c)
{
    double sum = 0;
    for (int64_t j = 0; j < row_TKJ.dim[2]; j++) {
        int32_t row = *int_at(row_TKJ, i * row_TKJ.dim[2] + j);
        CHECK(row < x_NC.dim[0], "row %d of %lld", row, (long long)x_NC.dim[0]);
        if (row >= 0) sum += *at2(x_NC, row, c);
    }
    return sum;
}

REF(expert_combine, ExpertCombine)
{
    int64_t T = a->row_TKJ.dim[0], K = a->row_TKJ.dim[1], N = a->x_NC.dim[0], C = a->x_NC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_NC, N, C);
    WANT(a->row_TKJ, T, K, a->row_TKJ.dim[2]);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, T, C);
    if (tensor_present(a->weight_TK)) WANT(a->weight_TK, T, K);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            double sum = tensor_present(a->residual_TC) ? *at2(a->residual_TC, t, c) : 0;
            for (int64_t k = 0; k < K; k++)
                sum += (tensor_present(a->weight_TK) ? *at2(a->weight_TK, t, k) : 1) *
                       row_sum(a->x_NC, a->row_TKJ, t * K + k, c);
            *at2(a->y_TC, t, c) = sum;
        }
}

REF(expert_combine_backward_weight, ExpertCombineBackwardWeight)
{
    int64_t T = a->row_TKJ.dim[0], K = a->row_TKJ.dim[1], N = a->x_NC.dim[0], C = a->x_NC.dim[1];
    WANT(a->dweight_TK, T, K);
    WANT(a->dy_TC, T, C);
    WANT(a->x_NC, N, C);
    WANT(a->row_TKJ, T, K, a->row_TKJ.dim[2]);
    for (int64_t i = 0; i < T * K; i++) {
        double sum = 0;
        for (int64_t c = 0; c < C; c++) sum += *at2(a->dy_TC, i / K, c) * row_sum(a->x_NC, a->row_TKJ, i, c);
        *at2(a->dweight_TK, i / K, i % K) = sum;
    }
}

/* The rows [first, first + count) of segment i of count_RX, and expert x; false when there are no more
 * segments. */
typedef struct { int64_t i, first, count, x; } Segment;

static bool segment_next(Segment *s, Tensor count_RX)
{
    if (s->i == count_RX.dim[0] * count_RX.dim[1]) return false;
    s->first += s->count;
    s->count = *int_at(count_RX, s->i);
    s->x     = s->i++ % count_RX.dim[1];
    return true;
}

static Tensor rows_of(Tensor x_MC, const Segment *s) { return tensor_slice(x_MC, 0, s->first, s->count); }
static Tensor expert_of(Tensor w_XFC, const Segment *s)
{
    return (Tensor){ .data = at1(w_XFC, s->x), .dim = { w_XFC.dim[1], w_XFC.dim[2], 1, 1 },
                     .stride = { w_XFC.stride[1], w_XFC.stride[2], 1, 1 }, .dtype = w_XFC.dtype };
}

#define WANT_GROUPED(y, x, w, count)                           \
    do {                                                       \
        WANT(y, (x).dim[0], (w).dim[1]);                       \
        WANT(x, (x).dim[0], (w).dim[2]);                       \
        WANT(w, (count).dim[1], (w).dim[1], (w).dim[2]);       \
        WANT(count, (count).dim[0], (count).dim[1]);           \
    } while (0)

REF(grouped_matmul_forward, GroupedMatmulForward)
{
    WANT_GROUPED(a->y_MF, a->x_MC, a->w_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);)
        ref_matmul_forward(q, &(MatmulForward){ .y_TK = rows_of(a->y_MF, &s), .x_TC = rows_of(a->x_MC, &s),
            .w_KC = expert_of(a->w_XFC, &s) });
}

/* Codes or scales of one expert */
static Tensor panels_of(Tensor x_XPB, const Segment *s)
{
    return tensor_view(tensor_slice(x_XPB, 0, s->x, 1), x_XPB.dim[1], x_XPB.dim[2], x_XPB.dim[3]);
}

REF(grouped_int8_matmul_forward, GroupedInt8MatmulForward)
{
    WANT(a->count_RX, a->count_RX.dim[0], a->code_XPBN.dim[0]);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);)
        ref_int8_matmul_forward(q, &(Int8MatmulForward){ .y_TK = rows_of(a->y_MF, &s),
            .x_TC = rows_of(a->x_MC, &s), .code_PBN = panels_of(a->code_XPBN, &s),
            .scale_PBR = panels_of(a->scale_XPBR, &s) });
}

REF(grouped_matmul_backward_input, GroupedMatmulBackwardInput)
{
    WANT_GROUPED(a->dy_MF, a->dx_MC, a->w_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);) {
        Tensor w_FC = expert_of(a->w_XFC, &s);
        for (int64_t m = s.first; m < s.first + s.count; m++)
            for (int64_t c = 0; c < w_FC.dim[1]; c++) {
                double sum = a->add ? *at2(a->dx_MC, m, c) : 0;
                for (int64_t f = 0; f < w_FC.dim[0]; f++) sum += *at2(a->dy_MF, m, f) * *at2(w_FC, f, c);
                *at2(a->dx_MC, m, c) = sum;
            }
    }
}

REF(grouped_matmul_backward_weight, GroupedMatmulBackwardWeight)
{
    WANT_GROUPED(a->dy_MF, a->x_MC, a->dw_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);)
        ref_matmul_backward_weight(q, &(MatmulBackwardWeight){ .dw_KC = expert_of(a->dw_XFC, &s),
            .dy_TK = rows_of(a->dy_MF, &s), .x_TC = rows_of(a->x_MC, &s) });
}

/* Rows of all segments. */
static int64_t rows_used(Tensor count_RX)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < tensor_count(count_RX); i++) rows += *int_at(count_RX, i);
    return rows;
}

REF(grouped_activation_forward, GroupedActivationForward)
{
    int64_t rows = rows_used(a->count_RX);
    ref_activation_forward(q, &(ActivationForward){ .y_TF = tensor_slice(a->y_MF, 0, 0, rows),
        .x_TF = tensor_slice(a->x_MF, 0, 0, rows), .kind = a->kind });
}

REF(grouped_activation_backward, GroupedActivationBackward)
{
    int64_t rows = rows_used(a->count_RX);
    ref_activation_backward(q, &(ActivationBackward){ .dx_TF = tensor_slice(a->dx_MF, 0, 0, rows),
        .dy_TF = tensor_slice(a->dy_MF, 0, 0, rows), .x_TF = tensor_slice(a->x_MF, 0, 0, rows),
        .kind = a->kind });
}

/* y = sigmoid(z) x */
REF(row_gate_forward, RowGateForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->z_T, T);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++)
            *at2(a->y_TC, t, c) = *at2(a->x_TC, t, c) / (1 + exp(-*at1(a->z_T, t)));
}

/* dx = s dy,  dz = s (1 - s) (dy . x) with s = sigmoid(z) */
REF(row_gate_backward, RowGateBackward)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->z_T, T);
    WANT(a->dz_T, T);
    for (int64_t t = 0; t < T; t++) {
        double s = 1 / (1 + exp(-*at1(a->z_T, t))), dot = 0;
        for (int64_t c = 0; c < C; c++) {
            dot += *at2(a->dy_TC, t, c) * *at2(a->x_TC, t, c);
            *at2(a->dx_TC, t, c) = s * *at2(a->dy_TC, t, c);
        }
        *at1(a->dz_T, t) = s * (1 - s) * dot;
    }
}
