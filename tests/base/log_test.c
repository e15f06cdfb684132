/* Numbers written for people, and log lines where stderr is not a terminal. */
#include "base/testing.h"

#include "base/log.h"

static void figures(void **state)
{
    (void)state;
    static const struct { double value; const char *text; } bytes[] = {
        { 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 1048575, "1.0 MiB" },
        { 71.3 * 1073741824, "71.3 GiB" }, { 0x1p70, "1024.0 EiB" },
    };
    static const struct { double value; const char *text; } times[] = {
        { 0.0123, "12.3 ms" }, { 0.9999, "1.0 s" }, { 12.44, "12.4 s" }, { 59.99, "1 min 00 s" },
        { 185, "3 min 05 s" }, { 3599.6, "1 h 00 min" }, { 3780, "1 h 03 min" }, { 97200, "1 d 03 h" },
    };
    char out[24];
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_string_equal(log_bytes(out, bytes[i].value), bytes[i].text);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(log_time(out, times[i].value), times[i].text);
}

static void logs(void *context)
{
    (void)context;
    log_line("step %d", 1);
    log_progress("half %s", "done");
    log_progress_end();
    log_line("step %d", 2);
}

static void plain_where_no_terminal_is(void **state)
{
    (void)state;
    assert_string_equal(run_in_child(logs, NULL).text, "jotun: step 1\nhalf done\njotun: step 2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(plain_where_no_terminal_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
