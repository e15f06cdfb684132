/* Every backward row of ref against differences of its forward, in double: the slope of sum(y dy) along a
 * random direction v is sum(dx v). Accumulating rows begin with random numbers, which must still be there
 * afterwards. */
#include "ops_fixture.h"

typedef struct { int op; Arguments a; } Step;
#define STEP(row, Struct, ...) (Step){ OP_##row, { .row = (Struct){ __VA_ARGS__ } } }
#define STEPS(...)         (const Step[]){ __VA_ARGS__ }, (int)(sizeof (Step[]){ __VA_ARGS__ } / sizeof(Step))

static Queue q;
static bool  checked[OP_COUNT];                     /* the backward rows that were held against differences */

static void backward(Step step)
{
    perform(&q, step.op, &step.a);
    checked[step.op] = true;
}

static Tensor alike(Tensor x, double size)
{
    return fixture_real(x.dim, 4, -size, size);
}

static Tensor twin(Tensor x)                               /* a copy of what is in x */
{
    Tensor y = alike(x, 0);
    copy_strided(&q, (CopyStrided){ .y = y, .x = x });
    return y;
}

static double inner(Tensor x, Tensor y)
{
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) sum += *element(x, i) * *element(y, i);
    return sum;
}

static double moved(const Step *step, int steps, Tensor y, Tensor dy, Tensor x, Tensor v, double by)
{
    for (int64_t i = 0; i < tensor_count(x); i++) *element(x, i) += by * *element(v, i);
    for (int i = 0; i < steps; i++) perform(&q, step[i].op, &step[i].a);
    return inner(y, dy);
}

/* dx, less what it held before, is the gradient at x of sum(y dy) */
static void check(const char *what, Tensor dx, Tensor before, Tensor y, Tensor dy, Tensor x, const Step *step,
                  int steps)
{
    double h = 1e-4, f[5];
    Tensor v = alike(x, 1), stay = twin(x);
    for (int i = 0; i < 5; i++) {
        f[i] = moved(step, steps, y, dy, x, v, (i - 2) * h);
        copy_strided(&q, (CopyStrided){ .y = x, .x = stay });
    }
    double slope = (8 * (f[3] - f[1]) - (f[4] - f[0])) / (12 * h);
    double ours  = inner(dx, v) - (tensor_present(before) ? inner(before, v) : 0);
    if (!(fabs(slope - ours) <= 1e-7 * fabs(slope)) || slope == 0)
        fail_msg("%s: %.12g by differences, %.12g by backward", what, slope, ours);
}

static void test_matmul(void **state)
{
    (void)state;
    Tensor y = matrix(5, 7, true), x = matrix(5, 9, true), w = matrix(7, 9, true), bias = real(7),
           dy = matrix(5, 7, true);
    Tensor dx = matrix(5, 9, true), dw = matrix(7, 9, true), db = real(7), dw0 = twin(dw), db0 = twin(db);
    Step forward = STEP(matmul_forward, MatmulForward, .y_TK = y, .x_TC = x, .w_KC = w, .bias_K = bias);
    backward(STEP(matmul_backward_input, MatmulBackwardInput, .dx_TC = dx, .dy_TK = dy, .w_KC = w));
    backward(STEP(matmul_backward_weight, MatmulBackwardWeight, .dw_KC = dw, .dy_TK = dy, .x_TC = x));
    backward(STEP(bias_backward, BiasBackward, .db_K = db, .dy_TK = dy));
    check("matmul dx", dx, tensor_none(), y, dy, x, STEPS(forward));
    check("matmul dw", dw, dw0, y, dy, w, STEPS(forward));
    check("matmul db", db, db0, y, dy, bias, STEPS(forward));
    fixture_reset();
}

