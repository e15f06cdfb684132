#ifndef TESTS_TENSOR_OPS_EXPERTS_H
#define TESTS_TENSOR_OPS_EXPERTS_H
/* Cases of the rows of a mixture of experts for ops_test.c. */
#include "ops_fixture.h"
#include "tensor/int8.h"

static inline Tensor ints_of(const int64_t *dim, int dims, int low, int high)       /* low .. high - 1 */
{
    Tensor x = fixture_new(I32, false, dim, dims);
    for (int64_t i = 0; i < tensor_count(x); i++) ((int32_t *)x.data)[i] = (int32_t)floor(draw(low, high));
    return x;
}

/* Multiples of a fourth: many are equal. */
static inline Tensor coarse(int64_t T, int64_t E)
{
    Tensor x = between(-2, 2, T, E);
    for (int64_t i = 0; i < T * E; i++) *element(x, i) = floor(4 * *element(x, i)) / 4;
    return x;
}

static const struct { int64_t T, E, K; RouteRule rule; } route_case[] = {
    { 37, 8, 2, { ROUTE_SOFTMAX, false, 0, 0, 0, 1 } },   { 37, 8, 2, { ROUTE_SOFTMAX, true, 0, 0, 0, 1 } },
    { 37, 8, 2, { ROUTE_SIGMOID, false, 0, 0, 0, 2.5 } }, { 5, 1, 1, { ROUTE_SOFTMAX, false, 0, 0, 0, 1 } },
    { 9, 4, 4, { ROUTE_SOFTMAX, true, 0, 0, 0, 1 } },     { 9, 6, 1, { ROUTE_SIGMOID, false, 0, 0, 0, 1 } },
    { 300, 256, 8, { ROUTE_SIGMOID, false, 8, 4, 0, 2.5 } }, { 50, 16, 4, { ROUTE_SOFTMAX, true, 4, 2, 0, 16 } },
    { 40, 16, 4, { ROUTE_SOFTMAX, true, 4, 2, 1, 1 } },
};
enum { ROUTE_CASES = sizeof route_case / sizeof *route_case };

/* With and without bias; logits of which many are equal, and such that none are. */
static bool make_route_forward(Arguments *a, int variant)
{
    if (variant >= 4 * ROUTE_CASES) return false;
    int64_t T = route_case[variant / 4].T, E = route_case[variant / 4].E, K = route_case[variant / 4].K;
    a->route_forward = (RouteForward){ .weight_TK = matrix(T, K, variant & 1), .rule = route_case[variant / 4].rule,
        .expert_TK = fixture_new(I32, false, DIMS(T, K)),
        .logits_TE = variant & 1 ? between(-4, 4, T, E) : coarse(T, E) };
    if (variant & 2) a->route_forward.bias_E = between(-0.3, 0.3, E);
    return true;
}

static bool make_route_backward(Arguments *a, int variant)
{
    if (variant >= ROUTE_CASES) return false;
    int64_t T = route_case[variant].T, E = route_case[variant].E, K = route_case[variant].K;
    Tensor expert = fixture_new(I32, false, DIMS(T, K));
    for (int64_t i = 0; i < T * K; i++) ((int32_t *)expert.data)[i] = (int32_t)((3 * (i / K) + i % K) % E);
    a->route_backward = (RouteBackward){ .dlogits_TE = matrix(T, E, true), .dweight_TK = real(T, K),
        .logits_TE = between(-4, 4, T, E), .expert_TK = expert, .rule = route_case[variant].rule };
    return true;
}

static bool make_balance_count(Arguments *a, int variant)
{
    int64_t T = 29, E = 8;
    a->balance_count = (BalanceCount){ .count_GE = matrix(4, E, false), .logits_TE = variant & 1 ? real(T, E) : coarse(T, E),
        .topk = 1 + variant, .first = 5, .length = variant < 2 ? 11 : 100 };
    return variant < 4;
}

static bool make_balance_backward(Arguments *a, int variant)
{
    int64_t T = 29, E = 8;
    a->balance_backward = (BalanceBackward){ .dlogits_TE = real(T, E), .logits_TE = between(-4, 4, T, E),
        .count_GE = between(0, 20, 4, E), .score = variant & 1 ? ROUTE_SIGMOID : ROUTE_SOFTMAX,
        .topk = 2, .first = 5, .length = 11, .tokens = 22, .coefficient = variant & 2 ? 0 : 0.01, .z_coefficient = 1e-3 };
    if (variant & 4) a->balance_backward.loss_2 = real(2);
    return variant < 8;
}

