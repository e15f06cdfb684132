/* The end of a step's gradients: the dynamic loss scale against Megatron-LM's rule
 * (tests/oracles/loss_scale_golden.py), and that a scale changes neither norm nor factor times gradient. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "tensor/step_end.h"
#include <cmocka.h>

static const struct { const char *steps; double first; LossScaling scaling; double scale[32]; } golden[] = {
    { "oooooo---o", 0x1p32, { true, 1, 1000, 2 },
      { 0x1p32, 0x1p31, 0x1p30, 0x1p29, 0x1p28, 0x1p27, 0x1p27, 0x1p27, 0x1p27, 0x1p26 } },
    { "----o--oo------o-o----", 64, { true, 1, 4, 2 },
      { 64, 64, 64, 128, 128, 128, 128, 64, 32, 32, 32, 32, 64, 64, 64, 64, 64, 32, 32, 32, 32, 64 } },
    { "oooooooo", 16, { true, 4, 10, 1 },
      { 8, 4, 4, 4, 4, 4, 4, 4 } },
    { "--o--o--o------oo---", 1024, { true, 1, 3, 3 },
      { 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 512, 512, 512, 1024, 1024, 1024, 2048, 2048,
        2048, 2048, 2048, 4096 } },
    { "------------", 8, { true, 1, 5, 2 },
      { 8, 8, 8, 8, 16, 16, 16, 16, 16, 32, 32, 32 } },
};

static void scale_follows_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        StepState s = { .loss = { golden[i].first, 0, golden[i].scaling.hysteresis } };
        step_state_scale(&s, 1);
        for (int k = 0; golden[i].steps[k]; k++) {
            double report[4], sums[3] = { 2, 1, golden[i].steps[k] == 'o' ? INFINITY : 4 };
            step_state_end(&s, sums, 0, golden[i].scaling, report);
            assert_int_equal(s.skip, golden[i].steps[k] == 'o');
            if (s.loss.scale != golden[i].scale[k])
                fail_msg("run %zu, step %d: scale %g, wanted %g", i, k, s.loss.scale, golden[i].scale[k]);
            assert_true(s.gradient_scale == s.loss.scale);
        }
    }
}

/* A state that is taken out in the middle goes on as if it had not been. */
static void scale_is_resumed(void **state)
{
    (void)state;
    StepState s = { .loss = { golden[1].first, 0, golden[1].scaling.hysteresis } }, other = { 0 };
    step_state_scale(&s, 1);
    for (int k = 0; golden[1].steps[k]; k++) {
        double report[4], sums[3] = { 2, 1, golden[1].steps[k] == 'o' ? NAN : 4 };
        other = (StepState){ .loss = s.loss };
        step_state_scale(&other, 1);
        s = other;
        step_state_end(&s, sums, 0, golden[1].scaling, report);
        assert_true(s.loss.scale == golden[1].scale[k]);
    }
}

/* More steps were counted than a shorter window has: the next finite one doubles the scale. A loss that is not
 * finite is no overflow of gradients, and a checkpoint's scale below the minimum is not raised. */
static void scale_of_other_settings(void **state)
{
    (void)state;
    double report[4], sums[3] = { 2, 1, 4 }, lost[3] = { NAN, 1, NAN }, over[3] = { 2, 1, INFINITY };
    StepState s = { .loss = { 8, 10, 1 } };
    step_state_scale(&s, 1);
    step_state_end(&s, sums, 0, (LossScaling){ true, 1, 5, 2 }, report);
    assert_true(s.loss.scale == 16 && s.loss.growth == 0 && s.loss.hysteresis == 2);
    step_state_end(&s, lost, 0, (LossScaling){ true, 1, 5, 2 }, report);
    assert_true(report[3] == 1 && s.skip && s.loss.scale == 16 && s.loss.hysteresis == 2);
    s.loss.hysteresis = 1;
    step_state_end(&s, over, 0, (LossScaling){ true, 64, 5, 2 }, report);
    assert_true(report[3] == SKIP_OVERFLOW && s.skip && s.loss.scale == 16 && s.loss.hysteresis == 0);
}

/* 3 tokens of a global batch of 6: token_scale is 8. Gradients in memory are gradient_scale times as large. */
static void scale_cancels(void **state)
{
    (void)state;
    double plain[4], scaled[4], sums[3] = { 6, 3, 81 };
    StepState one = { 0 }, two = { .loss = { 64, 0, 2 } };
    step_state_scale(&one, 6);
    step_state_scale(&two, 6);
    assert_true(one.gradient_scale == 1 && two.gradient_scale == 8);
    for (int clip = 0; clip < 2; clip++) {
        double larger[3] = { sums[0], sums[1], sums[2] * 64 };
        step_state_end(&one, sums, clip, (LossScaling){ 0 }, plain);
        step_state_end(&two, larger, clip, (LossScaling){ 0 }, scaled);
        assert_memory_equal(plain, scaled, sizeof plain);
        assert_true(plain[0] == 2 && plain[2] == 3 && two.factor * 8 == one.factor);
        assert_true(one.factor == (clip ? 1.0 / 3 / 3 : 1.0 / 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale_follows_the_rule),
        cmocka_unit_test(scale_is_resumed),
        cmocka_unit_test(scale_of_other_settings),
        cmocka_unit_test(scale_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
