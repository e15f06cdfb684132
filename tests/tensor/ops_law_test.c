/* Laws that hold for any numbers: shards of keys, of the vocabulary and of a parameter together give the
 * unsharded result; and a few values computed by hand, since cpu and ref could have the same error. */
#include <stdio.h>
#include "ops_fixture.h"

static Queue q;
static StepState  step_state;

static void near(const char *what, Tensor x, Tensor y, double tolerance)
{
    for (int64_t i = 0; i < tensor_count(x); i++) {
        double one = *element(x, i), two = *element(y, i);
        if (!(one == two || fabs(one - two) <= tolerance))
            fail_msg("%s: element %lld is %.17g and %.17g", what, (long long)i, one, two);
    }
}

static Tensor keys(Tensor k, int64_t first, int64_t end) { return tensor_slice(k, 1, first, end - first); }

/* Keys 0 .. U - 1 at once, and as [0, cut) and [cut, U): of the second, queries before the cut see nothing */
static void split(bool interval, int64_t cut)
{
    int64_t B = 2, S = 9, U = 9, H = 4, G = 2, D = 6;
    AttentionForward f = {
        .o = real(B, S, H, D), .lse = real(B, S, H), .q = real(B, S, H, D), .k = real(B, U, G, D),
        .v = real(B, U, G, D), .key_range_i = interval ? visible(B, S, U) : tensor_none(),
        .sample_i = ints(B, 0, 9),
        .rule = { .heads = H, .span = U, .scale = 1, .p = 0.3, .site = 1 } };
    AttentionForward one = f, two = f;
    Tensor d_o = real(B, S, H, D), delta = real(B, S, H);
    Tensor dq = sums(B, S, H, D), dk = sums(B, U, G, D), dv = sums(B, U, G, D);
    Tensor dq2 = sums(B, S, H, D), dk2 = sums(B, U, G, D), dv2 = sums(B, U, G, D);
    one.o = real(B, S, H, D), one.lse = real(B, S, H), one.k = keys(f.k, 0, cut), one.v = keys(f.v, 0, cut);
    two.o = real(B, S, H, D), two.lse = real(B, S, H), two.k = keys(f.k, cut, U), two.v = keys(f.v, cut, U);
    two.rule.k0 = cut;
    attention_forward(&q, f);
    attention_forward(&q, one);
    attention_forward(&q, two);
    attention_merge(&q, (AttentionMerge){ .o = one.o, .lse = one.lse, .o2 = two.o, .lse2 = two.lse });
    near("o of two chunks", f.o, one.o, 1e-14);
    near("lse of two chunks", f.lse, one.lse, 1e-14);

    attention_delta(&q, (AttentionDelta){ .delta = delta, .o = f.o, .d_o = d_o });
    AttentionBackward b = {
        .dq = dq, .dk = dk, .dv = dv, .d_o = d_o, .q = f.q, .k = f.k, .v = f.v, .lse = f.lse,
        .delta = delta, .key_range_i = f.key_range_i, .sample_i = f.sample_i, .rule = f.rule };
    attention_backward(&q, b);
    b.dq = dq2, b.k = one.k, b.v = one.v, b.dk = keys(dk2, 0, cut), b.dv = keys(dv2, 0, cut);
    attention_backward(&q, b);
    b.k = two.k, b.v = two.v, b.dk = keys(dk2, cut, U), b.dv = keys(dv2, cut, U), b.rule.k0 = cut;
    attention_backward(&q, b);
    near("dq of two chunks", dq, dq2, 1e-14);
    near("dk of two chunks", dk, dk2, 1e-14);
    near("dv of two chunks", dv, dv2, 1e-14);
    fixture_reset();
}

static void test_keys_in_two_chunks(void **state)
{
    (void)state;
    for (int64_t cut = 1; cut < 9; cut += 3) {
        split(false, cut);
        split(true, cut);
    }
}

