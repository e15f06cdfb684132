/* The handler of the signals that ask a command to stop. It calls only what POSIX allows in a handler. */
#include "cli/signals.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include "base/array.h"
#include "base/log.h"
#include "base/status.h"

/* `timeout`, `mpirun` and job schedulers signal a process and then its process group, so that one request
 * arrives twice within milliseconds. A person who wants the process to end at once signals again after having
 * read the message, which takes longer than this. */
static const int64_t repeat_ns = 1000000000;

/* Global because signal dispositions belong to the process. The times are atomic since two threads may be in
 * the handler. */
static volatile sig_atomic_t caught;
static const char *message;
static _Atomic int64_t first_ns[NSIG];      /* monotonic time of each signal's first arrival; 0: none yet */

static void on_signal(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, first = 0;
    if (atomic_compare_exchange_strong(&first_ns[number], &first, ns)) {
        __atomic_store_n(&caught, number, __ATOMIC_RELAXED);    /* ranks that are threads read it */
        status_signal(number);
        log_write(message, strlen(message));
    } else if (ns - first >= repeat_ns) {
        signal(number, SIG_DFL);
        raise(number);          /* the signal is blocked here, so it is delivered when the handler returns */
    }
}

const volatile sig_atomic_t *signals_catch(const char *words)
{
    /* Launchers and schedulers send SIGUSR1 some time before they kill a job. */
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    message = words;
    signal(SIGPIPE, SIG_IGN);       /* a write to a closed pipe then fails with EPIPE, which is reported */
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct sigaction inherited;
        /* `nohup` starts a program with SIGHUP ignored, so that it outlives its terminal. */
        sigaction(numbers[i], NULL, &inherited);
        if (numbers[i] == SIGHUP && inherited.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
    return &caught;
}
