/* The learning rate against values worked out by hand from Megatron-LM's formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "optim/lr.h"
#include <cmocka.h>

static void want(const LrSchedule *s, int64_t done, double value)
{
    if (!(fabs(lr_at(s, done) - value) <= 1e-18 + 1e-15 * value)) fail_msg("after %d steps: %.17g, not %.17g", (int)done, lr_at(s, done), value);
}

static void test_styles(void **state)
{
    (void)state;
    LrSchedule cosine = { LR_COSINE, 8e-4, 2e-4, 4, 12 }, linear = { LR_LINEAR, 8e-4, 2e-4, 4, 12 }, constant = { LR_CONSTANT, 8e-4, 2e-4, 4, 12 };
    const LrSchedule *all[] = { &cosine, &linear, &constant };
    for (int i = 0; i < 3; i++) {
        want(all[i], 0, 0);                                     /* Megatron's first step under warm-up */
        want(all[i], 1, 2e-4);
        want(all[i], 4, 8e-4);
    }
    want(&cosine, 8, 5e-4);                                     /* half way: cos(pi / 2) = 0 */
    want(&cosine, 6, 2e-4 + 6e-4 * 0.5 * (1 + sqrt(0.5)));
    want(&linear, 6, 6.5e-4);
    want(&cosine, 12, 2e-4);
    want(&linear, 13, 2e-4);
    want(&constant, 1000, 8e-4);
    want(&(LrSchedule){ LR_COSINE, 1e-3, 0, 0, 10 }, 0, 1e-3);  /* no warm-up: the first step has the peak */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_styles) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