static void norm(bool centred, float offset)
{
    Tensor y = real(4, 11), x = matrix(4, 11, true), dy = real(4, 11), gain = real(11), bias = real(11),
           rstd = real(4);
    Tensor mean = centred ? real(4) : tensor_none(), shift = centred ? bias : tensor_none();
    Tensor dx = matrix(4, 11, true), dx0 = twin(dx), dgain = real(11), dbias = real(11), dgain0 = twin(dgain),
           dbias0 = twin(dbias);
    Step forward = STEP(norm_forward, NormForward, .y_TC = y, .mean_T = mean, .rstd_T = rstd, .x_TC = x,
                        .gain_C = gain, .bias_C = shift, .epsilon = 1e-2, .gain_offset = offset);
    perform(&q, forward.op, &forward.a);
    backward(STEP(norm_backward_input, NormBackwardInput, .dx_TC = dx, .dy_TC = dy, .x_TC = x, .mean_T = mean,
                  .rstd_T = rstd, .gain_C = gain, .residual_TC = dx, .gain_offset = offset));
    backward(STEP(norm_backward_weight, NormBackwardWeight, .dgain_C = dgain,
                  .dbias_C = centred ? dbias : tensor_none(), .dy_TC = dy, .x_TC = x, .mean_T = mean,
                  .rstd_T = rstd));
    check(centred ? "LayerNorm dx" : "RMSNorm dx", dx, dx0, y, dy, x, STEPS(forward));
    check(centred ? "LayerNorm dgain" : "RMSNorm dgain", dgain, dgain0, y, dy, gain, STEPS(forward));
    if (centred) check("LayerNorm dbias", dbias, dbias0, y, dy, bias, STEPS(forward));
    fixture_reset();
}

static void test_norm(void **state)
{
    (void)state;
    norm(true, 0);
    norm(false, 0);
    norm(false, 1);
    norm(true, 1);
}

/* Statistics of each head and of all, a gain for all heads and of each */
static void head_norm(bool all, bool shared, float offset)
{
    int64_t T = 4, n = 3, D = 5, M = all ? 1 : n, N = shared ? 1 : n;
    double channels = (double)(n / M * D);
    Tensor y = real(T, n, D), x = real(T, n, D), dy = real(T, n, D), dx = twin(dy), gain = real(N, D),
           dgain = real(N, D), dgain0 = twin(dgain), rstd = real(T, M), sum = real(T, M), back = real(T, M);
    Step sums = STEP(head_norm_sums, HeadNormSums, .sum_TM = sum, .x_TnD = x);
    Step forward = STEP(head_norm_forward, HeadNormForward, .y_TnD = y, .rstd_TM = rstd, .x_TnD = x,
                        .gain_ND = gain, .sum_TM = sum, .channels = channels, .epsilon = 1e-2, .gain_offset = offset);
    perform(&q, sums.op, &sums.a);
    perform(&q, forward.op, &forward.a);
    backward(STEP(head_norm_backward_weight, HeadNormBackwardWeight, .dgain_ND = dgain, .dy_TnD = dy, .x_TnD = x,
                  .rstd_TM = rstd));
    backward(STEP(head_norm_backward_sums, HeadNormBackwardSums, .sum_TM = back, .dy_TnD = dy, .x_TnD = x,
                  .rstd_TM = rstd, .gain_ND = gain, .gain_offset = offset));
    backward(STEP(head_norm_backward_input, HeadNormBackwardInput, .dx_TnD = dx, .dy_TnD = dx, .x_TnD = x,
                  .rstd_TM = rstd, .gain_ND = gain, .sum_TM = back, .channels = channels, .gain_offset = offset));
    check("head norm dx", dx, tensor_none(), y, dy, x, STEPS(sums, forward));
    check("head norm dgain", dgain, dgain0, y, dy, gain, STEPS(sums, forward));
    fixture_reset();
}

static void test_head_norm(void **state)
{
    (void)state;
    for (int form = 0; form < 8; form++) head_norm(form & 1, form & 2, form & 4 ? 1 : 0);
}

