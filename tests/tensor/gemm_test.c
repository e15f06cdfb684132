/* The matrix product of every family of kernels that this machine can run, against sums in double: exact in small
 * integers, near in real numbers, and the same bits whatever the threads, the place and the company of a row. */
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "tensor/cpu/gemm.h"

enum { GAP = 3 };                                    /* elements between the rows of every matrix */
typedef enum { NT, NN, TN, PRODUCTS } Product;
static const char *const product_name[] = { "x wT", "dy w", "dyT x" };
typedef struct { int64_t M, N, K; } Size;

/* A matrix [rows, cols] in the form that gemm reads, with NaN wherever nothing may be read. */
typedef struct { void *memory; GemmMatrix view; } Laid;

static uint16_t half_of(float x)                     /* nearest, ties to even; not for NaN */
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static float get(const void *at, int64_t i, Dtype type)
{
    float x;
    if (type != F16) return type == F32 ? ((const float *)at)[i] : float_of(((const uint16_t *)at)[i]);
    dtype_convert(&x, F32, (const uint16_t *)at + i, F16, 1);
    return x;
}

static void put(void *at, int64_t i, Dtype type, float x)
{
    if (type == F32) ((float *)at)[i] = x;
    else if (type == F16) dtype_convert((uint16_t *)at + i, F16, &x, F32, 1);
    else ((uint16_t *)at)[i] = isnan(x) ? 0x7fc0 : half_of(x);
}

static float rounded(float x, Dtype type)
{
    float number;
    put(&number, 0, type, x);
    return get(&number, 0, type);
}

static size_t width(Dtype type) { return type == F32 ? 4 : 2; }

static Laid lay(const float *x, int64_t rows, int64_t cols, bool by_columns, Dtype type)
{
    int64_t lines = by_columns ? cols : rows, length = by_columns ? rows : cols, line = length + GAP;
    int64_t count = lines > 0 ? (lines - 1) * line + length : 0;     /* nothing is allocated behind the end */
    Laid l = { .memory = malloc((size_t)count * width(type) + 1) };
    l.view = (GemmMatrix){ l.memory, by_columns ? 1 : line, by_columns ? line : 1 };
    for (int64_t i = 0; i < count; i++) put(l.memory, i, type, NAN);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) put(l.memory, i * l.view.row + j * l.view.col, type, x[i * cols + j]);
    return l;
}

static float *numbers(int64_t count, uint64_t key, bool whole)
{
    float *x = malloc((size_t)count * sizeof *x + 1);
    for (int64_t i = 0; i < count; i++) {
        double u = random_uniform(key, (uint64_t)i);
        x[i] = whole ? (float)(int)(u * 9) - 4 : float_of(half_of((float)(2 * u - 1)));
    }
    return x;
}

typedef struct { KernelFamily family; Product product; Dtype input, output; bool add, bias, scaled; int threads; } How;

/* y of [M, N], rows N + GAP apart, as the product leaves it; old is what it held before, and its first row the bias. */
static void *run(Size s, const float *a, const float *b, const float *old, How how)
{
    Laid at = lay(a, s.M, s.K, how.product == TN, how.input), bt = lay(b, s.K, s.N, how.product == NT, how.input);
    Laid yt = lay(old, s.M, s.N, false, how.output);
    Gemm g = { .y = yt.memory, .y_row = s.N + GAP, .a = at.view, .b = bt.view, .M = s.M, .N = s.N, .K = s.K,
               .input = how.input, .output = how.output, .add = how.add, .family = how.family,
               .bias_type = how.input, .scaled = how.scaled, .scale = 0.25f };
    Laid bias = lay(old, s.M ? 1 : 0, s.N, false, how.input);
    if (how.bias) g.bias = bias.memory;
    size_t bytes = gemm_workspace_bytes(&g, how.threads);
    void *work = aligned_alloc(64, bytes + 64);
    memset(work, 0xff, bytes);                       /* NaN in both types */
    Team *team;
    assert_int_equal(team_open(&team, how.threads), OK);
    gemm(team, &g, work, bytes);
    team_close(team);
    free(work);
    free(at.memory);
    free(bt.memory);
    free(bias.memory);
    return yt.memory;
}

static void tell(const char *what, Size s, How how, int64_t i, int64_t j, double got, double want)
{
    fail_msg("%s: %s %s, %s to %s, add %d, %d threads, %lld x %lld x %lld: y[%lld][%lld] is %.9g instead of %.9g",
             what, kernel_family_name(how.family), product_name[how.product], dtype_name(how.input),
             dtype_name(how.output), how.add, how.threads, (long long)s.M, (long long)s.N, (long long)s.K,
             (long long)i, (long long)j, got, want);
}

