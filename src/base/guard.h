#ifndef BASE_GUARD_H
#define BASE_GUARD_H
/* Survives a failing read of a mapped file. If another process truncates the file or the disk fails, the
 * kernel sends SIGBUS; within guard_run that ends the body, not the process. */

/* Runs body(context) on this thread. Returns NULL if it completed, else the address whose read failed. In
 * that case the body is abandoned where it was, so it must hold no lock and own no memory. Calls do not
 * nest. The thread must not block SIGBUS. */
const void *guard_run(void (*body)(void *), void *context);
#endif