static void test_activation(void **state)
{
    static const char *const name[] = { "gelu", "gelu by erf", "squared relu", "relu", "silu", "swiglu",
                                        "geglu", "geglu by erf", "quick geglu" };
    (void)state;
    for (int kind = 0; kind < ACT_KINDS; kind++) {
        int64_t F = 13, wide = ACT_GATED(kind) ? 2 * F : F;
        Tensor y = real(3, F), dy = real(3, F), x = between(-3, 3, 3, wide), bias = real(wide),
               dx = matrix(3, wide, true);
        Tensor db = real(wide), db0 = twin(db);
        Step forward = STEP(activation_forward, ActivationForward, .y_TF = y, .x_TF = x, .bias_F = bias,
                            .kind = kind);
        backward(STEP(activation_backward, ActivationBackward, .dx_TF = dx, .dy_TF = dy, .x_TF = x,
                      .bias_F = bias, .kind = kind));
        bias_backward(&q, (BiasBackward){ .db_K = db, .dy_TK = dx });
        check(name[kind], dx, tensor_none(), y, dy, x, STEPS(forward));
        check(name[kind], db, db0, y, dy, bias, STEPS(forward));
        fixture_reset();
    }
}

static void test_dropout(void **state)
{
    (void)state;
    Tensor y = real(9, 10), x = real(9, 10), dy = real(9, 10), dx = real(9, 10), place = ints(9, 0, 1000);
    Step forward = STEP(dropout_forward, DropoutForward, .y_TC = y, .residual_TC = real(9, 10), .x_TC = x,
                        .bias_C = real(10), .dropout_index_i = place, .p = 0.4, .site = 6);
    backward(STEP(dropout_backward, DropoutBackward, .dx_TC = dx, .dy_TC = dy, .dropout_index_i = place, .p = 0.4,
                  .site = 6));
    check("dropout", dx, tensor_none(), y, dy, x, STEPS(forward));
    fixture_reset();
}

/* Halves and neighbours, of a part of the channels */
static void test_rope(void **state)
{
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        RopeRule rule = { .pairs = 3, .interleaved = interleaved, .scale = 1.5, .frequency = { 1, 0.1, 0.003 } };
        Tensor x = real(6, 3, 8), y = real(6, 3, 8), dy = real(6, 3, 8), dx = twin(dy),
               position = ints(6, 0, 3000);
        backward(STEP(rope_backward, RopeBackward, .dx_TnD = dx, .position_i = position, .rule = rule));
        check("rope", dx, tensor_none(), y, dy, x, STEPS(STEP(copy_strided, CopyStrided, .y = y, .x = x),
              STEP(rope_forward, RopeForward, .x_TnD = y, .position_i = position, .rule = rule)));
        fixture_reset();
    }
}

/* Causal and by intervals, then with linear biases; with a soft-cap and without; shared key heads, dropout, offsets */
static void attention(bool interval, double softcap)
{
    int64_t B = 2, S = 7, U = 9, H = 4, G = 2, D = 6;
    AttentionRule rule = { .q0 = 4, .k0 = 3, .head0 = 1, .heads = 8, .span = 30, .window = softcap > 0 ? 4 : 0,
                           .scale = 0.4, .softcap = softcap, .alibi = interval, .p = 0.2, .site = 2 };
    Tensor o = real(B, S, H, D), lse = real(B, S, H), delta = real(B, S, H), d_o = real(B, S, H, D);
    Tensor query = between(-2, 2, B, S, H, D), key = between(-2, 2, B, U, G, D), value = real(B, U, G, D),
           sample = ints(B, 0, 99);
    Tensor dq = real(B, S, H, D), dk = real(B, U, G, D), dv = real(B, U, G, D), dq0 = twin(dq),
           dk0 = twin(dk), dv0 = twin(dv);
    Tensor seen = interval ? visible(B, S, U + 3) : tensor_none();
    Step forward = STEP(attention_forward, AttentionForward, .o = o, .lse = lse, .q = query, .k = key,
                        .v = value, .key_range_i = seen, .sample_i = sample, .rule = rule);
    perform(&q, forward.op, &forward.a);
    attention_delta(&q, (AttentionDelta){ .delta = delta, .o = o, .d_o = d_o });
    backward(STEP(attention_backward, AttentionBackward, .dq = dq, .dk = dk, .dv = dv, .d_o = d_o, .q = query,
                  .k = key, .v = value, .lse = lse, .delta = delta, .key_range_i = seen, .sample_i = sample,
                  .rule = rule));
    check("attention dq", dq, dq0, o, d_o, query, STEPS(forward));
    check("attention dk", dk, dk0, o, d_o, key, STEPS(forward));
    check("attention dv", dv, dv0, o, d_o, value, STEPS(forward));
    fixture_reset();
}

