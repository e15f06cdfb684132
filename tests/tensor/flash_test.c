/* Attention by every family of kernels that this machine can run: those with a fused multiply-add agree to the
 * bit, the other ones nearly; and a query's result does not depend on which queries are computed with it. What
 * is computed is tested against ref in ops_test.c. */
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "tensor/cpu/flash/flash.h"

enum { B = 2, S = 205, U = 230, H = 4, G = 2, D = 40, E = 50, Q0 = 20 };
/* In the order of Flash: o, dq, dk, dv, lse. */
enum { OUTPUTS = 5 };
static const char *const output_name[OUTPUTS] = { "o", "dq", "dk", "dv", "lse" };
typedef struct { Tensor output[OUTPUTS]; } Result;

static Tensor tensor_of(Dtype dtype, uint64_t key, int64_t b, int64_t s, int64_t h, int64_t d)
{
    Tensor x = tensor_at(NULL, dtype, (const int64_t[]){ b, s, h, d }, 4);
    x.data = malloc(tensor_bytes(x));
    assert_non_null(x.data);
    for (int64_t i = 0; i < tensor_count(x); i++) {
        float value = (float)(2 * random_uniform(key, (uint64_t)i) - 1);
        dtype_convert((char *)x.data + i * (int64_t)dtype_width(dtype), dtype, &value, F32, 1);
    }
    return x;
}

typedef struct { KernelFamily family; int threads; double p; Dtype dtype; float softcap; bool alibi; } How;

static void pass(const Flash *x, int threads, bool backward)
{
    size_t bytes = (backward ? flash_backward_workspace : flash_forward_workspace)(x, threads);
    void  *work  = aligned_alloc(64, bytes);
    Team  *team;
    memset(work, 0xff, bytes);                       /* NaN */
    assert_int_equal(team_open(&team, threads), OK);
    (backward ? flash_backward : flash_forward)(team, x, work, bytes);
    team_close(team);
    free(work);
}

/* Queries first .. first + count - 1, forward and backward. */
static Result run(How how, int64_t first, int64_t count)
{
    static const int32_t sample[B] = { 3, 8 };
    Dtype type = how.dtype;
    Tensor q = tensor_of(type, 1, B, S, H, D), k = tensor_of(type, 2, B, U, G, D), v = tensor_of(type, 3, B, U, G, E);
    Tensor d_o = tensor_of(type, 4, B, S, H, E), delta = tensor_of(F32, 5, B, S, H, 1);
    Result result = { { tensor_of(type, 6, B, S, H, E), tensor_of(type, 7, B, S, H, D), tensor_of(type, 8, B, U, G, D),
                        tensor_of(type, 9, B, U, G, E), tensor_of(F32, 10, B, S, H, 1) } };
    Tensor *out = result.output;
    out[4] = tensor_view(out[4], B, S, H), delta = tensor_view(delta, B, S, H);
    Flash x = { .o = tensor_slice(out[0], 1, first, count), .d_o = tensor_slice(d_o, 1, first, count),
                .delta = tensor_slice(delta, 1, first, count), .dq = tensor_slice(out[1], 1, first, count),
                .dk = out[2], .dv = out[3], .lse = tensor_slice(out[4], 1, first, count),
                .q = tensor_slice(q, 1, first, count), .k = k, .v = v,
                .rule = { .q0 = Q0 + first, .heads = H, .span = 300, .scale = 0.2f, .softcap = how.softcap, .alibi = how.alibi, .p = how.p },
                .sample_i = tensor_at((void *)sample, I32, (const int64_t[]){ B }, 1),
                .dropout_key = 11, .family = how.family };
    pass(&x, how.threads, false);
    pass(&x, how.threads, true);
    Tensor in[] = { q, k, v, d_o, delta };
    for (int i = 0; i < 5; i++) free(in[i].data);
    return result;
}

