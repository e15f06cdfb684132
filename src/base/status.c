#include "base/status.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"

enum { TEXT = 512 };
static _Thread_local char  last_text[TEXT];
static _Thread_local ThreadContext here = { .rank = -1, .step = -1 };
static _Atomic(void (*)(int)) abort_hook;
static atomic_int stop_signal = SIGINT;

Status fail(Status code, const char *format, ...)
{
    char    text[TEXT];                       /* apart: the arguments may hold fail_text() itself */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last_text, text, sizeof text);
    return code;
}

const char *fail_text(void) { return last_text; }

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

ThreadContext *thread_context(void) { return &here; }

static const char *room_and_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] != '/') slash--;
    return slash ? slash : path;
}

static size_t append(char *line, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static size_t append(char *line, size_t size, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + at, size - at, format, args);
    va_end(args);
    if (n < 0) return at;
    return at + (size_t)n < size ? at + (size_t)n : size - 1;
}

void stop_world(const char *file, int line, const char *format, ...)
{
    char    text[TEXT], host[65] = "", out[2 * TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");

    size_t n = append(out, sizeof out, 0, "jotun: ");
    if (here.rank >= 0) n = append(out, sizeof out, n, "rank %d ", here.rank);
    n = append(out, sizeof out, n, "on %s", host);
    if (here.step >= 0) n = append(out, sizeof out, n, ", step %ld", here.step);
    if (here.op)        n = append(out, sizeof out, n, ", in %s", here.op);
    n = append(out, sizeof out, n, ": %s (%s:%d)", text, room_and_file(file), line);
    out[n++] = '\n';
    log_write(out, n);                                  /* one call: lines of two ranks do not mix */

    void (*hook)(int) = atomic_load(&abort_hook);
    if (hook) hook(3);
    _exit(3);
}

void stop_world_hook(void (*abort_job)(int exit_code)) { atomic_store(&abort_hook, abort_job); }
