/* Exit codes, messages by thread, and the line that a CHECK prints before it ends the process. */
#include "base/testing.h"

#include <pthread.h>
#include <stdio.h>
#include "base/status.h"

static void exit_codes(void **state)
{
    (void)state;
    const int code[] = { [OK] = 0, [BAD_USAGE] = 2, [BAD_OPTION] = 1, [BAD_FILE] = 1, [BAD_SHAPE] = 1,
                         [NO_MEMORY] = 3, [IO_FAILED] = 3, [INTERRUPTED] = 130 };
    for (int s = OK; s <= INTERRUPTED; s++) assert_int_equal(status_exit_code((Status)s), code[s]);
    status_signal(15);
    assert_int_equal(status_exit_code(INTERRUPTED), 143);
}

static Status fails_below(void) { return fail(BAD_SHAPE, "%d heads", 3); }
static Status tries(void)
{
    TRY(fails_below());
    return OK;
}

static void messages(void **state)
{
    (void)state;
    assert_int_equal(tries(), BAD_SHAPE);
    assert_string_equal(fail_text(), "3 heads");
    assert_int_equal(fail(BAD_FILE, "model: %s", fail_text()), BAD_FILE);
    assert_string_equal(fail_text(), "model: 3 heads");
    char long_text[2 * FAIL_BYTES];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    fail(BAD_FILE, "%s", long_text);
    assert_int_equal(strlen(fail_text()), FAIL_BYTES - 1);
}

static void *fails_alone(void *out)
{
    *(bool *)out = fail_text()[0] == '\0' && thread_context()->rank == -1;
    fail(IO_FAILED, "of the thread");
    thread_context()->rank = 9;
    return NULL;
}

static void threads_have_their_own(void **state)
{
    (void)state;
    pthread_t thread;
    bool      fresh = false;
    fail(BAD_FILE, "of the test");
    assert_int_equal(pthread_create(&thread, NULL, fails_alone, &fresh), 0);
    pthread_join(thread, NULL);
    assert_true(fresh);
    assert_string_equal(fail_text(), "of the test");
    assert_int_equal(thread_context()->rank, -1);
}

static void stops_in_a_run(void *context)
{
    (void)context;
    *thread_context() = (ThreadContext){ .rank = 2, .step = 7, .op = "add" };
    CHECK(1 + 1 == 3, "two %s", "lines");
}
static void stops_outside(void *context)
{
    (void)context;
    stop_world("/here/src/tensor/ops.c", 12, "alone");
}
static void says_code(int code) { dprintf(STDERR_FILENO, "hook %d\n", code); }
static void stops_with_hook(void *context)
{
    stop_world_hook(says_code);
    stops_outside(context);
}

static void a_prefix_is_put_before(void **state)
{
    (void)state;
    fail(BAD_FILE, "no end");
    assert_int_equal(fail_prefix(BAD_SHAPE, "%s:%d: ", "x.txt", 3), BAD_SHAPE);
    assert_string_equal(fail_text(), "x.txt:3: no end");
}

static void a_failure_is_kept(void **state)
{
    (void)state;
    Failure kept = { 0 };
    assert_int_equal(failure_report(&kept), OK);
    assert_int_equal(failure_keep(&kept, OK), OK);
    assert_int_equal(failure_keep(&kept, fail(BAD_FILE, "the first")), BAD_FILE);
    assert_int_equal(failure_keep(&kept, fail(IO_FAILED, "the second")), IO_FAILED);
    fail(NO_MEMORY, "another");
    assert_int_equal(failure_report(&kept), BAD_FILE);
    assert_string_equal(fail_text(), "the first");
}

static void stop_is_one_line(void **state)
{
    (void)state;
    char  host[65] = "", line[256];
    Ended run      = run_in_child(stops_in_a_run, NULL);
    gethostname(host, sizeof host - 1);
    snprintf(line, sizeof line, "jotun: rank 2 on %s, step 7, in add: two lines (base/status_test.c:", host);
    assert_int_equal(run.exit_code, 3);
    assert_contains(run.text, line);
    assert_ptr_equal(strchr(run.text, '\n'), run.text + strlen(run.text) - 1);

    snprintf(line, sizeof line, "jotun: on %s: alone (tensor/ops.c:12)\n", host);
    assert_string_equal(run_in_child(stops_outside, NULL).text, line);

    Ended hooked = run_in_child(stops_with_hook, NULL);
    assert_int_equal(hooked.exit_code, 3);
    assert_contains(hooked.text, ")\nhook 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(messages),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(a_prefix_is_put_before),
        cmocka_unit_test(a_failure_is_kept),
        cmocka_unit_test(stop_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
