#ifndef COMM_WATCHDOG_H
#define COMM_WATCHDOG_H
/* One thread a process which sees that ranks stand still. Each rank's heartbeat (number, name and start of the collective it is in)
 * reaches rank 0 over a small TCP star between processes (plain memory between threads), so a rank that is killed is named
 * within a second and one that is frozen within the time-out: rank, host, the collective and who waits for it. */
#include "comm/comm.h"

typedef struct Watchdog Watchdog;
/* Collective over world (addresses are exchanged through it). seconds 0, or a world of one: none is started and *watchdog is NULL.
 * A verdict is one line on stderr and the end of the job with exit code 3; a frozen process is killed by those who share its host. (A launcher that sees a rank die kills the others
 * too; where it is faster than we, its own words stand instead.) */
Status watchdog_open (Watchdog **watchdog, Comm *world, double seconds);
/* This rank's work on files begins ("saving", copied) or has ended (NULL); collectives may lie within it. No
 * rank's waiting counts while one works so, outside its own waits; 10 times `seconds` without a write, a sync or
 * a rename through the seam are a verdict. */
void   watchdog_work (Comm *world, const char *what);
void   watchdog_close(Watchdog *watchdog, Comm *world);      /* says goodbye, so that leaving is not dying */
#endif
