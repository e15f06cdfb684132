/* A SIGBUS handler that jumps back into guard_run. Linux delivers this signal to the thread whose read
 * failed, so the state is thread-local. */
#include "base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf return_point;
static _Thread_local volatile sig_atomic_t guarded;      /* this thread is inside guard_run's body */
static _Thread_local const void *volatile fault;         /* the address whose read failed */
static struct sigaction previous_action;

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (guarded) {
        fault = info->si_addr;
        siglongjmp(return_point, 1);
    }
    /* Outside guard_run: the previous action is restored, and on return the same read faults again and
     * runs it. */
    sigaction(number, &previous_action, NULL);
}

static void handler_set(void)
{
    struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, &previous_action);
}

/* The signal is blocked in its handler, and the jump out of it does not restore the mask. SA_NODEFER would
 * not be enough, since ThreadSanitizer blocks all signals in a handler. */
static void signal_unblock(void)
{
    sigset_t bus;
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

/* sigsetjmp does not save the mask (its second argument is 0): that would be a system call for every
 * batch. */
const void *guard_run(void (*body)(void *), void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, handler_set);
    if (sigsetjmp(return_point, 0)) {
        guarded = 0;
        signal_unblock();
        return fault;
    }
    guarded = 1;
    body(context);
    guarded = 0;
    return NULL;
}