static void test_attention(void **state)
{
    (void)state;
    attention(false, 0);
    attention(true, 0);
    attention(false, 1.5);
    attention(true, 1.5);
}

static void test_embed(void **state)
{
    (void)state;
    Tensor y = real(20, 5), dy = real(20, 5), table = matrix(12, 5, true), id = ints(20, 0, 18);
    Tensor dtable = matrix(12, 5, true), dtable0 = twin(dtable);
    backward(STEP(embed_backward, EmbedBackward, .dtable_VC = dtable, .id_i = id, .dy_TC = dy, .first = 3, .scale = 2.5));
    check("embed", dtable, dtable0, y, dy, table,
          STEPS(STEP(embed_forward, EmbedForward, .y_TC = y, .id_i = id, .table_VC = table, .first = 3, .scale = 2.5)));
    fixture_reset();
}

/* The z-loss is no output of forward: its gradient is the difference of two backwards, and that of
 * z lse^2 by the derivative of lse. */
static void xent(double softcap, double z)
{
    Tensor loss = real(6), lse = real(6), weight = real(6), x = between(-4, 4, 6, 15), logits = twin(x),
           target = ints(6, 7, 25);
    Tensor stats = real(1, 6, 3), stats_T3 = tensor_view(stats, 6, 3), dlse = real(6);
    Step copy = STEP(copy_strided, CopyStrided, .y = logits, .x = x);
    Step cap = STEP(logit_softcap, LogitSoftcap, .x_TV = logits, .softcap = softcap > 0 ? softcap : 1e9);
    Step measure = STEP(xent_stats, XentStats, .stats_T3 = stats_T3, .logits_TV = logits, .target_i = target,
                        .first = 10, .valid = 12);
    Step forward = STEP(xent_forward, XentForward, .loss_T = loss, .lse_T = lse, .stats_RT3 = stats);
    perform(&q, copy.op, &copy.a);
    perform(&q, cap.op, &cap.a);
    perform(&q, measure.op, &measure.a);
    perform(&q, forward.op, &forward.a);
    Tensor dx = twin(logits), plain = twin(logits);
    backward(STEP(xent_backward, XentBackward, .dlogits_TV = dx, .logits_TV = logits, .lse_T = lse,
                  .target_i = target, .loss_weight_T = weight, .first = 10, .valid = 12, .softcap = softcap, .z = z));
    xent_backward(&q, (XentBackward){ .dlogits_TV = plain, .logits_TV = logits, .lse_T = lse, .target_i = target,
                  .loss_weight_T = weight, .first = 10, .valid = 12, .softcap = softcap });
    for (int64_t t = 0; t < 6; t++) *element(dlse, t) = *element(weight, t) * 2 * z * *element(lse, t);
    check("xent", plain, tensor_none(), loss, weight, x, STEPS(copy, cap, measure, forward));
    if (z > 0) check("z-loss", dx, plain, lse, dlse, x, STEPS(copy, cap, measure, forward));
    fixture_reset();
}

static void test_xent(void **state)
{
    (void)state;
    xent(0, 0);
    xent(3, 0);
    xent(0, 0.2);
    xent(3, 0.2);
}

/* Weights through every rule of the router. Differences hold where no selection changes, so logits are apart. */
static void test_route(void **state)
{
    static const RouteRule rule[] = { { ROUTE_SOFTMAX, false, 0, 0, 0, 1 },   { ROUTE_SOFTMAX, true, 0, 0, 0, 1 },
                                      { ROUTE_SIGMOID, false, 0, 0, 0, 2.5 }, { ROUTE_SOFTMAX, true, 4, 2, 0, 3 },
                                      { ROUTE_SIGMOID, false, 4, 2, 0, 0.5 } };
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t T = 6, E = 8, K = i < 5 ? 2 : 4;
        Tensor logits = between(-2, 2, T, E), bias = real(E), weight = real(T, K), dweight = real(T, K);
        Tensor expert = fixture_new(I32, false, DIMS(T, K)), dlogits = real(T, E);
        Step forward = STEP(route_forward, RouteForward, .weight_TK = weight, .expert_TK = expert, .logits_TE = logits,
                            .bias_E = i % 2 ? bias : tensor_none(), .rule = rule[i % 5]);
        perform(&q, forward.op, &forward.a);
        backward(STEP(route_backward, RouteBackward, .dlogits_TE = dlogits, .dweight_TK = dweight,
                      .logits_TE = logits, .expert_TK = expert, .rule = rule[i % 5]));
        check("route", dlogits, tensor_none(), weight, dweight, logits, STEPS(forward));
        fixture_reset();
    }
}

