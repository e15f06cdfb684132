#include "base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t guarded;
static _Thread_local const void *volatile fault;
static struct sigaction before;

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (guarded) {
        fault = info->si_addr;
        siglongjmp(back, 1);
    }
    sigaction(number, &before, NULL);              /* not ours: on return the same read faults again, as if we were not here */
}

static void handler_set(void)
{
    struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER };   /* the jump restores no mask */
    sigaction(SIGBUS, &action, &before);
}

const void *guard_run(void (*body)(void *), void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, handler_set);
    if (sigsetjmp(back, 0)) {
        guarded = 0;
        return fault;
    }
    guarded = 1;
    body(context);
    guarded = 0;
    return NULL;
}
