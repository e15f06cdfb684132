#ifndef COMM_WATCHDOG_H
#define COMM_WATCHDOG_H
/* The watchdog: one thread in each process that detects ranks which died, froze or wait for each other
 * for ever. Each rank's heartbeat (the collective it is in and for how long) reaches rank 0 over a small
 * TCP star between processes, or through memory between threads. A killed rank is reported within a
 * second, a frozen one within the time limit, each with its rank, host, collective and the ranks that
 * wait for it. */
#include "comm/comm.h"

typedef struct Watchdog Watchdog;
/* Collective over world, because addresses are exchanged through it. seconds: how long a rank may be
 * silent or wait in one collective. With seconds 0 or one rank no watchdog is started and *watchdog is
 * NULL. NO_MEMORY, or IO_FAILED where the connections cannot be made, on all ranks. Ends the time limit
 * of comm/start.h in either case.
 *
 * On a detected failure one line is written to stderr and the job ends with exit code 3; a frozen
 * process is killed by the processes on its host. A launcher that sees a rank die also kills the others;
 * where it is faster than the watchdog, only the launcher's own message appears. */
Status watchdog_open (Watchdog **watchdog, Comm *world, double seconds);
/* Marks the begin of this rank's file I/O, with `what` for messages ("saving", copied), or its end
 * (NULL). Collectives may be called in between. While a rank does file I/O, outside of its own
 * collectives, no rank's waiting time counts; instead the limit is 10 times `seconds` without a write, a
 * sync or a rename through base/seam.h. */
void   watchdog_work (Comm *world, const char *what);
/* Announces that this rank leaves, so that the end of its process is not reported as a death. Before
 * comm_close of the world. NULL is allowed. */
void   watchdog_close(Watchdog *watchdog, Comm *world);
#endif
