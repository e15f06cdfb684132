/* The handler of the signals that ask a command to stop. It calls only what POSIX allows in a handler. */
#include "cli/signals.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/status.h"

/* `timeout`, `mpirun` and job schedulers signal a process and then its process group, so one request arrives twice within
 * milliseconds. Who wants the process to end at once presses the key again after having read the message. */
static const int64_t repeat_ns = 1000000000;

/* Global because signal dispositions belong to the process. The times are atomic since two threads may be in the handler. */
static volatile sig_atomic_t caught;
static const char *message;
static _Atomic int64_t first_ns[NSIG];                      /* monotonic time of each signal's first arrival; 0: none yet */

static void on_signal(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, first = 0;
    if (atomic_compare_exchange_strong(&first_ns[number], &first, ns)) {
        caught = number;
        status_signal(number);
        if (write(STDERR_FILENO, message, strlen(message)) < 0) return;
    } else if (ns - first >= repeat_ns) {
        signal(number, SIG_DFL);
        raise(number);                                      /* is blocked here, so it is delivered when the handler returns */
    }
}

const volatile sig_atomic_t *signals_catch(const char *words)
{
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    message = words;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    return &caught;
}
