#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H
/* SIGINT, SIGTERM and SIGHUP for a command that looks between two pieces of work. */
#include <signal.h>

/* Says `words` when one comes (they have to last), and notes it for the exit code; the same again ends the process at once. The flag
 * is not 0 from then on. */
const volatile sig_atomic_t *signals_catch(const char *words);
#endif
