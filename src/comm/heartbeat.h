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
} RankProgress;

typedef struct {
    pthread_mutex_t lock;
    RankProgress       progress;                               /* the latest wait */
    int64_t    since;                              /* seam.clock at its start */
    const int *members;                            /* world ranks it needs, valid while it waits */
    int        count;
} Heartbeat;

Status heartbeat_open (Heartbeat **heartbeat);
void   heartbeat_close(Heartbeat *heartbeat);
void   heartbeat_enter(Heartbeat *heartbeat, const char *comm, const char *verb, int64_t number, const int *members, int count);
void   heartbeat_leave(Heartbeat *heartbeat);
/* The progress now; time before `awake` does not count as waiting. Of a wait longer than `slow` also whom it needs, copied into
 * *members (malloced, the caller frees; NULL where it waits for nobody or not long). */
RankProgress   heartbeat_look (Heartbeat *heartbeat, int64_t awake, int64_t slow, int **members, int *count);
#endif