/* A query without keys: o = 0, lse = -infinity, and nothing flows back */
static void test_a_query_that_sees_nothing(void **state)
{
    (void)state;
    Tensor k = real(1, 3, 1, 4), dk = sums(1, 3, 1, 4), dq = sums(1, 2, 1, 4), lse = real(1, 2, 1),
           o = real(1, 2, 1, 4);
    Tensor zero_o = sums(1, 2, 1, 4), zero_k = sums(1, 3, 1, 4), query = real(1, 2, 1, 4);
    attention_forward(&q, (AttentionForward){ .o = o, .lse = lse, .q = query, .k = k, .v = k,
                                              .rule = { .k0 = 2, .scale = 1 } });
    near("o", o, zero_o, 0);
    assert_true(*element(lse, 0) == -INFINITY && *element(lse, 1) == -INFINITY);
    attention_merge(&q, (AttentionMerge){ .o = o, .lse = lse, .o2 = zero_o, .lse2 = lse });
    near("merged o", o, zero_o, 0);
    assert_true(*element(lse, 0) == -INFINITY);
    attention_backward(&q, (AttentionBackward){
        .dq = dq, .dk = dk, .dv = dk, .d_o = query, .q = query, .k = k, .v = k, .lse = lse,
        .delta = real(1, 2, 1), .rule = { .k0 = 2, .scale = 1 } });
    near("dq", dq, zero_o, 0);
    near("dk", dk, zero_k, 0);
    fixture_reset();
}

/* 30 columns, 25 of them words, on one rank and as 3 times 10 (valid 10, 10, 5) */
static void test_vocabulary_on_three_ranks(void **state)
{
    (void)state;
    int64_t T = 8, V = 30, words = 25;
    Tensor logits = between(-5, 5, T, V), cut = real(T, V), target = ints(T, 0, 25), weight = real(T);
    Tensor stats = real(4, T, 3), loss = real(T), lse = real(T), loss3 = real(T), lse3 = real(T);
    copy_strided(&q, (CopyStrided){ .y = cut, .x = logits });
    for (int64_t r = 0; r < 4; r++)                        /* row 3 of stats is the whole */
        xent_stats(&q, (XentStats){ .stats_T3 = tensor_view(tensor_slice(stats, 0, r, 1), T, 3),
            .logits_TV = r == 3 ? logits : tensor_slice(cut, 1, 10 * r, 10), .target_i = target,
            .first = r == 3 ? 0 : 10 * r, .valid = r == 3 ? words : r == 2 ? 5 : 10 });
    Tensor stats1 = tensor_slice(stats, 0, 3, 1), stats3 = tensor_slice(stats, 0, 0, 3);
    xent_forward(&q, (XentForward){ .loss_T = loss, .lse_T = lse, .stats_RT3 = stats1 });
    xent_forward(&q, (XentForward){ .loss_T = loss3, .lse_T = lse3, .stats_RT3 = stats3 });
    xent_backward(&q, (XentBackward){ .dlogits_TV = logits, .logits_TV = logits, .lse_T = lse,
                                      .target_i = target, .loss_weight_T = weight, .valid = words });
    for (int64_t r = 0; r < 3; r++)
        xent_backward(&q, (XentBackward){
            .dlogits_TV = tensor_slice(cut, 1, 10 * r, 10), .logits_TV = tensor_slice(cut, 1, 10 * r, 10),
            .lse_T = lse3, .target_i = target,
            .loss_weight_T = weight, .first = 10 * r, .valid = r == 2 ? 5 : 10 });
    near("gradient of three ranks", logits, cut, 1e-14);
    fixture_reset();
}

/* Ids of 40,000 tokens with the same logits, on one rank and as 4, 4 and 1 of three ranks: their frequencies are the softmax, by chi-squared with 8
 * degrees of freedom, which exceeds 35 once in 40,000 times; of three ranks one has each token's id, the same. */