/* The gradient of balance_backward is that of the losses it adds. Two groups of tokens, the first begun elsewhere. */
static void test_balance(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int64_t T = 7, E = 6;
        RouteScore score = i % 2 ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
        Tensor logits = between(-2, 2, T, E), dlogits = real(T, E), before = twin(dlogits), count = real(2, E);
        Tensor loss = real(2), dloss = real(2), loss0 = twin(loss), idle = real(T, E);
        double coefficient = i < 2 ? 0.7 : 0, z = 0.3;
        *element(dloss, 0) = coefficient, *element(dloss, 1) = z;
        balance_count(&q, (BalanceCount){ .count_GE = count, .logits_TE = logits, .topk = 2, .first = 3, .length = 6 });
        Step losses = STEP(balance_backward, BalanceBackward, .dlogits_TE = idle, .loss_2 = loss, .logits_TE = logits,
                           .count_GE = count, .score = score, .topk = 2, .first = 3, .length = 6, .tokens = 10);
        backward(STEP(balance_backward, BalanceBackward, .dlogits_TE = dlogits, .logits_TE = logits, .count_GE = count,
                      .score = score, .topk = 2, .first = 3, .length = 6, .tokens = 10, .coefficient = coefficient,
                      .z_coefficient = z));
        check("auxiliary losses", dlogits, before, loss, dloss, logits,
              STEPS(STEP(copy_strided, CopyStrided, .y = loss, .x = loss0), losses));
        fixture_reset();
    }
}

/* Gather, combine and the weights of combine, with dropped copies and two shards of each expert */
static void test_rows_of_copies(void **state)
{
    (void)state;
    int64_t T = 9, K = 2, J = 2, R = 4, X = 3, C = 5, N = T * K * J;
    Tensor expert = fixture_new(I32, false, DIMS(T, K)), row = fixture_new(I32, false, DIMS(T, K, J));
    Tensor slot = fixture_new(I32, false, DIMS(N)), count = fixture_new(I32, false, DIMS(R, X));
    Tensor weight = real(T, K), x = matrix(T, C, true), copies = sums(N, C), dcopies = real(N, C);
    for (int64_t i = 0; i < T * K; i++) ((int32_t *)expert.data)[i] = (int32_t)((i / K * 2 + i % K) % 5);
    route_sort(&q, (RouteSort){ .row_TKJ = row, .slot_N = slot, .count_RX = count, .expert_TK = expert,
                                .weight_TK = weight, .capacity = 3 });
    Step gather = STEP(expert_gather, ExpertGather, .y_NC = copies, .x_TC = x, .slot_N = slot, .K = K);
    Tensor dx = real(T, C);
    expert_combine(&q, (ExpertCombine){ .y_TC = dx, .x_NC = dcopies, .row_TKJ = row });
    for (int64_t n = 0; n < N; n++)                         /* rows without a copy have no gradient */
        for (int64_t c = 0; c < C && ((int32_t *)slot.data)[n] < 0; c++) *element(dcopies, n * C + c) = 0;
    check("gather", dx, tensor_none(), copies, dcopies, x, STEPS(gather));

    Tensor y = real(T, C), dy = real(T, C), residual = real(T, C), from = real(N, C), dfrom = sums(N, C);
    Tensor dweight = real(T, K);
    Step combine = STEP(expert_combine, ExpertCombine, .y_TC = y, .residual_TC = residual, .x_NC = from,
                        .weight_TK = weight, .row_TKJ = row);
    expert_gather(&q, (ExpertGather){ .y_NC = dfrom, .x_TC = dy, .weight_TK = weight, .slot_N = slot, .K = K });
    backward(STEP(expert_combine_backward_weight, ExpertCombineBackwardWeight, .dweight_TK = dweight, .dy_TC = dy, .x_NC = from,
                  .row_TKJ = row));
    check("combine dx", dfrom, tensor_none(), y, dy, from, STEPS(combine));
    check("combine dweight", dweight, tensor_none(), y, dy, weight, STEPS(combine));
    check("combine residual", dy, tensor_none(), y, dy, residual, STEPS(combine));
    fixture_reset();
}

