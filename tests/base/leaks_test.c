/* A child process that leaks is told as failing, where AddressSanitizer can see it; one that has no leak is not. */
#include "base/testing.h"
#include <stdlib.h>

static void *volatile kept;

static void lose(void *context)
{
    (void)context;
    for (int i = 0; i < 16; i++) {
        kept = malloc(64);                            /* all but the last are lost */
        assert_non_null(kept);
    }
}

static void keep(void *context)
{
    (void)context;
    kept = malloc(64);
}

static void test_leak(void **state)
{
    (void)state;
    Ended lost = run_in_child(lose, NULL), held = run_in_child(keep, NULL);
    assert_int_equal(lost.exit_code, LEAKS_SEEN ? EXIT_LEAKED : 0);
    if (LEAKS_SEEN) assert_contains(lost.text, "detected memory leaks");
    assert_int_equal(held.exit_code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_leak) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