static void test_drawn_ids_have_the_frequencies_of_the_softmax(void **state)
{
    (void)state;
    enum { T = 40000, V = 9, R = 3, HELD = 4 };
    Tensor row = between(-2, 2, V), whole = real(T, V), parts = real(T, R * HELD), target = ints(T, 0, V), index = ints(T, 0, 1);
    Tensor stats1 = real(1, T, 3), stats3 = real(R, T, 3), one = ints(T, 0, 1), part[R] = { ints(T, 0, 1), ints(T, 0, 1), ints(T, 0, 1) };
    double counts[V] = { 0 }, total = 0, chi = 0;
    for (int64_t t = 0; t < T; t++) {
        ((int32_t *)index.data)[t] = (int32_t)t;
        for (int64_t c = 0; c < V; c++) *element(whole, t * V + c) = *element(parts, t * R * HELD + c) = *element(row, c);
    }
    xent_stats(&q, (XentStats){ .stats_T3 = tensor_view(stats1, T, 3), .logits_TV = whole, .target_i = target, .valid = V });
    xent_draw(&q, (XentDraw){ .target_i = one, .logits_TV = whole, .stats_RT3 = stats1, .index_i = index, .valid = V, .site = 9 });
    for (int64_t r = 0; r < R; r++)
        xent_stats(&q, (XentStats){ .stats_T3 = tensor_view(tensor_slice(stats3, 0, r, 1), T, 3), .logits_TV = tensor_slice(parts, 1, HELD * r, HELD),
                                    .target_i = target, .first = HELD * r, .valid = r == 2 ? 1 : HELD });
    for (int64_t r = 0; r < R; r++)
        xent_draw(&q, (XentDraw){ .target_i = part[r], .logits_TV = tensor_slice(parts, 1, HELD * r, HELD), .stats_RT3 = stats3, .index_i = index,
                                  .rank = r, .first = HELD * r, .valid = r == 2 ? 1 : HELD, .site = 9 });
    for (int64_t t = 0; t < T; t++) {
        int32_t id = ((int32_t *)one.data)[t];
        assert_true(id >= 0 && id < V);
        for (int32_t r = 0; r < R; r++) assert_int_equal(((int32_t *)part[r].data)[t], id / HELD == r ? id : -1);
        counts[id]++;
    }
    for (int64_t c = 0; c < V; c++) total += exp(*element(row, c));
    for (int64_t c = 0; c < V; c++) {
        double wanted = T * exp(*element(row, c)) / total;
        chi += pow(counts[c] - wanted, 2) / wanted;
    }
    if (!(chi < 35)) fail_msg("chi-squared of the drawn ids is %.1f", chi);
    fixture_reset();
}

/* The box [3, 10) x [4, 9) of a 20 x 30 parameter, seen flat, from 6 on; what is beyond the box is padding */
static void test_a_cut_parameter_begins_the_same(void **state)
{
    (void)state;
    Tensor whole = real(600), part = real(40);
    init_random(&q, (InitRandom){ .y_N = whole, .key = 3, .std = 2, .rows = 20, .cols = 30,
                                  .global_cols = 30 });
    init_random(&q, (InitRandom){
        .y_N = part, .key = 3, .std = 2, .rows = 7, .cols = 5, .row0 = 3, .col0 = 4, .global_cols = 30,
        .first = 6 });
    for (int i = 0; i < 40; i++) {
        double expected = 6 + i < 35 ? *element(whole, (3 + (6 + i) / 5) * 30 + 4 + (6 + i) % 5) : 0;
        assert_true(*element(part, i) == expected);
    }
    fixture_reset();
}

static void test_dropout_keeps_its_share(void **state)
{
    (void)state;
    Tensor x = between(1, 1, 100, 100), y = real(100, 100), place = ints(100, 0, 1 << 30);
    dropout_backward(&q, (DropoutBackward){ .dx_TC = y, .dy_TC = x, .dropout_index_i = place, .p = 0.25, .site = 4 });
    double kept = 0;
    for (int i = 0; i < 10000; i++) {
        assert_true(*element(y, i) == 0 || *element(y, i) == 1 / 0.75);
        kept += *element(y, i) != 0;
    }
    assert_true(fabs(kept - 7500) < 200);                  /* 4.6 standard deviations */
    fixture_reset();
}

