/* The system's entries of the seam, and the fault injection of JOTUN_FAULT, which replaces some of them. */
#include "base/seam.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/status.h"

/* O_CLOEXEC: programs started by this process must not inherit its files, or a lock would outlive it. */
static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}
/* Counts what has ended, for whoever watches a slow disk. */
static void count_call(void)
{
    __atomic_fetch_add(&thread_context()->file_calls, 1, __ATOMIC_RELAXED);
}
static ssize_t system_write(int fd, const void *data, size_t bytes, off_t at)
{
    ssize_t written = pwrite(fd, data, bytes, at);
    count_call();
    return written;
}
static int system_sync(int fd)
{
    int done = fsync(fd);
    count_call();
    return done;
}
static int system_rename(const char *from, const char *to)
{
    int done = rename(from, to);
    count_call();
    return done;
}
static bool system_deliver(int rank, const char *what, long number)
{
    (void)rank, (void)what, (void)number;
    return true;
}
static bool system_runs(int rank, const char *kernels)
{
    (void)rank, (void)kernels;
    return true;
}
static int64_t system_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define SYSTEM_SEAM                                                                           \
    { .open = system_open, .write = system_write, .sync = system_sync, .close = close,        \
      .rename = system_rename,                                                                \
      .mkdir = mkdir, .remove = remove, .clock = system_clock, .deliver = system_deliver,  \
      .runs = system_runs }
const Seam seam_system = SYSTEM_SEAM;
Seam       seam        = SYSTEM_SEAM;

/* ---- JOTUN_FAULT ---- */
typedef enum { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_FAIL, FAULT_EXIT, FAULT_TERM } FaultAction;

/* Written once before threads start; `reached` is atomic because ranks may be threads that share the
 * count. */
static struct { char point[32]; long number; FaultAction action; atomic_long reached; } fault;

/* Counts the point and runs the action when its number is reached. true: the call at this point must fail.
 * SIGKILL and SIGSTOP cannot be handled, so they show what a crash and a frozen process look like to the
 * other ranks. */
static bool fault_at(const char *point)
{
    if (fault.action == FAULT_NONE || strcmp(point, fault.point) != 0) return false;
    if (atomic_fetch_add(&fault.reached, 1) + 1 != fault.number) return false;
    if (fault.action == FAULT_KILL) raise(SIGKILL);
    if (fault.action == FAULT_STOP) raise(SIGSTOP);
    if (fault.action == FAULT_EXIT) _exit(3);
    if (fault.action == FAULT_TERM) raise(SIGTERM);
    return fault.action == FAULT_FAIL;
}

/* Injected failures look like a full disk, the commonest real one. */
static int disk_full(void)
{
    errno = ENOSPC;
    return -1;
}
static ssize_t fault_write(int fd, const void *data, size_t bytes, off_t at)
{
    return fault_at("write") ? disk_full() : system_write(fd, data, bytes, at);
}
static int fault_rename(const char *from, const char *to)
{
    return fault_at("rename") ? disk_full() : system_rename(from, to);
}
static int fault_sync(int fd)             { return fault_at("sync")   ? disk_full() : system_sync(fd); }
static int fault_mkdir(const char *path, mode_t mode)
{
    return fault_at("mkdir") ? disk_full() : mkdir(path, mode);
}
static int fault_remove(const char *path) { return fault_at("remove") ? disk_full() : remove(path); }

static FaultAction action_named(const char *name)
{
    static const char *const names[] = { [FAULT_KILL] = "kill", [FAULT_STOP] = "stop", [FAULT_FAIL] = "fail",
                                         [FAULT_EXIT] = "exit", [FAULT_TERM] = "term" };
    for (FaultAction a = FAULT_KILL; a <= FAULT_TERM; a++)
        if (strcmp(name, names[a]) == 0) return a;
    return FAULT_NONE;
}

void seam_fault_open(void)
{
    const char *text = getenv("JOTUN_FAULT");
    if (!text || !*text || fault.action != FAULT_NONE) return;
    char        name[8] = "";
    int         end     = 0;
    int         words   = sscanf(text, "%31[^:]:%ld:%7[a-z]%n", fault.point, &fault.number, name, &end);
    FaultAction action  = action_named(name);
    CHECK(words == 3 && text[end] == '\0' && fault.number > 0 && action != FAULT_NONE,
          "JOTUN_FAULT=%s is not point:n:action, such as write:3:fail; actions are kill, stop, fail, exit "
          "and term", text);
    fault.action = action;
    seam.write   = fault_write;
    seam.sync    = fault_sync;
    seam.rename  = fault_rename;
    seam.mkdir   = fault_mkdir;
    seam.remove  = fault_remove;
}

void seam_point(const char *point)
{
    CHECK(!fault_at(point), "JOTUN_FAULT: %s number %ld fails as requested", point, fault.number);
}