static void test_row_gate(void **state)
{
    (void)state;
    Tensor y = real(6, 9), x = real(6, 9), z = between(-3, 3, 6), dy = real(6, 9), dx = real(6, 9), dz = real(6);
    Step forward = STEP(row_gate_forward, RowGateForward, .y_TC = y, .z_T = z, .x_TC = x);
    backward(STEP(row_gate_backward, RowGateBackward, .dx_TC = dx, .dz_T = dz, .dy_TC = dy, .z_T = z, .x_TC = x));
    check("gate dx", dx, tensor_none(), y, dy, x, STEPS(forward));
    check("gate dz", dz, tensor_none(), y, dy, z, STEPS(forward));
    fixture_reset();
}

/* Segments of two ranks for three experts, one of them empty, and rows after the last */
static void test_grouped_matmul(void **state)
{
    static const int32_t rows[] = { 2, 0, 3, 1, 4, 1 };
    (void)state;
    int64_t M = 15, used = 11, F = 4, C = 6, X = 3;
    Tensor count = fixture_new(I32, false, DIMS(2, X)), y = sums(M, F), dy = real(M, F);
    Tensor x = matrix(M, C, true), w = real(X, F, C), dx = real(M, C), dw = real(X, F, C), dw0 = twin(dw);
    memcpy(count.data, rows, sizeof rows);
    for (int64_t i = 0; i < (M - used) * F; i++) *element(dy, used * F + i) = 0;
    for (int64_t i = 0; i < (M - used) * C; i++) *element(dx, used * C + i) = 0;
    Tensor dx0 = twin(dx);
    Step forward = STEP(grouped_matmul_forward, GroupedMatmulForward, .y_MF = y, .x_MC = x, .w_XFC = w, .count_RX = count);
    backward(STEP(grouped_matmul_backward_input, GroupedMatmulBackwardInput, .dx_MC = dx, .dy_MF = dy, .w_XFC = w,
                  .count_RX = count, .add = true));
    backward(STEP(grouped_matmul_backward_weight, GroupedMatmulBackwardWeight, .dw_XFC = dw, .dy_MF = dy, .x_MC = x,
                  .count_RX = count));
    check("grouped dx", dx, dx0, y, dy, x, STEPS(forward));
    check("grouped dw", dw, dw0, y, dy, w, STEPS(forward));
    Tensor gate = real(M, 2 * F), dgate = sums(M, 2 * F);
    Step act = STEP(grouped_activation_forward, GroupedActivationForward, .y_MF = y, .x_MF = gate, .count_RX = count,
                    .kind = ACT_SWIGLU);
    backward(STEP(grouped_activation_backward, GroupedActivationBackward, .dx_MF = dgate, .dy_MF = dy, .x_MF = gate,
                  .count_RX = count, .kind = ACT_SWIGLU));
    check("grouped activation", dgate, tensor_none(), y, dy, gate, STEPS(act));
    fixture_reset();
}

static void test_no_backward_is_unchecked(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        /* those of 8-bit inputs, which have no differences: fp8_test.c */
        if (strstr(op_name(op), "backward") && !strstr(op_name(op), "fp8_") && !checked[op])
            fail_msg("%s was not held against differences", op_name(op));
}

int main(void)
{
    static StepState step_state = { .seed = 5, .step = 3, .gradient_scale = 1 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_head_norm),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_rows_of_copies),
        cmocka_unit_test(test_row_gate), cmocka_unit_test(test_grouped_matmul),
        cmocka_unit_test(test_no_backward_is_unchecked),
    };
    if (queue_open(&q, "ref", 1, &step_state) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    queue_close(&q);
    return failed;
}
