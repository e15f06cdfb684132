#ifndef BASE_GUARD_H
#define BASE_GUARD_H
/* Reading a mapped file that somebody else cuts, or whose disk fails: the system answers with SIGBUS. Within guard_run that
 * ends the body, not the process. */

/* Runs body(context) on this thread. NULL where it came to its end; else the address that could not be read, and the body is
 * left where it was: it must hold no lock and own nothing. Does not nest. The thread must not block SIGBUS. */
const void *guard_run(void (*body)(void *), void *context);
#endif
