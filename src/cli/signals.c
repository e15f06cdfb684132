#include "cli/signals.h"

#include <string.h>
#include "base/log.h"
#include "base/status.h"

static volatile sig_atomic_t caught;                        /* of the process, as signals are */
static const char *said;

static void on_signal(int number)
{
    __atomic_store_n(&caught, number, __ATOMIC_RELAXED);    /* ranks that are threads read it */
    status_signal(number);
    log_write(said, strlen(said));
}

const volatile sig_atomic_t *signals_catch(const char *words)
{
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };       /* USR1: what launchers and schedulers pass on before they kill */
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART };
    said = words;
    signal(SIGPIPE, SIG_IGN);                               /* who read our lines has left: no reason to stop */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    return &caught;
}
