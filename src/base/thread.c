/* Starting threads with signals blocked. */
#include "base/thread.h"

#include <signal.h>

/* A new thread inherits the signal mask of the thread that creates it, so the mask is changed around
 * pthread_create. SIGBUS stays deliverable, because reading a truncated mapped file raises it on the
 * reading thread (base/guard.h). */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t blocked, previous;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return error;
}