/* act(1), from tables */
static void test_activations_by_hand(void **state)
{
    static const double expected[] = { 0.8411919906082768, 0.8413447460685429, 1, 1,
                                       0.7310585786300049, 0.7310585786300049, 0.8411919906082768, 0.8413447460685429,
                                       0.8457957659328212 };
    (void)state;
    for (int kind = 0; kind < ACT_KINDS; kind++) {
        Tensor x = between(1, 1, 1, ACT_GATED(kind) ? 2 : 1), y = real(1, 1);
        activation_forward(&q, (ActivationForward){ .y_TF = y, .x_TF = x, .kind = kind });
        assert_true(fabs(*element(y, 0) - expected[kind]) < 1e-15);
        fixture_reset();
    }
}

/* Two ranks: loss 6 of 4 tokens, squares 100: norm 10 / 4. Clip 1 leaves 0.4 of a gradient. */
static void test_clip_by_hand(void **state)
{
    static const double sum[] = { 2, 1, 36, 4, 3, 64 };
    (void)state;
    Tensor all = sums(2, 3), s = sums(3), report = sums(4);
    memcpy(all.data, sum, sizeof sum);
    sums_total(&q, (SumsTotal){ .total_S = s, .sums_RS = all });
    clip_and_skip(&q, (ClipAndSkip){ .report_4 = report, .sums_3 = s, .clip = 1 });
    assert_true(*element(report, 0) == 1.5 && *element(report, 1) == 4 && *element(report, 2) == 2.5);
    assert_true(step_state.factor == 0.4 / 4 && step_state.skip == 0 && *element(report, 3) == 0);
    clip_and_skip(&q, (ClipAndSkip){ .report_4 = report, .sums_3 = s, .clip = 0 });
    assert_true(step_state.factor == 0.25);
    *element(s, 2) = NAN;
    clip_and_skip(&q, (ClipAndSkip){ .report_4 = report, .sums_3 = s, .clip = 1 });
    assert_true(step_state.skip == 1 && *element(report, 3) == 1);
    fixture_reset();
}

/* The first update of Adam is lr times the sign of g. In the second, with g = 0, mhat is beta1 / (1 + beta1)
 * of the first g and vhat beta2 / (1 + beta2) of its square. */
static void test_adamw_by_hand(void **state)
{
    (void)state;
    Tensor w = between(2, 2, 1), m = sums(1), v = sums(1), g = between(-8, -8, 1);
    Adamw a = { .w_N = w, .m_N = m, .v_N = v, .g_N = g, .beta1 = 0.9, .beta2 = 0.5, .decay = 0.5 };
    step_state.lr = 0.1, step_state.weight_decay = 1, step_state.factor = 0.25, step_state.skip = 1, step_state.updates = 0;
    adamw(&q, a);
    assert_true(*element(w, 0) == 2);
    step_state.skip = 0;
    adamw(&q, a);
    assert_true(fabs(*element(w, 0) - (2 - 0.1 * 0.5 * 2 + 0.1)) < 1e-15);
    step_state.updates = 1, step_state.factor = 0, a.decay = 0;
    double before = *element(w, 0);
    adamw(&q, a);
    assert_true(fabs(*element(w, 0) - before - 0.1 * (0.9 / 1.9) / sqrt(0.5 / 1.5)) < 1e-15);
    fixture_reset();
}

/* The columns 3 .. 6 of a matrix, updated as a part of it, have the bits that they have in the whole one. */
static void test_stochastic_rounding_knows_no_layout(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 10, FIRST = 3, PART = 4 };
    StepState own = { .seed = 5, .step = 7, .factor = 1, .lr = 0.1 };
    Queue cpu;
    assert_int_equal(queue_open(&cpu, "cpu", 1, &own), OK);
    Tensor x[2][4];                                        /* of the whole and of the part: w, m, v, g */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            x[i][k] = fixture_new(k == 1 || k == 2 ? BF16 : F32, false, DIMS(ROWS * (i ? PART : COLUMNS)));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++) {
            float g = (float)draw(-1, 1);
            ((float *)x[0][3].data)[r * COLUMNS + c] = g;
            if (c >= FIRST && c < FIRST + PART) ((float *)x[1][3].data)[r * PART + c - FIRST] = g;
        }
    for (int i = 0; i < 2; i++)
        adamw(&cpu, (Adamw){ .w_N = x[i][0], .m_N = x[i][1], .v_N = x[i][2], .g_N = x[i][3], .beta1 = 0.9, .beta2 = 0.99,
            .epsilon = 1e-8, .stochastic = true, .site = 3,
            .place = i ? (ElementPlace){ .offset = FIRST, .columns = PART, .global_columns = COLUMNS, .rows = ROWS,
                                         .global_rows = ROWS } : (ElementPlace){ 0 } });
    for (int k = 1; k <= 2; k++)
        for (int64_t r = 0; r < ROWS; r++)
            assert_memory_equal((uint16_t *)x[1][k].data + r * PART,
                                (uint16_t *)x[0][k].data + r * COLUMNS + FIRST, PART * sizeof(uint16_t));
    queue_close(&cpu);
    fixture_reset();
}

