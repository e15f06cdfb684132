#ifndef TESTS_BASE_TESTING_H
#define TESTS_BASE_TESTING_H
/* cmocka, which defines names that the sources use as well, and a way to run a body in a child process and
 * see how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/leaks.h"
#undef fail                                    /* the sources' fail is base/status.h */
#undef fail_msg                                /* it uses cmocka's fail */
#define fail_msg(...) do { print_error(__VA_ARGS__); print_error("\n"); _fail(__FILE__, __LINE__); } while (0)

typedef struct { int exit_code, signal; char text[4096]; } Ended;     /* text: what it wrote to stderr */

/* exit_code: 0 where the body returns, EXIT_LEAKED where it leaked memory */
__attribute__((unused)) static Ended run_in_child(void (*body)(void *context), void *context)
{
    Ended ended = { .exit_code = -1 };
    int   pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        body(context);
        _exit(leaks_found() ? EXIT_LEAKED : 0);
    }
    close(pipes[1]);
    size_t  at = 0, room = sizeof ended.text - 1;
    ssize_t n;
    while (at < room && (n = read(pipes[0], ended.text + at, room - at)) > 0) at += (size_t)n;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
    else ended.signal = WTERMSIG(status);
    return ended;
}

#define assert_contains(text, part) \
    do { if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part); } while (0)
#endif
