#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H
/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 for a command that looks between two pieces of work. */
#include <signal.h>

/* Says `words` when one comes (they have to last; "" says nothing), and notes it for the exit code; the same again ends the process at
 * once. Of the flag: the signal's number from then on, 0 before. SIGPIPE is ignored from now on. Once, before threads start. */
const volatile sig_atomic_t *signals_catch(const char *words);
#endif
