#ifndef COMM_PULSE_H
#define COMM_PULSE_H
/* Where a rank stands, written by its own thread at each wait and read by the watchdog's. */
#include <pthread.h>
#include <stdint.h>
#include "base/status.h"

enum { PULSE_NAME = 24 };
typedef struct {
    char    comm[PULSE_NAME], verb[PULSE_NAME];    /* "" before the first wait */
    int64_t number, step;
    int64_t waited;                                /* nanoseconds in the wait it is in; -1 outside one */
} Beat;

typedef struct {
    pthread_mutex_t lock;
    Beat       beat;                               /* the latest wait */
    int64_t    since;                              /* seam.clock at its start */
    const int *members;                            /* world ranks it needs, valid while it waits */
    int        count;
} Pulse;

Status pulse_open (Pulse **pulse);
void   pulse_close(Pulse *pulse);
void   pulse_enter(Pulse *pulse, const char *comm, const char *verb, int64_t number, const int *members, int count);
void   pulse_leave(Pulse *pulse);
/* The beat now; time before `awake` does not count as waiting. Of a wait longer than `slow` also whom it needs, copied into
 * *members (malloced, the caller frees; NULL where it waits for nobody or not long). */
Beat   pulse_look (Pulse *pulse, int64_t awake, int64_t slow, int **members, int *count);
#endif
