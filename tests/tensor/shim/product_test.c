/* Matrix products of tensor/cuda/product_lt.c, with the library's functions as loops (cublaslt.cpp): which matrix is
 * turned, strides, bias, what is added; and the choice among algorithms, which must not change bits: the result
 * is the sum in the order of k, though an algorithm that adds in the other order is faster. The choice itself is looked at as well,
 * since any algorithm that adds in this order gives the right numbers: the fastest of them, and where the trial gave only zeros the
 * first. */
#include <stdlib.h>
#include "base/testing.h"

#include "base/random.h"
#include "tensor/cuda/product.h"
#include "order.h"

enum { M = 5, N = 7, K = 33, WIDE = 40, CELLS = WIDE * WIDE, FIRST = 0, FASTEST = 2 };

static float   values[3][CELLS];
static float   as_float(Dtype dtype, const void *x, int64_t i)
{
    float value;
    dtype_convert(&value, F32, (const char *)x + i * (int64_t)dtype_width(dtype), dtype, 1);
    return value;
}

/* CELLS numbers in device memory, random ones, the same every time, or ones, of which every order gives the same sum. */
static void *device_numbers(GpuStream *s, Dtype dtype, int which, bool ones)
{
    void *memory = gpu_alloc(CELLS * sizeof(float)), *host = malloc(CELLS * sizeof(float));
    for (int i = 0; i < CELLS; i++)
        values[which][i] = ones ? 1 : (float)(2 * random_uniform((uint64_t)which, (uint64_t)i) - 1);
    dtype_convert(host, dtype, values[which], F32, CELLS);
    dtype_convert(values[which], F32, host, dtype, CELLS);
    gpu_copy(s, memory, host, CELLS * dtype_width(dtype));
    gpu_stream_wait(s);
    free(host);
    return memory;
}

static void check(GpuStream *s, void *workspace, Dtype in, Dtype out, int k, int turned, int added, bool ones)
{
    Product p = { .a = device_numbers(s, in, 0, ones), .b = device_numbers(s, in, 1, ones),
        .d = device_numbers(s, out, 2, ones),
        .m = M, .n = N, .k = k, .d_stride = N + 1, .a_stride = WIDE, .b_stride = WIDE - 1, .c_stride = N + 1,
        .a_turned = turned & 1, .b_turned = turned >> 1, .in = in, .out = out };
    float *bias = gpu_alloc(CELLS * sizeof(float)), got[CELLS];
    char  *back = malloc(CELLS * sizeof(float));
    if (added & 1) p.c = p.d;
    if (added & 2) gpu_copy(s, bias, p.d, CELLS * dtype_width(out)), p.bias = bias;
    product_enqueue(s, &p, workspace);
    assert_int_equal(gpu_cpu_algorithm, k == 2 && !added ? FIRST : FASTEST);
    gpu_copy(s, back, p.d, CELLS * dtype_width(out));
    gpu_stream_wait(s);
    for (int i = 0; i < CELLS; i++) got[i] = as_float(out, back, i);
    for (int i = 0; i < M; i++)
        for (int j = 0; j <= N; j++) {
            int at = i * (N + 1) + j;
            float sum = 0, want;
            for (int l = 0; l < k; l++)
                sum += values[0][p.a_turned ? l * WIDE + i : i * WIDE + l] *
                       values[1][p.b_turned ? j * (WIDE - 1) + l : l * (WIDE - 1) + j];
            if (added & 1) sum += values[2][at];
            if (added & 2) sum += values[2][j];
            dtype_convert(back, out, &sum, F32, 1);
            want = j < N ? as_float(out, back, 0) : values[2][at];             /* the gap is not written */
            if (got[at] != want)
                fail_msg("%s to %s, turned %d, added %d: [%d, %d] is %.9g, not %.9g", dtype_name(in), dtype_name(out),
                         turned, added, i, j, (double)got[at], (double)want);
        }
    gpu_free((void *)(uintptr_t)p.a), gpu_free((void *)(uintptr_t)p.b), gpu_free(p.d), gpu_free(bias);
    free(back);
}

static void products(void **state)
{
    (void)state;
    GpuStream s;
    gpu_cpu_proposals = 4;
    assert_int_equal(gpu_stream_open(&s, 0), OK);
    assert_int_equal(products_open(&s.products, &s), OK);
    void *workspace = gpu_alloc(PRODUCT_WORKSPACE);
    static const Dtype types[][2] = { { F32, F32 }, { BF16, BF16 }, { BF16, F32 }, { F16, F16 }, { F16, F32 } };
    for (int again = 0; again < 2; again++)                   /* the algorithm is chosen at the first, of ones */
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int turned = 0; turned < 4; turned++)
                for (int added = 0; added < 4; added++) {
                    check(&s, workspace, types[t][0], types[t][1], K, turned, added, again == 0);
                    if (!added) check(&s, workspace, types[t][0], types[t][1], 2, turned, added, again == 0);
                }
    gpu_free(workspace);
    products_close(s.products);
    gpu_stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
