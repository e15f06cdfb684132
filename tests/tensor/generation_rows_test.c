/* What generation asks of its operations: a row of a product in 8 bits, and a query over a paged cache, have the same
 * bits alone and among others, by any number of threads; in 8 bits by every family of kernels; and attention over pages has the
 * bits of attention over the same keys in order. What is computed is tested against ref in ops_test.c. */
#include "base/testing.h"

#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "tensor/int8.h"
#include "tensor/ops.h"

static Queue queue;
static Arena workspace;
static StepState step_state = { .seed = 5 };

#define NEW(dtype, key, ...) numbers(dtype, key, (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof (int64_t[]){ __VA_ARGS__ } / 8))
static Tensor numbers(Dtype dtype, uint64_t key, const int64_t *dim, int dims)
{
    Tensor x = tensor_at(NULL, dtype, dim, dims);
    x.data = calloc(1, tensor_bytes(x) + 64);
    assert_non_null(x.data);
    for (int64_t i = 0; i < tensor_count(x) && dtype_is_float(dtype); i++) {
        float value = (float)(2 * random_uniform(key, (uint64_t)i) - 1);
        dtype_convert((char *)x.data + i * (int64_t)dtype_width(dtype), dtype, &value, F32, 1);
    }
    return x;
}

static int32_t *at(Tensor x_i, int64_t i) { return (int32_t *)x_i.data + i; }

static void open_queue(KernelFamily family, int threads)
{
    assert_int_equal(queue_open(&queue, "cpu", threads, &step_state), OK);
    queue.workspace = &workspace, queue.kernels = family;
}

static void rows_in_8_bits_are_independent(void **state)
{
    enum { T = 70, K = 83, C = 300 };
    (void)state;
    Tensor x = NEW(BF16, 1, T, C), w = NEW(BF16, 2, K, C), bias = NEW(BF16, 3, K), y = NEW(BF16, 4, T, K), z = NEW(BF16, 5, T, K);
    Tensor code = NEW(U8, 0, int8_panels(K), int8_blocks(C), INT8_BYTES), scale = NEW(F32, 6, int8_panels(K), int8_blocks(C), INT8_ROWS);
    open_queue(KERNELS_PORTABLE, 2);
    int8_quantize(&queue, (Int8Quantize){ code, scale, w });
    int8_matmul_forward(&queue, (Int8MatmulForward){ y, x, code, scale, bias });
    queue_close(&queue);
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++)
        for (int64_t rows = 1; rows <= T && kernel_family_callable(f); rows += rows < 9 ? 1 : 30) {
            open_queue(f, rows % 3 + 1);
            Int8MatmulForward some = { tensor_slice(z, 0, T - rows, rows), tensor_slice(x, 0, T - rows, rows), code, scale, bias };
            int8_matmul_forward(&queue, some);
            queue_close(&queue);
            if (memcmp(some.y_TK.data, (uint16_t *)y.data + (T - rows) * K, (size_t)(rows * K) * 2))
                fail_msg("%lld rows by %s have other bits", (long long)rows, kernel_family_name(f));
        }
    Tensor all[] = { x, w, bias, y, z, code, scale };
    for (int i = 0; i < 7; i++) free(all[i].data);
}

/* Three sequences of U keys each, in pages of L positions and, for attention_forward, in order */
enum { I = 3, U = 230, L = 20, M = (U + L - 1) / L, N = I * M + 1, H = 4, G = 2, D = 24, E = 20, T = 150 };
typedef struct { Tensor k, v, page_i, flat_k, flat_v, q, sequence_i, position_i, range_i, o, lse; } Cache;

static Cache cache_new(Dtype dtype)
{
    Cache c = { .k = NEW(dtype, 1, N, L, G, D), .v = NEW(dtype, 2, N, L, G, E), .page_i = NEW(I32, 0, I, M),
                .flat_k = NEW(dtype, 3, I, M * L, G, D), .flat_v = NEW(dtype, 4, I, M * L, G, E), .q = NEW(dtype, 5, T, H, D),
                .sequence_i = NEW(I32, 0, T), .position_i = NEW(I32, 0, T), .range_i = NEW(I32, 0, T, 2),
                .o = NEW(dtype, 6, T, H, E), .lse = NEW(F32, 7, T, H) };
    int64_t k_bytes = G * D * (int64_t)dtype_width(dtype) * L, v_bytes = G * E * (int64_t)dtype_width(dtype) * L;
    for (int64_t i = 0; i < I * M; i++) {
        int64_t page = (i * 7 + 3) % (I * M) + 1;
        *at(c.page_i, i) = (int32_t)page;
        memcpy((char *)c.flat_k.data + i * k_bytes, (char *)c.k.data + page * k_bytes, (size_t)k_bytes);
        memcpy((char *)c.flat_v.data + i * v_bytes, (char *)c.v.data + page * v_bytes, (size_t)v_bytes);
    }
    for (int64_t t = 0; t < T; t++) {                      /* a prompt from position 60 on, then one position of any */
        *at(c.sequence_i, t) = t < 100 ? 1 : (int32_t)(t * 5 % I);
        *at(c.position_i, t) = t < 100 ? (int32_t)(60 + t) : (int32_t)(t * 11 % U);
        *at(c.range_i, 2 * t) = t % 4 == 3 ? *at(c.position_i, t) / 2 : 0, *at(c.range_i, 2 * t + 1) = *at(c.position_i, t) + 1;
    }
    return c;
}

