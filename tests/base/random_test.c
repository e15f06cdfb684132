/* Philox against the published known answers, statistics of the distributions, and permutations. */
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "base/exponential.h"
#include "base/sine.h"

static uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* The known answers published with Random123 */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct { uint32_t counter[4], key[2], answer[4]; } known[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const uint32_t *c = known[i].counter, *k = known[i].key;
        Philox got = philox(pair(k[0], k[1]), pair(c[0], c[1]), pair(c[2], c[3]));
        assert_memory_equal(got.v, known[i].answer, sizeof got.v);
    }
}

static void bits_are_lanes(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 64; i++) assert_int_equal(random_bits(7, i), philox(7, i / 4, 0).v[i % 4]);
}

/* Saved runs rest on these: a change of them is a change of every order and every weight. */
static void streams_stay(void **state)
{
    (void)state;
    assert_int_equal(random_mix(0, 0), 0xa706dd2f4d197e6fu);
    assert_int_equal(random_key(1234, "word.weight"), 0xeb3d722d58d753aau);
    assert_int_not_equal(random_mix(1, 2), random_mix(2, 1));
    assert_int_not_equal(random_key(1, "a"), random_key(2, "a"));
    assert_int_not_equal(random_key(1, "a"), random_key(1, "b"));
    static const uint64_t order[10] = { 3, 9, 4, 0, 7, 1, 2, 8, 6, 5 };
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(random_permute(5, 10, i), order[i]);
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 100000 };
    int bin[10] = { 0 };
    for (uint64_t i = 0; i < N; i++) {
        double u = random_uniform(3, i);
        assert_true(u >= 0 && u < 1);
        bin[(int)(u * 10)]++;
    }
    for (int b = 0; b < 10; b++) assert_true(abs(bin[b] - N / 10) < 400);       /* 4 sigma is 380 */
}

/* Against the C library's logarithm and cosine; many at a time give the same bits as one. */
static void normal_is_box_muller(void **state)
{
    (void)state;
    enum { N = 1000 };
    double many[N];
    random_normals(many, 77, 5, N);
    for (uint64_t i = 0; i < N; i++) {
        Philox p = philox(77, 5 + i, 0);
        double u = 1 - (double)(((uint64_t)p.v[1] << 32 | p.v[0]) >> 11) * 0x1p-53;
        double v = (double)(((uint64_t)p.v[3] << 32 | p.v[2]) >> 11) * 0x1p-53;
        double x = sqrt(-2 * log(u)) * cos(6.283185307179586476925 * v);
        assert_true(fabs(many[i] - x) <= 1e-15 * fabs(x));
        assert_true(many[i] == random_normal(77, 5 + i));
    }
}

/* |x - y| in units of the last place of y, or all but equal */
static double units(double x, long double y)
{
    if (!isfinite((double)y) || !isfinite(x)) return x == (double)y || (isnan(x) && isnan((double)y)) ? 0 : INFINITY;
    double unit = fmax(fabs(nextafter((double)y, INFINITY) - (double)y), 0x1p-1074);
    return (double)(fabsl((long double)x - y) / (long double)unit);
}

