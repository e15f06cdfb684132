/* Megatron-LM's log lines, against its format string for a line that is known to be its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#undef fail                                /* ours is in base/status.h */
#include "train/megatron_line.h"

static void interval_line(void **state)
{
    (void)state;
    char line[1000];
    struct tm when = { .tm_year = 126, .tm_mon = 7, .tm_mday = 22, .tm_hour = 15, .tm_min = 22, .tm_sec = 22, .tm_isdst = -1 };
    MegatronLine of = { .step = 10, .steps = 500000, .samples = 15360, .batch = 1536, .seconds = 1.2345, .flops = 412.3e12,
        .lr = 6e-5, .decoupled_lr = NAN, .loss = 2.345678, .norm = 0.512, .zeros = -1, .params_norm = -1,
        .now = (double)mktime(&when) + 0.123456 + 1e-7 };
    int n = megatron_line(line, sizeof line, &of);
    assert_int_equal(n, strlen(line));
    assert_string_equal(line, " [2026-08-22 15:22:22.123456] iteration       10/  500000 | consumed samples:        15360 | "
        "elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 6.000000E-05 | "
        "global batch size:  1536 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |");
    of.loss = NAN, of.flops = 0, of.loss_scale = 65536, of.norm = -NAN, of.skipped = 2, of.not_finite = 1;
    megatron_line(line, sizeof line, &of);
    assert_null(strstr(line, "lm loss"));
    assert_null(strstr(line, "throughput"));
    assert_non_null(strstr(line, "| loss scale: 65536.0 | grad norm: nan | number of skipped iterations:   2 | number of nan iterations:   1 |"));
    of.norm = 0.5, of.zeros = 12, of.params_norm = 123.456;
    megatron_line(line, sizeof line, &of);
    assert_non_null(strstr(line, "| grad norm: 0.500 | num zeros: 12 | params norm: 123.456 | number of skipped iterations:   2 |"));
}

static void evaluation_line(void **state)
{
    (void)state;
    char line[400];
    megatron_evaluation(line, sizeof line, "validation loss at iteration 1000", 2.345678);
    assert_string_equal(line, " validation loss at iteration 1000 | lm loss value: 2.345678E+00 | lm loss PPL: 1.044035E+01 | ");
    megatron_evaluation(line, sizeof line, "x", 30);
    assert_non_null(strstr(line, "PPL: 4.851652E+08 |"));                /* exp(20) at most */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(interval_line), cmocka_unit_test(evaluation_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
