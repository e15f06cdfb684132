/* Positions of runs whose batch size changes, against a run that is counted step by step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "base/batch_schedule.h"
#include "base/random.h"
#include <cmocka.h>

enum { CASES = 300, ENTRIES = 6, COUNTED = 60 };

static BatchSchedule draw(BatchStep step[ENTRIES], uint64_t key)
{
    uint64_t at = 0;
    int steps = 1 + (int)(random_bits(key, at++) % ENTRIES);
    for (int i = 0; i < steps; i++) {
        int64_t gap = (int64_t)(random_bits(key, at++) % 40);
        step[i] = (BatchStep){ i == 0 ? 0 : step[i - 1].from + 1 + gap, 1 + (int64_t)(random_bits(key, at++) % 12) };
    }
    return (BatchSchedule){ step, steps };
}

static int64_t size_after(const BatchStep *step, int steps, int64_t consumed)
{
    int64_t size = 0;
    for (int i = 0; i < steps; i++)
        if (step[i].from <= consumed) size = step[i].size;
    return size;
}

static void as_counted(void **state)
{
    (void)state;
    for (uint64_t c = 0; c < CASES; c++) {
        BatchStep step[ENTRIES];
        BatchSchedule batch = draw(step, random_mix(9, c));
        int64_t position[COUNTED + 1] = { (int64_t)(c % 7) }, most = 0;           /* a resume begins anywhere */
        for (int n = 0; n < COUNTED; n++) {
            int64_t size = size_after(step, batch.steps, position[n]);
            assert_int_equal(batch_schedule_at(batch, position[n]), size);
            position[n + 1] = position[n] + size;
        }
        for (int i = 0; i < batch.steps; i++) most = step[i].size > most ? step[i].size : most;
        assert_int_equal(batch_schedule_largest(batch), most);
        for (int from = 0; from <= COUNTED; from += 5)
            for (int to = from; to <= COUNTED; to++)
                assert_int_equal(batch_schedule_after(batch, position[from], to - from), position[to]);
        for (int64_t end = position[0], n = 0; end < position[COUNTED]; end++) {
            while (position[n + 1] <= end) n++;
            assert_int_equal(batch_schedule_steps(batch, position[0], end), n);
        }
    }
}

static void large_numbers(void **state)
{
    (void)state;
    BatchStep step[] = { { 0, 16 }, { 1000, 1024 } };
    BatchSchedule batch = { step, 2 };
    assert_int_equal(batch_schedule_after(batch, 0, INT64_C(1) << 40), 63 * 16 + ((INT64_C(1) << 40) - 63) * 1024);
    assert_int_equal(batch_schedule_after(batch, 0, INT64_C(1) << 60), INT64_MAX);
    assert_int_equal(batch_schedule_steps(batch, 0, INT64_C(1) << 50), 63 + ((INT64_C(1) << 50) - 63 * 16) / 1024);
    assert_int_equal(batch_schedule_steps(batch, 5000, 4000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_counted), cmocka_unit_test(large_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