/* Against the C library's functions in long double, which has 11 bits more on x86-64. */
static void exponential_and_logarithm_of_the_library(void **state)
{
    static const double special[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023,
                                      709.78, 709.79, -745.1, -745.2, -708.4, 1e300, -1e300, 0x1p-60 };
    double exp_most = 0, log_most = 0, power_most = 0;
    (void)state;
    for (uint64_t i = 0; i < 400000; i++) {
        double part = random_uniform(5, i), x = i % 2 ? 1500 * part - 750 : 4 * part - 2;
        double y = i % 2 ? ldexp(1 + part, (int)(i % 2098) - 1074) : 0.5 + 1.5 * part;
        exp_most = fmax(exp_most, units(natural_exp(x), expl((long double)x)));
        log_most = fmax(log_most, units(natural_log(y), logl((long double)y)));
        double base = 1 + 1e6 * part * part * part, to = random_uniform(6, i);
        double bound = 2 * fabs(to * log(base)) + 2;
        power_most = fmax(power_most, units(natural_power(base, to), powl((long double)base, (long double)to)) / bound);
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        exp_most = fmax(exp_most, units(natural_exp(special[i]), expl((long double)special[i])));
        log_most = fmax(log_most, units(natural_log(special[i]), logl((long double)special[i])));
    }
    print_message("exponential within %.2f units, logarithm within %.2f, power within %.2f of its bound\n", exp_most, log_most, power_most);
    assert_true(exp_most <= 2 && log_most <= 2 && power_most <= 1);
    assert_true(natural_power(0.9, 0) == 1 && natural_power(0, 3) == 0 && natural_power(0.999, 1e9) == 0);
}

static void sine_and_cosine_of_the_library(void **state)
{
    (void)state;
    for (int64_t i = -20000; i < 20000; i++) {
        double x = (double)(i * i * i) * 1.3e-7, most = 4e-16 + fabs(x) * 0x1p-52;
        SineCosine mine = sine_cosine(x);
        assert_true(fabs(mine.sine - sin(x)) <= most && fabs(mine.cosine - cos(x)) <= most);
    }
}

static void bits_of_many_are_those_of_each(void **state)
{
    (void)state;
    uint32_t many[700];
    for (uint64_t i = 0; i < 18; i++)                       /* blocks around number 2^32 as well */
        for (int64_t n = 1; n <= 700; n += 233) {
            uint64_t first = i < 9 ? i : ((uint64_t)1 << 34) - 300 + i;
            random_bits_of(many, 42, first, n);
            for (int64_t k = 0; k < n; k++) assert_true(many[k] == random_bits(42, first + (uint64_t)k));
        }
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sum[5] = { 0 }, next = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = random_normal(11, i);
        for (int m = 1; m <= 4; m++) sum[m] += pow(x, m);
        next += x * random_normal(11, i + 1);
    }
    assert_true(fabs(sum[1] / N) < 0.01);
    assert_true(fabs(sum[2] / N - 1) < 0.015);
    assert_true(fabs(sum[3] / N) < 0.03);
    assert_true(fabs(sum[4] / N - 3) < 0.1);
    assert_true(fabs(next / N) < 0.01);        /* neighbours know nothing of each other */
}

static void check_bijection(uint64_t key, uint64_t n)
{
    static unsigned char seen[70000];
    memset(seen, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = random_permute(key, n, i);
        assert_true(at < n);
        assert_int_equal(seen[at]++, 0);
    }
}

static void permutation_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n++) check_bijection(n * 31, n);
    const uint64_t n[] = { 1023, 1024, 1025, 4095, 4096, 4097, 65537 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) check_bijection(i, n[i]);
    assert_true(random_permute(1, UINT64_MAX, UINT64_MAX - 1) < UINT64_MAX);
}

static void permutation_mixes(void **state)
{
    (void)state;
    enum { N = 5000 };
    int    stay = 0, agree = 0;
    double steps = 0;
    for (uint64_t i = 0; i < N; i++) {
        stay  += random_permute(1, N, i) == i;
        agree += random_permute(1, N, i) == random_permute(2, N, i);
        steps += fabs((double)random_permute(1, N, i) - (double)random_permute(1, N, (i + 1) % N));
    }
    assert_true(stay < 8 && agree < 8);                      /* one is expected of each */
    assert_true(fabs(steps / N / N - 1.0 / 3) < 0.02);       /* mean distance of two random places */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(bits_are_lanes),
        cmocka_unit_test(streams_stay),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(normal_is_box_muller),
        cmocka_unit_test(sine_and_cosine_of_the_library),
        cmocka_unit_test(exponential_and_logarithm_of_the_library),
        cmocka_unit_test(bits_of_many_are_those_of_each),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_mixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
