/* The rule of `jotun speedrun`: its law against values computed from the published fit by hand, and what it
 * chooses for little and for much text. */
#include "base/testing.h"

#include <math.h>
#include "plan/recipe.h"

static void assert_in_double(double x, double low, double high)
{
    if (!(x >= low && x <= high)) fail_msg("%g is not between %g and %g", x, low, high);
}

/* 1.87 + 521 / N^0.353 + 1488 / D^0.353, with D = U (1 + R (1 - exp(-(seen / U - 1) / R))), R = 15.387756 */
static void test_law(void **state)
{
    (void)state;
    assert_in_double(recipe_loss(70e9, 1.4e12, 1e13), 2.02409, 2.02411);
    assert_in_double(recipe_loss(2.8e9, 55e9, 55e9), 2.35155, 2.35157);
    assert_in_double(recipe_loss(2.8e9, 176e9, 44e9), 2.27459, 2.27461);      /* four passes over 44e9 tokens */
    assert_in_double(recipe_loss(3.7e6, 4.4e6, 314e3), 12.00253, 12.00255);
}

/* The depths that the command tries, as it tries them */
static RecipeChoice chosen(RecipeAsk ask, double flops_per_second)
{
    RecipeChoice r, best = { .loss = INFINITY };
    for (int depth = 1; depth <= RECIPE_DEPTH_MOST; depth++) {
        recipe_shape(&r, &ask, depth);
        double step = r.flops_per_token * r.batch * r.sequence / flops_per_second;
        if (!recipe_horizon(&r, &ask, step)) break;
        if (r.loss < best.loss) best = r;
    }
    return best;
}

/* With text in plenty the law is Hoffmann's: about 20 tokens for a parameter at every budget. */
static void test_much_text(void **state)
{
    (void)state;
    for (double flops = 1e16; flops < 1e21; flops *= 10) {
        RecipeAsk ask = { .flops = flops, .tokens = (int64_t)1e13, .ids = 32768 };
        RecipeChoice    r = chosen(ask, 1);
        double    ratio = (double)r.steps * r.batch * r.sequence / r.parameters;
        assert_in_double(ratio, 10, 40);
        assert_true(r.dropout == 0 && r.epochs < 1);
        assert_in_double((double)r.steps * r.batch * r.sequence * r.flops_per_token / flops, 0.9, 1.001);
    }
}

/* The text of the quickstart on a machine of 200 GFLOP/s: a model of a few million parameters, for which the
 * passes over the text are few enough to be worth something. */
static void test_little_text(void **state)
{
    (void)state;
    RecipeAsk ask = { .seconds = 560, .tokens = 314000, .ids = 2048 };
    RecipeChoice    r = chosen(ask, 150e9);
    assert_in_double(r.parameters, 1.5e6, 8e6);
    assert_in_double(r.epochs, 5, 40);
    assert_true(r.dropout > 0);
    ask.seconds = 86400;                                  /* a day of it: the passes end, the rest is not used */
    assert_true(chosen(ask, 150e9).epochs <= 40.01);
}

/* A sample is an eighth of the text at most, and something is trained however small it is. */
static void test_tiny_text(void **state)
{
    (void)state;
    for (int64_t tokens = 100; tokens < 1000000; tokens *= 3) {
        RecipeAsk ask = { .seconds = 60, .tokens = tokens, .ids = 257 };
        RecipeChoice    r = chosen(ask, 50e9);
        assert_true(r.depth >= 1 && r.steps >= RECIPE_STEPS_LEAST && r.batch >= 1 && r.micro <= r.batch);
        assert_true(r.sequence * 8 <= tokens || r.sequence == 8);
    }
}

/* More time never makes the expected loss worse, and too little of it is said. */
static void test_time(void **state)
{
    (void)state;
    double before = INFINITY;
    for (double seconds = 10; seconds < 1e6; seconds *= 3) {
        RecipeChoice r = chosen((RecipeAsk){ .seconds = seconds, .tokens = 100000000, .ids = 8192 }, 100e9);
        assert_true(r.loss < before);
        before = r.loss;
    }
    assert_int_equal(chosen((RecipeAsk){ .seconds = 1e-3, .tokens = 1000000, .ids = 8192 }, 1e9).depth, 0);
}

static void test_vocabulary(void **state)
{
    (void)state;
    assert_int_equal(recipe_vocabulary(1000), 0);
    assert_int_equal(recipe_vocabulary(50000), 0);
    assert_int_equal(recipe_vocabulary(1200000), 2048);
    assert_int_equal(recipe_vocabulary((int64_t)1e11), 32768);
    for (int64_t bytes = 100; bytes < (int64_t)1e12; bytes *= 2)
        assert_true(recipe_vocabulary(2 * bytes) >= recipe_vocabulary(bytes));
}

static void test_bytes(void **state)
{
    (void)state;
    RecipeAsk minutes = { .seconds = 600 }, hour = { .seconds = 3600 }, depth = { .depth = 4 };
    assert_true(recipe_bytes_most(&minutes, 2) > 100000000 && recipe_bytes_most(&minutes, 2) < (int64_t)10e9);
    assert_true(recipe_bytes_most(&hour, 2) > 5 * recipe_bytes_most(&minutes, 2));
    assert_true(recipe_bytes_most(&depth, 2) > 100000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law),       cmocka_unit_test(test_much_text),  cmocka_unit_test(test_little_text),
        cmocka_unit_test(test_tiny_text), cmocka_unit_test(test_time),       cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