static void attend(const Cache *c, int64_t first, int64_t count, Tensor o, Tensor lse, bool alibi)
{
    paged_attention_forward(&queue, (PagedAttentionForward){
        .o = tensor_slice(o, 0, first, count), .lse = tensor_slice(lse, 0, first, count), .q = tensor_slice(c->q, 0, first, count),
        .k = c->k, .v = c->v, .page_i = c->page_i, .sequence_i = tensor_slice(c->sequence_i, 0, first, count),
        .key_range_i = tensor_slice(c->range_i, 0, first, count), .position_i = tensor_slice(c->position_i, 0, first, count),
        .rule = { .scale = 0.3, .softcap = 2, .alibi = alibi, .heads = H } });
}

static void same(const char *what, KernelFamily f, int64_t t, Tensor x, Tensor y, int64_t y_row, int64_t row)
{
    size_t bytes = (size_t)row * dtype_width(x.dtype);
    if (memcmp((char *)x.data + (size_t)t * bytes, (char *)y.data + (size_t)y_row * bytes, bytes))
        fail_msg("%s, family %s: query %lld has other bits", what, kernel_family_name(f), (long long)t);
}

static void pages_case(KernelFamily f, Dtype dtype, bool alibi)
{
    static const int64_t part[][2] = { { 0, 1 }, { 17, 40 }, { 99, 1 }, { 98, 9 }, { 130, 20 } };
    Cache c = cache_new(dtype);
    Tensor o = NEW(dtype, 8, T, H, E), lse = NEW(F32, 9, T, H), o1 = NEW(dtype, 8, 1, 1, H, E), lse1 = NEW(F32, 9, 1, 1, H);
    open_queue(f, 2);
    attend(&c, 0, T, c.o, c.lse, alibi);
    queue_close(&queue);
    open_queue(f, 1);
    for (int n = 0; n < 5; n++) {
        attend(&c, part[n][0], part[n][1], o, lse, alibi);
        for (int64_t t = part[n][0]; t < part[n][0] + part[n][1]; t++) {
            same("o alone", f, t, c.o, o, t, H * E);
            same("lse alone", f, t, c.lse, lse, t, H);
        }
    }
    for (int64_t t = 3; t < T; t += 7) {                   /* over the same keys in order */
        int64_t i = *at(c.sequence_i, t);
        attention_forward(&queue, (AttentionForward){
            .o = o1, .lse = lse1, .q = tensor_view(tensor_slice(c.q, 0, t, 1), 1, 1, H, D), .k = tensor_slice(c.flat_k, 0, i, 1),
            .v = tensor_slice(c.flat_v, 0, i, 1), .key_range_i = tensor_view(tensor_slice(c.range_i, 0, t, 1), 1, 1, 2),
            .rule = { .q0 = *at(c.position_i, t), .scale = 0.3, .softcap = 2, .alibi = alibi, .heads = H, .span = 999 } });
        same("o in order", f, t, c.o, o1, 0, H * E);
        same("lse in order", f, t, c.lse, lse1, 0, H);
    }
    queue_close(&queue);
    Tensor all[] = { c.k, c.v, c.page_i, c.flat_k, c.flat_v, c.q, c.sequence_i, c.position_i, c.range_i, c.o, c.lse, o, lse, o1, lse1 };
    for (int i = 0; i < 15; i++) free(all[i].data);
}

static void queries_over_pages_are_independent(void **state)
{
    (void)state;
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++)
        for (int i = 0; i < 4 && kernel_family_callable(f); i++) pages_case(f, i % 2 ? BF16 : F32, i / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_8_bits_are_independent),
        cmocka_unit_test(queries_over_pages_are_independent),
    };
    if (arena_open(&workspace, "workspace", 16 << 20) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&workspace);
    return failed;
}
