/* Messages, exit codes and the end of a job by CHECK. All per-thread state is thread-local, since ranks
 * may be threads. */
#include "base/status.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/message.h"

static _Thread_local char          last_text[FAIL_BYTES];
static _Thread_local ThreadContext current = { .rank = -1, .step = -1, .unit = -1 };
static _Atomic(void (*)(void)) before_abort;
static _Atomic(void (*)(int)) abort_hook;       /* NULL until the transport sets it */
static _Atomic(const char *) advice;            /* NULL: none */
static atomic_int stop_signal = SIGINT;         /* lock-free, so that a signal handler may write it */

Status fail(Status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_list(code, format, args);
    va_end(args);
    return code;
}

Status fail_list(Status code, const char *format, va_list args)
{
    char text[FAIL_BYTES];       /* not last_text, because fail_text() may be among the arguments */
    vsnprintf(text, sizeof text, format, args);
    memcpy(last_text, text, sizeof text);
    return code;
}

const char *fail_text(void) { return last_text; }

Status fail_prefix(Status code, const char *format, ...)
{
    char    prefix[FAIL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    return fail(code, "%s%s", prefix, last_text);
}

Status failure_keep(Failure *failure, Status code)
{
    if (code == OK || failure->status != OK) return code;
    failure->status = code;
    memcpy(failure->text, last_text, sizeof failure->text);
    return code;
}

Status failure_report(const Failure *failure)
{
    return failure->status == OK ? OK : fail(failure->status, "%s", failure->text);
}

/* A process ended by a signal has exit code 128 + signal in every shell; an interrupted run follows that. */
int status_exit_code(Status code)
{
    switch (code) {
    case OK:          return 0;
    case BAD_USAGE:   return 2;
    case BAD_OPTION:
    case BAD_FILE:
    case BAD_SHAPE:   return 1;
    case NO_MEMORY:
    case IO_FAILED:   return 3;
    case INTERRUPTED: return 128 + atomic_load(&stop_signal);
    }
    return 3;
}

void status_signal(int number) { atomic_store(&stop_signal, number); }

ThreadContext *thread_context(void) { return &current; }

/* The last two components of a source path, "base/file.c": enough to find the line, whatever the build
 * directory is. */
static const char *directory_and_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] != '/') slash--;
    return slash ? slash : path;
}

/* It must not allocate, since it also reports an exhausted memory. */
void stop_world(const char *file, int line, const char *format, ...)
{
    char    text[FAIL_BYTES], host[65] = "", out[2 * FAIL_BYTES] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");

    message_add(out, sizeof out, "jotun: ");
    if (current.rank >= 0) message_add(out, sizeof out, "rank %d ", current.rank);
    message_add(out, sizeof out, "on %s", host);
    if (current.step >= 0) message_add(out, sizeof out, ", step %ld", current.step);
    if (current.op)        message_add(out, sizeof out, ", in %s", current.op);
    message_add(out, sizeof out - 1, ": %s (%s:%d)", text, directory_and_file(file), line);
    message_add(out, sizeof out, "\n%s", stop_world_advised());
    log_write(out, strlen(out));                        /* one call: lines of two ranks do not mix */

    /* _exit and not exit: handlers registered with atexit would wait for threads and ranks that no longer
     * answer. */
    void (*before)(void) = atomic_load(&before_abort);
    if (before) before();
    void (*hook)(int) = atomic_load(&abort_hook);
    if (hook) hook(3);
    _exit(3);
}

void stop_world_advice(const char *line) { atomic_store(&advice, line); }

const char *stop_world_advised(void)
{
    const char *line = atomic_load(&advice);
    return line ? line : "";
}

void stop_world_before(void (*before)(void))           { atomic_store(&before_abort, before); }
void stop_world_hook(void (*abort_job)(int exit_code)) { atomic_store(&abort_hook, abort_job); }
