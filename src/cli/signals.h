#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H
/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 for a command that polls a flag between two pieces of work and then
 * ends in an orderly way. */
#include <signal.h>

/* Installs the handler. The first signal writes `words` to standard error (the string must stay valid for the
 * life of the process; "" writes nothing), records the signal's number for the exit code (status_signal) and
 * sets the returned flag to that number; the flag is 0 before. The same signal within one second of its first
 * arrival changes nothing; later than that it ends the process at once by the signal's default action.
 * SIGHUP stays ignored where the parent ignores it, as nohup does. SIGPIPE is ignored from then on. Call it
 * once, before threads start. */
const volatile sig_atomic_t *signals_catch(const char *words);
#endif
