#ifndef COMM_HEARTBEAT_H
#define COMM_HEARTBEAT_H
/* The heartbeat of a rank: which collective it waits in and since when, and whether it does file I/O.
 * The rank's own thread writes it at each wait, and the watchdog's thread reads it; a lock in it
 * protects both. */
#include <pthread.h>
#include <stdint.h>
#include "base/status.h"
#include "comm/recorder.h"

/* Bytes of a name with its terminator; longer names are truncated. */
enum { HEARTBEAT_NAME = 24 };

/* Ranks first, first + stride, ..., `count` of them: the members of most comms, in 12 bytes however many they
 * are. stride 0: they stand in a list instead. */
typedef struct { int32_t first, stride, count; } RankRange;

/* Sent between processes as bytes, so it has no pointers. All ranks run the same binary. */
typedef struct {
    char    comm[HEARTBEAT_NAME], verb[HEARTBEAT_NAME];    /* "tp", "all-gather"; "" before the first wait */
    int64_t number, step;                          /* of the operation in its comm; of training, -1: none */
    int64_t waited;                                /* nanoseconds in the present wait; -1 outside of a wait */
    char    work[HEARTBEAT_NAME];                  /* "saving": file I/O; "": none */
    int64_t worked;                                /* nanoseconds of it without progress; -1: none */
    int64_t file_calls;                            /* writes, syncs and renames since the file I/O began */
    RankRange needs;                               /* world ranks of a long wait; count 0: no long wait */
    bool    device;                                /* the wait is that of its device, for a recorded call */
} RankProgress;

typedef struct {
    pthread_mutex_t lock;                          /* protects all fields below */
    RankProgress progress;                         /* the latest wait, and the present file I/O */
    int64_t      since;                            /* seam.clock when the wait began */
    const int   *members;                          /* world ranks it waits for, valid during the wait */
    int          count;                            /* of members */
    const long  *file_calls;                       /* the rank's ThreadContext.file_calls, read atomically */
    long         calls_before, calls_seen;         /* its value when the I/O began, and at the last look */
    int64_t      moved;                            /* seam.clock of the last progress of the file I/O */
    Recorder    *recorder;                         /* of the rank; not owned */
} Heartbeat;

/* Opened, closed and written by the rank's own thread, which must outlive the heartbeat, because the
 * heartbeat points to that thread's counter of file calls. */
Heartbeat *heartbeat_open(Recorder *recorder);
void   heartbeat_close(Heartbeat *heartbeat);                    /* NULL is allowed */
/* A wait begins: operation `number` named `verb` of the comm, for `members` (world ranks, kept by
 * reference until heartbeat_leave). */
void   heartbeat_enter(Heartbeat *heartbeat, const char *comm, const char *verb, int64_t number,
                       const int *members, int count);
void   heartbeat_leave(Heartbeat *heartbeat);
/* File I/O named `what` begins, or has ended (NULL). It may contain waits. */
void   heartbeat_work (Heartbeat *heartbeat, const char *what);
/* Read by the watchdog's thread: the progress at `now`. Outside of a wait of the host that is the oldest call
 * which its device has not completed, if there is one. Time before `awake` (both seam.clock) does not
 * count as waiting. The clock is not read again, since this process may have been stopped after `now`. A wait
 * longer than `slow` nanoseconds has `needs`; where its stride is 0 *list gets a copy of the ranks, which the
 * caller frees. Otherwise *list is NULL. */
RankProgress heartbeat_look(Heartbeat *heartbeat, int64_t now, int64_t awake, int64_t slow, int **list);
#endif
