/* Thread creation with all signals blocked (see thread.h). */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

enum { TRIES = 8 };

/* A new thread inherits the signal mask of its creator, so the mask is changed around pthread_create.
 * Changing it inside the new thread would leave a moment in which a signal could be delivered there. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, caller_mask;
    sigfillset(&all);
    /* Reading a truncated mapped file raises SIGBUS in the reading thread (base/guard.h). */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &caller_mask);
    int error = pthread_create(thread, NULL, run, argument);
    /* Where a limit is the system's, threads of other processes count, which may have ended in a moment. */
    for (int i = 0; error == EAGAIN && i < TRIES; i++) {
        usleep(2000u << i);
        error = pthread_create(thread, NULL, run, argument);
    }
    pthread_sigmask(SIG_SETMASK, &caller_mask, NULL);
    return error;
}
