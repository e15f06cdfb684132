/* The dry back ends run every row of ops.def without memory; flops and bytes against values computed by
 * hand. */
#include "base/testing.h"

#include "tensor/ops.h"

static Tensor dry(Dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return tensor_at(NULL, dtype, (const int64_t[]){ a, b, c, d }, 4);
}

static void every_row_runs_and_counts(void **state)
{
    (void)state;
    Queue q = { .backend = &dry_cpu_backend, .watch = true };
#define OP(heat, name, Struct, types, ...) \
    assert_non_null(dry_ref_backend.name); \
    name(&q, (Struct){ 0 }); \
    assert_int_equal(q.count[OP_##name].calls, 1); \
    assert_string_equal(op_name(OP_##name), #name);
#include "tensor/ops.def"
#undef OP
    assert_true(dry_ref_backend.dry && dry_cpu_backend.dry);
    assert_int_equal(dry_ref_backend.compute, F64);
    assert_int_equal(dry_cpu_backend.compute, F32);
}

static int words_before_semicolon(const char *arguments)
{
    int words = 1;
    for (; *arguments != ';'; arguments++) words += *arguments == ',';
    return words;
}

/* op_work takes as many tensors from the beginning of a struct as there are letters of types */
static void tensors_lead_each_struct(void **state)
{
    (void)state;
#define OP(heat, name, Struct, types, ...) \
    assert_int_equal(strlen(types), words_before_semicolon(#__VA_ARGS__)); \
    assert_memory_equal(#__VA_ARGS__, "Tensor ", 7);
#include "tensor/ops.def"
#undef OP
}

static void matmuls_by_hand(void **state)
{
    (void)state;
    enum { T = 5, C = 7, K = 3 };
    Arena  workspace;
    Queue  q = { .backend = &dry_cpu_backend, .threads = 1, .workspace = &workspace };
    arena_dry(&workspace, "workspace");
    Tensor x_TC = dry(F32, T, C, 1, 1), y_TK = dry(F32, T, K, 1, 1), w_KC = dry(F32, K, C, 1, 1);
    matmul_forward(&q, (MatmulForward){ .y_TK = y_TK, .x_TC = x_TC, .w_KC = w_KC });
    matmul_backward_input(&q, (MatmulBackwardInput){ .dx_TC = x_TC, .dy_TK = y_TK, .w_KC = w_KC });
    matmul_backward_weight(&q, (MatmulBackwardWeight){ .dw_KC = w_KC, .dy_TK = y_TK, .x_TC = x_TC });
    const int ops[] = { OP_matmul_forward, OP_matmul_backward_input, OP_matmul_backward_weight };
    for (int i = 0; i < 3; i++) {
        assert_true(q.count[ops[i]].flops == 2.0 * T * C * K);
        assert_true(q.count[ops[i]].bytes == 4.0 * (T * C + T * K + K * C));
    }
    Tensor bias_K = dry(F32, K, 1, 1, 1);
    matmul_forward(&q, (MatmulForward){ .y_TK = y_TK, .x_TC = x_TC, .w_KC = w_KC, .bias_K = bias_K });
    assert_true(q.count[OP_matmul_forward].flops == 4.0 * T * C * K);
    assert_true(q.count[OP_matmul_forward].bytes == 8.0 * (T * C + T * K + K * C) + 4.0 * K);
    assert_true(workspace.peak > 0 && workspace.used == 0);
    arena_close(&workspace);
}

static void attention_by_hand(void **state)
{
    (void)state;
    enum { B = 2, S = 3, U = 5, H = 4, G = 2, D = 8 };
    Queue  q   = { .backend = &dry_ref_backend };
    Tensor q4  = dry(F64, B, S, H, D), k = dry(F64, B, U, G, D);
    attention_forward(&q, (AttentionForward){ .o = q4, .q = q4, .k = k, .v = k });
    attention_backward(&q, (AttentionBackward){ .dq = q4, .dk = k, .dv = k, .d_o = q4, .q = q4, .k = k, .v = k });
    assert_true(q.count[OP_attention_forward].flops == 4.0 * B * H * S * U * D);
    assert_true(q.count[OP_attention_backward].flops == 10.0 * B * H * S * U * D);
    assert_true(q.count[OP_attention_forward].bytes == 8.0 * D * (2 * B * S * H + 2 * B * U * G));
    accumulate(&q, (Accumulate){ .y = q4, .x = q4 });
    assert_true(q.count[OP_accumulate].flops == 0 && q.count[OP_accumulate].bytes == 2.0 * 8 * B * S * H * D);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_runs_and_counts),
        cmocka_unit_test(tensors_lead_each_struct),
        cmocka_unit_test(matmuls_by_hand),
        cmocka_unit_test(attention_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