/* Parts of the experts, ranks that hold shards of one, and what is kept. */
static bool make_route_sort(Arguments *a, int variant)
{
    int64_t T = variant ? 61 : 1, K = 3, J = 1 + variant % 3, R = J * (1 << variant % 4), X = 8 / (R / J);
    Tensor expert = fixture_new(I32, false, DIMS(T, K));
    for (int64_t i = 0; i < T; i++)
        for (int64_t k = 0, first = (int64_t)floor(draw(0, 8)); k < K; k++)
            ((int32_t *)expert.data)[i * K + k] = (int32_t)(i % 3 ? (first + k) % 8 : k);    /* unequal loads */
    a->route_sort = (RouteSort){ .row_TKJ = fixture_new(I32, false, DIMS(T, K, J)),
        .slot_N = fixture_new(I32, false, DIMS(T * K * J + (variant & 1))), .count_RX = fixture_new(I32, false, DIMS(R, X)),
        .expert_TK = expert, .weight_TK = coarse(T, K), .capacity = variant < 6 ? 0 : variant, .by_position = variant & 1 };
    return variant < 24;
}

static bool make_load_add(Arguments *a, int variant)
{
    a->load_add = (LoadAdd){ .load_E1 = real(9), .count_RX = ints_of(DIMS(variant ? 8 : 4, 2), 0, 50), .copies = 400 };
    return variant < 2;
}

/* row [T, K, J] and slot as route_sort leaves them, for a matrix of N rows */
typedef struct { Tensor row, slot; } Copies;
static Copies copies_of(int64_t T, int64_t K, int64_t J, int64_t N)
{
    Copies copies = { fixture_new(I32, false, DIMS(T, K, J)), fixture_new(I32, false, DIMS(N)) };
    for (int64_t n = 0; n < N; n++) ((int32_t *)copies.slot.data)[n] = -1;
    for (int64_t i = 0; i < T * K * J; i++) {
        int64_t n = (i * 7 + 3) % (T * K * J);             /* a permutation where 7 does not divide the number */
        bool dropped = i / J % 5 == 4;
        ((int32_t *)copies.row.data)[i] = dropped ? -1 : (int32_t)n;
        if (!dropped) ((int32_t *)copies.slot.data)[n] = (int32_t)(i / J);
    }
    return copies;
}

static const struct { int64_t T, K, J, N, C; } rows_case[] = {
    { 1, 1, 1, 1, 1 }, { 11, 2, 1, 22, 33 }, { 11, 2, 2, 50, 700 }, { 40, 8, 1, 320, 20 } };

static bool make_expert_gather(Arguments *a, int variant)
{
    if (variant >= 8) return false;
    int64_t T = rows_case[variant / 2].T, K = rows_case[variant / 2].K, N = rows_case[variant / 2].N,
            C = rows_case[variant / 2].C;
    a->expert_gather = (ExpertGather){ .y_NC = matrix(N, C, true), .x_TC = matrix(T, C, true), .K = K,
        .slot_N = copies_of(T, K, rows_case[variant / 2].J, N).slot };
    if (variant & 1) a->expert_gather.weight_TK = real(T, K);
    return true;
}

static bool make_expert_combine(Arguments *a, int variant)
{
    if (variant >= 12) return false;
    int64_t T = rows_case[variant / 3].T, K = rows_case[variant / 3].K, N = rows_case[variant / 3].N,
            C = rows_case[variant / 3].C;
    a->expert_combine = (ExpertCombine){ .y_TC = matrix(T, C, true), .x_NC = matrix(N, C, true),
        .row_TKJ = copies_of(T, K, rows_case[variant / 3].J, N).row };
    if (variant % 3) a->expert_combine.weight_TK = real(T, K);
    if (variant % 3 == 2) a->expert_combine.residual_TC = real(T, C);
    return true;
}

static bool make_expert_combine_backward_weight(Arguments *a, int variant)
{
    if (variant >= 4) return false;
    int64_t T = rows_case[variant].T, K = rows_case[variant].K, N = rows_case[variant].N, C = rows_case[variant].C;
    a->expert_combine_backward_weight = (ExpertCombineBackwardWeight){ .dweight_TK = matrix(T, K, true), .dy_TC = matrix(T, C, true),
        .x_NC = matrix(N, C, true), .row_TKJ = copies_of(T, K, rows_case[variant].J, N).row };
    return true;
}

/* Segments: empty ones, one row, and many; some rows after the last. */
static const int32_t segments[][6] = { { 0, 0, 0, 0, 0, 0 }, { 1, 0, 5, 0, 70, 3 }, { 270, 0, 0, 1, 20, 33 } };

static Tensor counts_of(int variant)
{
    Tensor count = fixture_new(I32, false, DIMS(2, 3));
    memcpy(count.data, segments[variant], sizeof segments[variant]);
    return count;
}

