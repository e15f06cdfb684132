/* Fits compared with scipy's (tests/oracles/scaling_laws.py made tests/golden/plan/scaling_laws.txt), series that have
 * no law, the confidence of a law, and the best value of an option. */
#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/random.h"
#include "plan/best_value.h"
#include "plan/scaling_law.h"

enum { MOST = 64 };

static void near(const char *what, double ours, double theirs, double tolerance)
{
    if (!(fabs(ours - theirs) <= tolerance * fmax(fabs(theirs), 1e-3)))
        fail_msg("%s: %.10g, by scipy %.10g", what, ours, theirs);
}

static void compare(const char *line)
{
    char name[64];
    double n[4 + 2 * MOST];
    int used, count = 0;
    assert_int_equal(sscanf(line, "%63s%n", name, &used), 1);
    for (char *at = (char *)line + used, *end; count < 4 + 2 * MOST; at = end, count++) {
        n[count] = strtod(at, &end);
        if (end == at) break;
    }
    ScalingPoint point[MOST];
    int runs = (count - 4) / 2;
    for (int i = 0; i < runs; i++) point[i] = (ScalingPoint){ n[4 + 2 * i], n[5 + 2 * i] };
    ScalingLaw law;
    if (scaling_law_fit(&law, point, runs) != OK) fail_msg("%s: %s", name, fail_text());
    double cost = scaling_law_cost(&law, point, runs);
    /* A better minimum than theirs would be none of ours. */
    if (!(fabs(cost - n[3]) <= 1e-6 * n[3] + 1e-12)) fail_msg("%s: cost %.12g, by scipy %.12g", name, cost, n[3]);
    near(name, law.floor, n[0], 1e-3);
    near(name, law.exponent, n[2], 1e-3);
    for (double size = point[0].size; size < 100 * point[runs - 1].size; size *= 2)
        near(name, scaling_law_at(&law, size), n[0] + pow(n[1] / size, n[2]), 1e-4);
}