/* Calls body for every family that runs here, product and pair of types. */
static void everywhere(void (*body)(How how))
{
    static const struct { Dtype input, output; } pair[] = { { F32, F32 }, { F32, BF16 }, { BF16, F32 }, { BF16, BF16 },
                                                            { F32, F16 }, { F16, F32 }, { F16, F16 } };
    enum { PAIRS = sizeof pair / sizeof *pair };
    for (KernelFamily family = KERNELS_AUTO + 1; family < KERNEL_FAMILIES; family++)
        for (int c = 0; c < PRODUCTS * PAIRS && kernel_family_callable(family); c++)
            body((How){ .family = family, .product = (Product)(c / PAIRS), .input = pair[c % PAIRS].input,
                        .output = pair[c % PAIRS].output, .threads = 3 });
}

/* Tails of every tile and block; more columns than a slab holds; more depth than a pass; nothing at all. */
static const Size sizes[] = { { 1, 1, 1 }, { 1, 50, 3 }, { 5, 7, 9 }, { 8, 48, 384 }, { 9, 49, 385 }, { 12, 16, 768 },
                              { 67, 97, 771 }, { 130, 30, 0 }, { 0, 5, 5 }, { 3, 1600, 17 }, { 70, 20, 3201 } };
enum { SIZES = sizeof sizes / sizeof *sizes };
static double *exact[SIZES];                         /* a b of whole numbers, which fp32 sums hold exactly */
static float  *whole_a[SIZES], *whole_b[SIZES], *whole_y[SIZES];

static void whole_numbers_case(How how)
{
    for (int n = 0; n < SIZES; n++)
        for (int mode = 0; mode < 6; mode++) {
            Size s = sizes[n];
            how.add = mode % 3 == 1, how.bias = mode % 3 == 2, how.scaled = mode >= 3;
            void *y = run(s, whole_a[n], whole_b[n], whole_y[n], how);
            for (int64_t i = 0; i < s.M; i++)
                for (int64_t j = 0; j < s.N; j++) {
                    const float *first = how.add ? whole_y[n] + i * s.N : whole_y[n];
                    double product = exact[n][i * s.N + j] * (how.scaled ? 0.25 : 1);
                    float want = (float)(product + (how.add || how.bias ? (double)first[j] : 0));
                    want = rounded(want, how.output);
                    float got = get(y, i * (s.N + GAP) + j, how.output);
                    if (got != want) tell("whole numbers", s, how, i, j, (double)got, (double)want);
                }
            for (int64_t i = 0; i + 1 < s.M; i++)
                for (int64_t j = s.N; j < s.N + GAP; j++)
                    if (!isnan(get(y, i * (s.N + GAP) + j, how.output))) tell("written beyond a row", s, how, i, j, 0, 0);
            free(y);
        }
}

static void whole_numbers_are_exact(void **state)
{
    (void)state;
    for (int n = 0; n < SIZES; n++) {
        Size s = sizes[n];
        whole_a[n] = numbers(s.M * s.K, 1, true), whole_b[n] = numbers(s.K * s.N, 2, true);
        whole_y[n] = numbers(s.M * s.N, 3, true), exact[n] = calloc((size_t)(s.M * s.N) + 1, sizeof **exact);
        for (int64_t i = 0; i < s.M; i++)
            for (int64_t k = 0; k < s.K; k++)
                for (int64_t j = 0; j < s.N; j++)
                    exact[n][i * s.N + j] += (double)whole_a[n][i * s.K + k] * (double)whole_b[n][k * s.N + j];
    }
    everywhere(whole_numbers_case);
    for (int n = 0; n < SIZES; n++) free(whole_a[n]), free(whole_b[n]), free(whole_y[n]), free(exact[n]);
}

static const Size real = { 131, 101, 1700 };
static float *real_a, *real_b, *real_y;

/* The error of a sum of K terms is at most K 2^-24 of the sum of their sizes, and in practice far less. */
static void near_case(How how)
{
    how.add = true;
    void *y = run(real, real_a, real_b, real_y, how);
    for (int64_t i = 0; i < real.M; i += 13)
        for (int64_t j = 0; j < real.N; j += 7) {
            double sum = (double)real_y[i * real.N + j], size = fabs(sum);
            for (int64_t k = 0; k < real.K; k++) {
                double term = (double)real_a[i * real.K + k] * (double)real_b[k * real.N + j];
                sum += term, size += fabs(term);
            }
            double got = (double)get(y, i * (real.N + GAP) + j, how.output);
            double bound = 1e-6 * size + (how.output == BF16 ? 0x1p-8 : how.output == F16 ? 0x1p-11 : 0) * fabs(sum);
            if (!(fabs(got - sum) <= bound)) tell("real numbers", real, how, i, j, got, sum);
        }
    free(y);
}

