#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H
/* What the files of this room share; no other room includes it. */
#include "comm/comm.h"
#include "comm/heartbeat.h"
#include "comm/transport.h"

enum { COMM_PENDING = 2048, REQUEST_LOST = -1 };        /* lost: the seam kept it from the transport */

typedef struct {
    bool        used;
    int         request, peer;                        /* peer -1: all members */
    const char *verb;
    long        number;
} Waiting;

struct Comm {
    Transport *transport;
    Group     *group;                                 /* NULL where size is 1 */
    char       name[HEARTBEAT_NAME];
    int        rank, size;
    int       *ranks;                                 /* the members' ranks in the world */
    bool       dry, world;
    Heartbeat     *heartbeat;                                 /* the rank's own; the world comm owns it */

    long       number;                                /* collectives begun */
    long      *sent_to, *received_from;               /* [size] messages begun, so that both ends count alike */
    size_t    *in_at, *out_at;                        /* [size + 1] bytes, of the one all-to-all under way */
    int32_t   *word;                                  /* [size] */
    Waiting    waiting[COMM_PENDING];

    Sent       sent[SENT_VERBS];
    void     (*line)(void *context, const char *text);
    void      *line_context;
};

/* Asked before each message: false where the seam loses it. */
bool comm_delivered(Comm *comm, const char *verb, long number);
/* Waits for a request with the heartbeat saying so; a lost collective waits until the watchdog ends the job. */
void comm_finish(Comm *comm, int request, const char *verb, long number, int peer);
/* An all-gather of plain host memory, neither counted nor traced: for agreement, not for tensors. */
void comm_gather_bytes(Comm *comm, const char *verb, void *out, const void *in, size_t bytes);
void comm_record(Comm *comm, SentVerb verb, int64_t bytes, Tensor x);
/* This process stops the job and has said why: the watchdogs of the others say nothing more. */
void watchdog_stopping(void);
#endif