static void test_scipy(void **state)
{
    (void)state;
    char line[8192];
    int cases = 0;
    FILE *file = fopen(TESTS_DIR "/golden/plan/scaling_laws.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (line[0] != '#') compare(line), cases++;
    fclose(file);
    assert_int_equal(cases, 7);
}

static void refused(const ScalingPoint *point, int count, const char *why)
{
    ScalingLaw law;
    assert_int_equal(scaling_law_fit(&law, point, count), BAD_OPTION);
    assert_contains(fail_text(), why);
}

static void test_refused(void **state)
{
    (void)state;
    refused((ScalingPoint[]){ { 1e5, 2 }, { 2e5, 1.8 }, { 2e5, 1.81 } }, 3, "needs three sizes");
    refused((ScalingPoint[]){ { 1e5, 2 }, { 2e5, 2.1 }, { 4e5, 2.2 } }, 3, "does not fall with the size");
    refused((ScalingPoint[]){ { 1e5, 2 }, { 2e5, NAN }, { 4e5, 1.5 } }, 3, "is a number above 0");
    refused((ScalingPoint[]){ { 1e5, 2 }, { 2e5, INFINITY }, { 4e5, 1.5 } }, 3, "is a number above 0");
    refused((ScalingPoint[]){ { 1e5, 2 }, { 2e5, 4 }, { 4e5, 2 }, { 8e5, 1.9 } }, 4, "from the nearest law");
}

/* Of many series with drawn deviations the true loss of a larger model lies in most ranges. */
static void test_confidence(void **state)
{
    (void)state;
    enum { SERIES = 20, RUNS = 8, DRAWS = 100 };
    int inside = 0;
    double width = 0;
    ScalingLaw law;
    ScalingConfidence c;
    for (int s = 0; s < SERIES; s++) {
        ScalingPoint point[RUNS];
        for (int i = 0; i < RUNS; i++) {
            double size = 1e5 * pow(2, i / 2);
            point[i] = (ScalingPoint){ size, (1.2 + sqrt(3000 / size)) * exp(0.004 * random_normal(random_key(5, "runs"), (uint64_t)(s * RUNS + i))) };
        }
        assert_int_equal(scaling_law_fit(&law, point, RUNS), OK);
        assert_int_equal(scaling_law_confidence(&c, &law, point, RUNS, 1.6e6, DRAWS, 1), OK);
        double truth = 1.2 + sqrt(3000 / 1.6e6);
        inside += c.loss.low <= truth && truth <= c.loss.high;
        width += (c.loss.high - c.loss.low) / SERIES;
    }
    if (inside < SERIES * 4 / 5) fail_msg("the true loss is in %d of %d ranges", inside, SERIES);
    if (!(width < 0.1)) fail_msg("the ranges are %g wide", width);
    ScalingPoint exact[] = { { 1e5, 2 }, { 2e5, 1.8 }, { 4e5, 1.7 } };
    assert_int_equal(scaling_law_fit(&law, exact, 3), OK);
    assert_int_equal(scaling_law_confidence(&c, &law, exact, 3, 1e6, DRAWS, 1), BAD_OPTION);
    assert_contains(fail_text(), "nothing says how good");
}

/* Runs that all have 2 % more than the law: their residuals have no spread, and no redrawn series is off. */
static void test_centred(void **state)
{
    (void)state;
    enum { RUNS = 6, DRAWS = 100 };
    ScalingLaw law = { 1.2, 3000, SCALING_EXPONENT };
    ScalingConfidence c;
    ScalingPoint point[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double size = 1e5 * pow(2, i);
        point[i] = (ScalingPoint){ size, 1.02 * scaling_law_at(&law, size) };
    }
    assert_int_equal(scaling_law_confidence(&c, &law, point, RUNS, 1e7, DRAWS, 1), OK);
    assert_int_equal(c.fits, DRAWS);
    near("low end",  c.loss.low,  scaling_law_at(&law, 1e7), 1e-5);
    near("high end", c.loss.high, scaling_law_at(&law, 1e7), 1e-5);
}

/* Where redrawn series are left out because their loss does not fall, there is no range; their number stays. */
static void test_left_out(void **state)
{
    (void)state;
    enum { RUNS = 5, DRAWS = 200 };
    ScalingLaw law;
    ScalingConfidence c;
    ScalingPoint point[RUNS] = { { 1e5, 2.0 }, { 2e5, 2.01 }, { 4e5, 1.96 }, { 8e5, 1.99 }, { 1.6e6, 1.95 } };
    assert_int_equal(scaling_law_fit(&law, point, RUNS), OK);
    assert_int_equal(scaling_law_confidence(&c, &law, point, RUNS, 3.2e6, DRAWS, 1), BAD_OPTION);
    assert_contains(fail_text(), "of 200 redrawn series have a law, less than 95 %");
    if (c.fits <= DRAWS / 2 || c.fits >= DRAWS * 95 / 100) fail_msg("%d of %d have a law", c.fits, DRAWS);
}

static void test_best(void **state)
{
    (void)state;
    double lr[] = { 1e-3, 2e-3, 4e-3, 8e-3 }, loss[4];
    for (int i = 0; i < 4; i++) loss[i] = 1.5 + 0.1 * pow(log(lr[i] / 2.5e-3), 2);
    BestValue b = best_value(lr, loss, 4);
    assert_int_equal(b.index, 1);
    assert_int_equal(b.edge, 0);
    assert_true(b.between && fabs(b.value - 2.5e-3) < 1e-12 && fabs(b.loss - 1.5) < 1e-12);
    b = best_value(lr, (double[]){ 4, 3, 2, 1 }, 4);
    assert_true(b.index == 3 && b.edge == 1 && !b.between);
    b = best_value(lr, (double[]){ 1, 2, 3, 4 }, 4);
    assert_true(b.index == 0 && b.edge == -1 && !b.between);
    b = best_value(lr, (double[]){ 3, 2, INFINITY, NAN }, 4);               /* its neighbour diverged */
    assert_true(b.index == 1 && b.edge == 0 && !b.between);
    b = best_value(lr, (double[]){ NAN, INFINITY, NAN, NAN }, 4);
    assert_int_equal(b.index, -1);
    b = best_value((double[]){ 0, 1, 2 }, (double[]){ 3, 2, 3 }, 3);        /* 0 has no logarithm */
    assert_true(b.index == 1 && !b.between);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scipy), cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_confidence), cmocka_unit_test(test_centred),
                                        cmocka_unit_test(test_left_out), cmocka_unit_test(test_best) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