static void result_free(Result *r) { for (int i = 0; i < OUTPUTS; i++) free(r->output[i].data); }

static double value_at(Tensor x, int64_t i)
{
    double value;
    dtype_convert(&value, F64, (const char *)x.data + i * (int64_t)dtype_width(x.dtype), x.dtype, 1);
    return value;
}

static void same(const char *what, KernelFamily family, const Result *one, const Result *two, double tolerance)
{
    for (int i = 0; i < OUTPUTS; i++)
        for (int64_t j = 0; j < tensor_count(one->output[i]); j++) {
            Dtype  type = one->output[i].dtype;
            double x = value_at(one->output[i], j), y = value_at(two->output[i], j);
            double rounding = type == F32 || !tolerance ? 0 : (type == BF16 ? 0x1p-7 : 0x1p-10) * fabs(x);     /* one unit */
            if (!(fabs(x - y) <= tolerance + rounding))
                fail_msg("%s, family %s, %s: %s[%lld] is %.9g and %.9g", what, kernel_family_name(family),
                         dtype_name(type), output_name[i], (long long)j, x, y);
        }
}

/* In bf16 avx512-bf16 multiplies pairs and rounds probabilities to bf16, which no other family does. */
static void families_agree(void **state)
{
    static const Dtype types[] = { F32, BF16, F16 };
    (void)state;
    for (int i = 0; i < 15; i++) {
        How how = { KERNELS_AUTO, 1, i & 1 ? 0.3 : 0, types[i < 12 ? i / 4 : i - 12], i & 2 ? 0.7f : 0, i >= 12 };
        Result best = run(how, 0, S);
        for (KernelFamily family = KERNELS_AUTO + 1; family < KERNEL_FAMILIES; family++) {
            if (!kernel_family_callable(family)) continue;
            bool bits = (kernel_family_runs(family) || family == KERNELS_EMULATED) &&
                        kernel_family_alike(family, kernel_family_best());
            bool pairs = how.dtype == BF16 &&
                         kernel_family_has_pairs(family) != kernel_family_has_pairs(kernel_family_best());
            How  by_one = how, by_three = how;
            by_one.family = by_three.family = family, by_three.threads = 3;
            Result one = run(by_one, 0, S), three = run(by_three, 0, S);
            same("one and three threads", family, &one, &three, 0);
            same("the best and this", family, &best, &one, pairs ? 2e-2 : bits ? 0 : 3e-5);
            result_free(&one);
            result_free(&three);
        }
        result_free(&best);
    }
}

/* o, lse and dq of some queries alone and among all. */
static void queries_are_independent(void **state)
{
    (void)state;
    static const int64_t part[][2] = { { 0, 1 }, { 31, 1 }, { 40, 70 }, { 190, 15 } };
    for (int i = 0; i < 2 * KERNEL_FAMILIES; i++) {
        KernelFamily family = i / 2;
        if (family == KERNELS_AUTO || !kernel_family_callable(family)) continue;
        How how = { family, 2, 0.1, i % 2 ? BF16 : F32, 0.7f, true };
        Result all = run(how, 0, S);
        for (int n = 0; n < 4; n++) {
            Result some = run(how, part[n][0], part[n][1]);
            for (int o = 0; o < OUTPUTS; o++) {
                Tensor x = all.output[o], y = some.output[o];
                for (int64_t j = 0; j < tensor_count(x) && o != 2 && o != 3; j++) {
                    int64_t s = j / x.stride[1] % S;
                    bool within = s >= part[n][0] && s < part[n][0] + part[n][1];
                    if (within && value_at(x, j) != value_at(y, j))
                        fail_msg("family %s: %s of query %lld alone is %.9g instead of %.9g", kernel_family_name(family),
                                 output_name[o], (long long)s, value_at(y, j), value_at(x, j));
                }
            }
            result_free(&some);
        }
        result_free(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_agree),
        cmocka_unit_test(queries_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
