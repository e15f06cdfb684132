#ifndef TESTS_TENSOR_CROSS_CMOCKA_H
#define TESTS_TENSOR_CROSS_CMOCKA_H
/* What the tests of tensors need of cmocka, where it is not there for the machine that is compiled for
 * (aarch64.sh). The first failure ends the program with code 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest { const char *name; void (*body)(void **state); };
static jmp_buf cross_skipped;

#define cmocka_unit_test(body) { #body, body }
#define skip()                 longjmp(cross_skipped, 1)
#define print_message          printf
#define print_error            printf
#define _fail(file, line)      (printf("%s:%d: failed\n", file, line), exit(1))
#define fail_msg(...)          do { printf(__VA_ARGS__); printf("\n"); _fail(__FILE__, __LINE__); } while (0)
#define cross_assert(x, text)  ((x) ? (void)0 : (printf("%s:%d: not %s\n", __FILE__, __LINE__, text), exit(1)))
#define assert_true(x)         cross_assert(x, #x)
#define assert_false(x)        cross_assert(!(x), "false: " #x)
#define assert_non_null(x)     cross_assert((x) != NULL, #x)
#define assert_null(x)         cross_assert((x) == NULL, "null: " #x)
#define assert_int_equal(x, y) cross_assert((x) == (y), #x " == " #y)
#define assert_int_not_equal(x, y)    cross_assert((x) != (y), #x " != " #y)
#define assert_string_equal(x, y)    cross_assert(strcmp(x, y) == 0, #x " equals " #y)
#define assert_memory_equal(x, y, n) cross_assert(memcmp(x, y, n) == 0, #x " equals " #y)

static inline int cross_run(const struct CMUnitTest *test, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        volatile int skipped = setjmp(cross_skipped);
        if (!skipped) test[i].body(NULL);
        printf("  %-8s %s\n", skipped ? "skipped" : "passed", test[i].name);
        fflush(stdout);
    }
    return 0;
}
#define cmocka_run_group_tests(tests, setup, teardown) cross_run(tests, sizeof tests / sizeof *tests)
#endif
