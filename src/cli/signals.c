#include "cli/signals.h"

#include <string.h>
#include <unistd.h>
#include "base/status.h"

static volatile sig_atomic_t caught;                        /* of the process, as signals are */
static const char *said;

static void on_signal(int number)
{
    caught = number;
    status_signal(number);
    if (write(STDERR_FILENO, said, strlen(said)) < 0) return;
}

const volatile sig_atomic_t *signals_catch(const char *words)
{
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART };
    said = words;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    return &caught;
}