static void real_numbers_are_near(void **state)
{
    (void)state;
    everywhere(near_case);
}

/* The rows [at, at + rows) and columns [left, left + columns) alone, with other threads. */
static void part_agrees(const void *y, How how, int64_t at, int64_t rows, int64_t left, int64_t columns)
{
    Size part = { rows, columns, real.K };
    float *b = malloc((size_t)(real.K * columns) * sizeof *b), *old = calloc((size_t)(rows * columns), sizeof *old);
    for (int64_t k = 0; k < real.K; k++)
        memcpy(b + k * columns, real_b + k * real.N + left, (size_t)columns * sizeof *b);
    for (int64_t i = 0; i < rows; i++)
        memcpy(old + i * columns, real_y + (at + i) * real.N + left, (size_t)columns * sizeof *old);
    void *z = run(part, real_a + at * real.K, b, old, how);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double got  = (double)get(z, i * (columns + GAP) + j, how.output);
            double want = (double)get(y, (at + i) * (real.N + GAP) + left + j, how.output);
            if (got != want) tell("bits of a part", part, how, i, j, got, want);
        }
    free(z);
    free(b);
    free(old);
}

static bool has_its_bits(KernelFamily f) { return kernel_family_runs(f) || f == KERNELS_EMULATED; }

static void same_bits_case(How how)
{
    how.add = true;
    void *y = run(real, real_a, real_b, real_y, how);
    for (how.threads = 1; how.threads <= 2; how.threads++) part_agrees(y, how, 0, real.M, 0, real.N);
    part_agrees(y, how, 77, 1, 0, real.N);           /* a row alone */
    part_agrees(y, how, 50, 23, 60, 1);              /* a column alone */
    how.threads = 3;
    part_agrees(y, how, 1, 100, 31, 70);             /* a part at another place in its tiles */
    for (KernelFamily other = how.family + 1; other < KERNEL_FAMILIES; other++) {
        if (!has_its_bits(other) || !has_its_bits(how.family)) continue;
        if (!kernel_family_alike(other, how.family)) continue;
        if (how.input == BF16 && kernel_family_has_pairs(other) != kernel_family_has_pairs(how.family)) continue;
        How again = how;
        again.family = other;
        part_agrees(y, again, 0, real.M, 0, real.N);
    }
    free(y);
}

static void bits_depend_on_row_and_column_alone(void **state)
{
    (void)state;
    everywhere(same_bits_case);
}

/* What is multiplied where it lies, in steps of whole vectors, beside what is packed for all threads. */
static void few_rows_have_the_bits_of_many(void **state)
{
    static const Dtype types[] = { F32, BF16, F16 };
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 6, 8, 9, 31, 96 };
    const Size all = { 99, 70, 1536 };
    float *a = numbers(all.M * all.K, 11, false), *b = numbers(all.K * all.N, 12, false), *old = numbers(all.M * all.N, 13, false);
    (void)state;
    for (int i = 0; i < 3 * KERNEL_FAMILIES; i++) {
        How how = { .family = i / 3, .product = NT, .input = types[i % 3], .output = F32, .bias = true, .threads = 2 };
        if (how.family == KERNELS_AUTO || !kernel_family_callable(how.family)) continue;
        float *many = run(all, a, b, old, how);
        for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
            Size part = { rows[n], all.N, all.K };
            float *few = run(part, a + 3 * all.K, b, old, how);
            for (int64_t r = 0; r < part.M; r++)
                for (int64_t j = 0; j < all.N; j++) {
                    float got = few[r * (all.N + GAP) + j], want = many[(3 + r) * (all.N + GAP) + j];
                    if (got != want) tell("few rows", part, how, r, j, (double)got, (double)want);
                }
            free(few);
        }
        free(many);
    }
    free(a), free(b), free(old);
}