static bool make_grouped_matmul_forward(Arguments *a, int variant)
{
    if (variant >= 6) return false;
    int64_t M = 330, F = variant < 3 ? 37 : 130, C = variant < 3 ? 20 : 530;
    a->grouped_matmul_forward = (GroupedMatmulForward){ .y_MF = matrix(M, F, true), .x_MC = matrix(M, C, variant & 1),
        .w_XFC = real(3, F, C), .count_RX = counts_of(variant % 3), .rows = 7 };
    return true;
}

static bool make_grouped_int8_matmul_forward(Arguments *a, int variant)
{
    if (variant >= 6) return false;
    int64_t M = 330, F = variant < 3 ? 37 : 130, C = variant < 3 ? 20 : 530;
    Tensor code = fixture_new(U8, false, DIMS(3, int8_panels(F), int8_blocks(C), INT8_BYTES));
    for (int64_t i = 0; i < tensor_count(code); i++) ((uint8_t *)code.data)[i] = (uint8_t)floor(draw(1, 256));
    a->grouped_int8_matmul_forward = (GroupedInt8MatmulForward){ .y_MF = matrix(M, F, true), .x_MC = matrix(M, C, variant & 1),
        .code_XPBN = code, .scale_XPBR = between(0, 0.01, 3, int8_panels(F), int8_blocks(C), INT8_ROWS),
        .count_RX = counts_of(variant % 3), .rows = 7 };
    return true;
}

static bool make_grouped_matmul_backward_input(Arguments *a, int variant)
{
    if (variant >= 6) return false;
    int64_t M = 330, F = variant < 3 ? 37 : 130, C = variant < 3 ? 20 : 530;
    a->grouped_matmul_backward_input = (GroupedMatmulBackwardInput){ .dx_MC = matrix(M, C, true),
        .dy_MF = matrix(M, F, variant & 1), .w_XFC = real(3, F, C), .count_RX = counts_of(variant % 3),
        .add = variant & 1 };
    return true;
}

static bool make_grouped_matmul_backward_weight(Arguments *a, int variant)
{
    if (variant >= 6) return false;
    int64_t M = 330, F = variant < 3 ? 37 : 130, C = variant < 3 ? 20 : 530;
    a->grouped_matmul_backward_weight = (GroupedMatmulBackwardWeight){ .dw_XFC = real(3, F, C),
        .dy_MF = matrix(M, F, variant & 1), .x_MC = matrix(M, C, true), .count_RX = counts_of(variant % 3) };
    return true;
}

static bool make_grouped_activation_forward(Arguments *a, int variant)
{
    int64_t M = 330, F = 40, kind = variant & 1 ? ACT_SWIGLU : ACT_GELU_TANH, wide = ACT_GATED(kind) ? 2 * F : F;
    a->grouped_activation_forward = (GroupedActivationForward){ .y_MF = real(M, F), .x_MF = matrix(M, wide, true),
        .count_RX = counts_of(variant / 2 % 3), .kind = (int)kind };
    return variant < 6;
}

static bool make_grouped_activation_backward(Arguments *a, int variant)
{
    int64_t M = 330, F = 40, kind = variant & 1 ? ACT_SWIGLU : ACT_GELU_TANH, wide = ACT_GATED(kind) ? 2 * F : F;
    a->grouped_activation_backward = (GroupedActivationBackward){ .dx_MF = matrix(M, wide, true), .dy_MF = real(M, F),
        .x_MF = real(M, wide), .count_RX = counts_of(variant / 2 % 3), .kind = (int)kind };
    return variant < 6;
}

static bool make_row_gate_forward(Arguments *a, int variant)
{
    a->row_gate_forward = (RowGateForward){ .y_TC = matrix(23, 530, variant & 1), .z_T = between(-4, 4, 23), .x_TC = real(23, 530) };
    return variant < 2;
}

static bool make_row_gate_backward(Arguments *a, int variant)
{
    a->row_gate_backward = (RowGateBackward){ .dx_TC = matrix(23, 530, variant & 1), .dz_T = real(23), .dy_TC = real(23, 530),
        .z_T = between(-4, 4, 23), .x_TC = real(23, 530) };
    return variant < 2;
}

static bool make_expert_bias_update(Arguments *a, int variant)
{
    a->expert_bias_update = (ExpertBiasUpdate){ .bias_LE = real(3, 8), .load_LE = between(0, 9, 3, 11), .rate = 1e-3 };
    for (int e = 0; e < 8; e++) *element(a->expert_bias_update.load_LE, e) = variant ? 4 : floor(draw(0, 9));
    return variant < 2;
}

static bool make_load_summary(Arguments *a, int variant)
{
    a->load_summary = (LoadSummary){ .summary_S = real(4), .load_LE = between(0, 9, 3, 11) };
    for (int e = 0; e < 8 && variant; e++) *element(a->load_summary.load_LE, e) = 0;
    return variant < 2;
}
#endif