/* The mean of a BF16 v without its bias, after so many steps of Gaussian gradients, of which it should be 1. */
static double mean_of_v(double beta2, bool stochastic, int64_t steps)
{
    enum { N = 1024 };
    static double normal[N];
    StepState own = { .seed = 5, .factor = 1 };
    Queue cpu;
    double sum = 0;
    assert_int_equal(queue_open(&cpu, "cpu", 1, &own), OK);
    Tensor w = fixture_new(F32, false, DIMS(N)), g = fixture_new(F32, false, DIMS(N));
    Tensor m = fixture_new(BF16, false, DIMS(N)), v = fixture_new(BF16, false, DIMS(N));
    for (; own.step < steps; own.step++, own.updates++) {
        random_normals(normal, 9, (uint64_t)(own.step * N), N);
        dtype_convert(g.data, F32, normal, F64, N);
        adamw(&cpu, (Adamw){ .w_N = w, .m_N = m, .v_N = v, .g_N = g, .beta1 = 0.9, .beta2 = beta2, .epsilon = 1e-8,
                             .stochastic = stochastic });
    }
    dtype_convert(normal, F64, v.data, BF16, N);
    for (int i = 0; i < N; i++) sum += normal[i];
    queue_close(&cpu);
    fixture_reset();
    double mean = sum / N / (1 - pow(beta2, (double)steps));
    printf("beta2 %g, %s, %lld steps: the mean of v is %.3f\n", beta2, stochastic ? "stochastic" : "to the nearest",
           (long long)steps, mean);
    return mean;
}

/* A thousandth of a BF16 is less than half its last place, so that a v rounded to the nearest never decreases. These are
 * the figures of docs/numerics.md. */
static void test_second_moment_keeps_its_mean(void **state)
{
    (void)state;
    assert_true(fabs(mean_of_v(0.999, true, 3000) - 1) < 0.01);
    assert_true(fabs(mean_of_v(0.999, true, 10000) - 1) < 0.01);
    assert_true(fabs(mean_of_v(0.999, false, 1000) - 1.06) < 0.01);
    assert_true(fabs(mean_of_v(0.999, false, 3000) - 1.30) < 0.01);
    assert_true(fabs(mean_of_v(0.999, false, 10000) - 2.05) < 0.02);
    assert_true(fabs(mean_of_v(0.996, false, 10000) - 1) < 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_in_two_chunks),
        cmocka_unit_test(test_a_query_that_sees_nothing),
        cmocka_unit_test(test_vocabulary_on_three_ranks),
        cmocka_unit_test(test_drawn_ids_have_the_frequencies_of_the_softmax),
        cmocka_unit_test(test_a_cut_parameter_begins_the_same),
        cmocka_unit_test(test_dropout_keeps_its_share),
        cmocka_unit_test(test_activations_by_hand),
        cmocka_unit_test(test_clip_by_hand),
        cmocka_unit_test(test_adamw_by_hand),
        cmocka_unit_test(test_stochastic_rounding_knows_no_layout),
        cmocka_unit_test(test_second_moment_keeps_its_mean),
    };
    step_state = (StepState){ .seed = 5, .step = 3, .gradient_scale = 1 };
    if (queue_open(&q, "ref", 1, &step_state) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    queue_close(&q);
    return failed;
}