/* What an op of several products measures by the largest, as experts do. */
static void smaller_products_need_no_more_memory(void **state)
{
    static const int64_t most[] = { 1, 2, 40, 96, 97, 130, 700, 1600, 7000 };
    enum { MOST = sizeof most / sizeof *most, TRIES = 20000 };
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        int64_t draw[8];
        for (int k = 0; k < 8; k++) draw[k] = (int64_t)(random_uniform(5, (uint64_t)(8 * i + k)) * 1e6);
        int64_t M = most[draw[0] % MOST], N = most[draw[1] % MOST], K = most[draw[2] % MOST];
        Gemm whole = { .M = M, .N = N, .K = K, .b = { .row = draw[3] % 2 ? 1 : N, .col = draw[3] % 2 ? K : 1 }, .a = { .row = K, .col = 1 },
                       .input = draw[4] % 2 ? F32 : BF16, .output = draw[4] / 2 % 2 ? F32 : BF16 }, part = whole;
        int threads = 1 + (int)(draw[5] % 20);
        part.M = 1 + draw[6] % M, part.K = 1 + draw[7] % K;
        size_t all = gemm_workspace_bytes(&whole, threads), some = gemm_workspace_bytes(&part, threads);
        if (some > all)
            fail_msg("%lld x %lld x %lld takes %zu bytes by %d threads, and its part of %lld rows and depth %lld %zu", (long long)M, (long long)N,
                     (long long)K, all, threads, (long long)part.M, (long long)part.K, some);
    }
}

/* 1 + 2^-8 and 1 + 3 2^-8 are ties, which go to 1 and 1 + 2^-6; the largest float rounds to infinity. Columns are more than a register
 * tile has, and no multiple of a vector. */
static void bf16_is_rounded_to_nearest_even(void **state)
{
    (void)state;
    static const float    given[] = { 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.03p0f, 0x1.fffffep127f, INFINITY, NAN, __builtin_nanf("0x3fffff"), 0x1p-130f };
    static const uint16_t want[]  = { 0x3f80,    0x3f82,    0x3f81,        0xbf82,     0x7f80,          0x7f80,   0x7fc0, 0x7fff,                    0x0008 };
    enum { COUNT = sizeof want / sizeof *want, N = 53 };
    const float zero[COUNT * N] = { 0 };
    float one[N];
    for (int j = 0; j < N; j++) one[j] = 1;
    for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++) {
        How how = { .family = f, .product = NN, .input = F32, .output = BF16, .threads = 1 };
        if (!kernel_family_callable(f)) continue;
        uint16_t *y = run((Size){ COUNT, N, 1 }, given, one, zero, how);
        for (int i = 0; i < COUNT * N; i++) assert_int_equal(y[i / N * (N + GAP) + i % N], want[i / N]);
        free(y);
    }
}

/* vdpbf16ps and its emulation on numbers of all sizes, subnormal ones and infinities among them. */
static void pairs_are_emulated_to_the_bit(void **state)
{
    enum { M = 200, N = 200 };
    static const int64_t depths[] = { 1, 2, 7 };
    (void)state;
    if (!kernel_family_runs(KERNELS_AVX512_BF16)) {
        print_message("this machine has no vdpbf16ps: nothing to compare with\n");
        skip();
    }
    for (int64_t d = 0; d < 3; d++) {
        Size   s = { M, N, depths[d] };
        float *a = numbers(M * s.K, 7, false), *b = numbers(s.K * N, 8, false), *zero = calloc(M * N, sizeof *zero);
        for (int64_t i = 0; i < M * s.K; i++) a[i] = float_of((uint16_t)(random_uniform(9, (uint64_t)i) * 65536));
        for (int64_t i = 0; i < s.K * N; i++) b[i] = float_of((uint16_t)(random_uniform(10, (uint64_t)i) * 65536));
        How how = { .family = KERNELS_AVX512_BF16, .product = NN, .input = BF16, .output = F32, .threads = 2 };
        float *one = run(s, a, b, zero, how);
        how.family = KERNELS_EMULATED;
        float *two = run(s, a, b, zero, how);
        int64_t finite = 0;
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                float x = one[i * (N + GAP) + j], y = two[i * (N + GAP) + j];
                if (memcmp(&x, &y, 4) && !(isnan(x) && isnan(y))) tell("emulated pairs", s, how, i, j, (double)y, (double)x);
                finite += isfinite(x) && x != 0;
            }
        assert_true(finite > M * N / 4);
        free(a), free(b), free(zero), free(one), free(two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(real_numbers_are_near),
        cmocka_unit_test(bits_depend_on_row_and_column_alone),
        cmocka_unit_test(few_rows_have_the_bits_of_many), cmocka_unit_test(smaller_products_need_no_more_memory),
        cmocka_unit_test(bf16_is_rounded_to_nearest_even),
        cmocka_unit_test(pairs_are_emulated_to_the_bit),
    };
    real_a = numbers(real.M * real.K, 4, false), real_b = numbers(real.K * real.N, 5, false);
    real_y = numbers(real.M * real.N, 6, false);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(real_a), free(real_b), free(real_y);
    return failed;
}
