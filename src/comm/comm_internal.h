#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H
/* The struct Comm and the functions that the files of comm/ share. No other module includes this
 * header. */
#include "comm/comm.h"
#include "comm/data_transport.h"
#include "comm/heartbeat.h"
#include "comm/recorder.h"

/* COMM_PENDING bounds the messages that were begun and not yet waited for, so that a step allocates
 * nothing. REQUEST_LOST takes the place of a transport's request where fault injection (base/seam.h)
 * dropped the message. */
enum { COMM_PENDING = 2048, REQUEST_LOST = -1 };

typedef struct {
    bool        used;
    int         call;                                 /* the data transport's, or REQUEST_LOST */
    Queue      *queue;
    int         peer;                                 /* rank of the comm; -1: all members */
    const char *verb;                                 /* static string */
    long        number, recorded;                     /* in its comm; in the recorder */
    int64_t     begun;                                /* when, where the rank is profiled */
    double      bytes;                                /* that it sends */
} PendingMessage;

/* What a verb asks for. Numbers, window, counts and trace are comm_begin's. */
typedef struct {
    DataCall    data;
    SentVerb    counted;                              /* SENT_VERBS: a receive, which counts nothing */
    const char *name;                                 /* static string, for messages and traces */
    int         peer;                                 /* whom it waits for; -1: all members */
    Tensor      shown;                                /* whose shape the trace has */
    Arena      *scratch;                              /* of a reduction: where its window is taken */
    int64_t     part;                                 /* and elements of the largest part */
} CommCall;

struct Comm {
    Transport *transport;
    Group     *control;                               /* for bytes of the host; NULL where size is 1 */
    DataTransport *data;                              /* the world's; owned there, or the transport's */
    DataGroup *data_group;                            /* NULL where size is 1 */
    int        sum_group;                             /* COMM_SUM_GROUP, or as the world was opened */
    char       name[HEARTBEAT_NAME];
    int        rank, size;
    int       *ranks;                                 /* [size] the members' ranks in the world, ascending */
    bool       dry, world;                            /* world: this comm owns the heartbeat */
    Heartbeat *heartbeat;                             /* of this rank, shared by all its comms */

    /* Numbers identify an operation across ranks: the watchdog compares them, so both ends must count
     * alike. Collectives share one counter because all members begin them in the same order; messages
     * are counted for each pair of ranks, since only those two see them. */
    long       number;                                /* collectives begun */
    long      *sent_to, *received_from;               /* [size] messages begun, by peer */
    int32_t   *word;                                  /* [size] receives agreements and barriers */
    PendingMessage *pending;                          /* [COMM_PENDING] of this rank, of all its comms */
    Recorder  *recorder;                              /* the same */

    Sent       sent[SENT_VERBS];
    void     (*line)(void *context, const char *text);         /* trace; NULL: none */
    void      *line_context;
};

/* True where the message is to be given to the transport, false where fault injection drops it. Called
 * before each. */
bool comm_delivered(Comm *comm, const char *verb, long number);
/* Waits for a request of the control transport while the heartbeat shows where this rank waits; calls of the
 * data transport advance meanwhile, since other ranks may wait for them. For REQUEST_LOST it waits until the
 * watchdog ends the job, as a rank would whose message the network lost. */
void comm_finish(Comm *comm, int request, const char *verb, long number, int peer);
/* The way of a call of tensors: numbered, counted and traced, given to the data transport unless fault
 * injection drops it, and recorded. comm_wait is its end. */
Pending comm_begin(Comm *comm, const CommCall *call);
/* Blocking messages of plain host memory. */
void comm_send_bytes(Comm *comm, const void *data, size_t bytes, int to);
void comm_recv_bytes(Comm *comm, void *data, size_t bytes, int from);
/* The bytes of rank `from` on every rank, along a binomial tree of log2(ranks) levels. */
void comm_broadcast_bytes(Comm *comm, void *data, size_t bytes, int from);
/* All-gather of plain host memory: out has size blocks of `bytes`. For agreement, not for tensors:
 * neither counted nor traced. */
void comm_gather_bytes(Comm *comm, const char *verb, void *out, const void *in, size_t bytes);
/* Tells the other processes' watchdogs that this process has printed the reason and stops the job, so
 * that they print nothing more. Defined in watchdog.c; does nothing where no watchdog runs. */
void watchdog_stopping(void);
#endif
