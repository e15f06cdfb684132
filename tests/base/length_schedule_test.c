/* Lengths and their sums against DeepSpeed's formula step by step (fixed_linear of runtime/data_pipeline/curriculum_scheduler.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "base/length_schedule.h"
#include <cmocka.h>

static int64_t deepspeeds(const LengthSchedule *s, int64_t step)
{
    double  part = (double)step / (double)s->steps;
    int64_t next = (int64_t)floor(part * (double)(s->most - s->least) + (double)s->least);
    next -= next % s->multiple;
    return next < s->most ? next : s->most;
}

static void lengths_are_deepspeeds(void **state)
{
    (void)state;
    static const LengthSchedule all[] = { { 80, 2048, 8, 1000 }, { 64, 2048, 8, 36000 }, { 8, 1000, 64, 77 }, { 3, 3, 1, 5 }, { 1, 100, 1, 1 },
                                          { 70, 2048, 64, 7 } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        LengthSchedule s = all[i];
        if (s.least < s.multiple) s.least = s.multiple;
        int64_t sum = 0;
        for (int64_t step = 1; step < 3 * s.steps + 100; step++) {
            assert_int_equal(length_at(&s, step), deepspeeds(&s, step));
            sum += deepspeeds(&s, step);
            if (step % 997 && step > 100) continue;
            assert_int_equal(length_steps(&s, sum), step);
            assert_int_equal(length_sum(&s, step), sum);
            assert_int_equal(length_steps(&s, sum - 1), step - 1);
        }
    }
}

static void without_steps_all_are_whole(void **state)
{
    (void)state;
    LengthSchedule s = { .most = 7 };
    assert_int_equal(length_at(&s, 1), 7);
    assert_int_equal(length_sum(&s, 3000000000), 21000000000);
    assert_int_equal(length_steps(&s, 20), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lengths_are_deepspeeds), cmocka_unit_test(without_steps_all_are_whole) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
