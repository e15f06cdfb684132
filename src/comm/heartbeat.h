#ifndef COMM_HEARTBEAT_H
#define COMM_HEARTBEAT_H
/* Where a rank stands, written by its own thread at each wait and read by the watchdog's. */
#include <pthread.h>
#include <stdint.h>
#include "base/status.h"

enum { HEARTBEAT_NAME = 24 };
typedef struct {
    char    comm[HEARTBEAT_NAME], verb[HEARTBEAT_NAME];    /* "" before the first wait */
    int64_t number, step;
    int64_t waited;                                /* nanoseconds in the wait it is in; -1 outside one */
    char    work[HEARTBEAT_NAME];                      /* "saving": work on files that may take long; "": none */
    int64_t worked;                                /* nanoseconds of it without progress; -1 in a wait or outside work */
    int64_t file_calls;                            /* of it so far: the sign of progress */
} RankProgress;

typedef struct {
    pthread_mutex_t lock;
    RankProgress       progress;                               /* the latest wait */
    int64_t    since;                              /* seam.clock at its start */
    const int *members;                            /* world ranks it needs, valid while it waits */
    int        count;
    const long *file_calls;                        /* of the rank's thread (base/status.h) */
    long       calls_before, calls_seen;           /* at the start of the work; at the last look */
    int64_t    moved;                              /* seam.clock at the last sign of progress */
} Heartbeat;

/* By the rank's own thread, which has to outlast the heartbeat. */
Status heartbeat_open (Heartbeat **heartbeat);
void   heartbeat_close(Heartbeat *heartbeat);
void   heartbeat_enter(Heartbeat *heartbeat, const char *comm, const char *verb, int64_t number, const int *members, int count);
void   heartbeat_leave(Heartbeat *heartbeat);
void   heartbeat_work (Heartbeat *heartbeat, const char *what);       /* begins, or has ended: NULL; waits may lie within it */
/* The progress now; time before `awake` does not count as waiting. Of a wait longer than `slow` also whom it needs, copied into
 * *members (malloced, the caller frees; NULL where it waits for nobody or not long). */
RankProgress   heartbeat_look (Heartbeat *heartbeat, int64_t awake, int64_t slow, int **members, int *count);
#endif
