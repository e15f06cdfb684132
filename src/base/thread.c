#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);                    /* reading a mapped file that was cut raises it on the reading thread (base/guard.h) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
