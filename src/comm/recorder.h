#ifndef COMM_RECORDER_H
#define COMM_RECORDER_H
/* The calls that a rank has given to its data transport, the latest RECORDED of them, and which are complete.
 * On a device comm_wait returns before a call is done, so a rank that hangs in one is seen here and not in
 * its heartbeat. The rank's thread writes, and the watchdog's thread reads; a lock in it protects all
 * fields. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { RECORDED = 4096 };
typedef struct {
    const char *comm, *verb;                       /* names that live until the comm is closed */
    long        number, step;                      /* of the call in its comm; of training, -1: none */
    int64_t     bytes, begun;                      /* that the rank sends; seam.clock */
    int         pair[2];                           /* world ranks: this one and its peer */
    const int  *members;                           /* of a collective, instead; NULL: the pair */
    int         count;
    int         call;                              /* the data transport's number */
    bool        complete;
} RecordedCall;

/* Whether a call is complete, asked by any thread. */
typedef bool RecordedComplete(void *transport, int call);

typedef struct {
    pthread_mutex_t lock;
    /* of a transport whose calls go on after comm_wait; NULL: recorder_end says that they are complete */
    RecordedComplete *is_complete;
    void        *transport;
    /* numbers of calls: those before `first` are complete, those from `next` on are not begun. Call k is in
     * call[k % RECORDED]. */
    long         first, next;
    int64_t      moved;                            /* seam.clock when a call was last seen to be complete */
    RecordedCall call[RECORDED];
} Recorder;

void recorder_open (Recorder *recorder, RecordedComplete *is_complete, void *transport);
void recorder_close(Recorder *recorder);
/* Returns the number of the call. Where the oldest of RECORDED calls is not complete this one is not recorded
 * and has the number -1: a rank that hangs does so in the oldest. */
long recorder_begin(Recorder *recorder, const RecordedCall *call);
/* The call was waited for. */
void recorder_end  (Recorder *recorder, long number);
/* Forgets the calls of a comm that is closed. */
void recorder_leave(Recorder *recorder, const char *comm);
/* Calls found(context, call, since) for the oldest call that is not complete; since: when it could begin, the
 * later of its begin and of `moved`. The comm of the call is not closed meanwhile. False, and nothing is
 * called, where all are complete, and where only comm_wait would say so. */
typedef void RecordedFound(void *context, const RecordedCall *call, int64_t since);
bool recorder_oldest(Recorder *recorder, int64_t now, RecordedFound *found, void *context);
#endif
