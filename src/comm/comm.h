#ifndef COMM_COMM_H
#define COMM_COMM_H
/* A Comm is a set of ranks as one of them sees it: an axis or several of the mesh, or the pair of tied stages. Of size 1 it
 * does nothing, so there is one code path. A transport moves bytes; sums are ours, in rank order, so bits agree on every
 * transport. Ranks may be threads: nothing here is global. Only the rank's own thread may call.                          */
#include "comm/mesh.h"
#include "tensor/ops.h"

typedef struct Transport Transport;          /* comm/transport.h: threads, mpi plug-in, dry */
typedef struct Comm Comm;

/* ---- opening ---- */
Status comm_world(Comm **world, Transport *transport);                       /* all ranks */
Status comm_open (Comm **comm, Comm *world, const char *name, const int *ranks, int count);  /* collective over those ranks; ranks ascending */
Status comm_open_axes(Comm **comm, Comm *world, const Mesh *mesh, int axes); /* named tp, cp, dp, pp, dp+cp ... */
void   comm_close(Comm *comm);
int    comm_rank(const Comm *comm);
int    comm_size(const Comm *comm);
int    comm_world_rank(const Comm *comm, int rank);                           /* a member's rank in the world */
bool   comm_dry (const Comm *comm);

/* ---- collectives: done when they return; scratch is given back. Tensors are contiguous. ---- */
void comm_all_gather    (Comm *comm, Queue *q, Tensor out, Tensor in);                    /* out = rank 0's in, rank 1's in ... (count out = size * count in) */
void comm_reduce_scatter(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch);    /* out = my 1/size of the sum; in counts size * out; out may lie within in */
void comm_all_reduce    (Comm *comm, Queue *q, Tensor x, Arena *scratch);                 /* in place: an all-to-all of ceil(count/size) parts, our sum, an all-gather */
void comm_barrier       (Comm *comm);

/* ---- begun now, finished by comm_wait: the buffers belong to comm in between. Waited for in any order, each once. ---- */
typedef struct { int slot; } Pending;        /* slot < 0: nothing to wait for */
Pending comm_all_gather_begin(Comm *comm, Queue *q, Tensor out, Tensor in);
Pending comm_send_begin(Comm *comm, Queue *q, Tensor x, int to);              /* to, from: ranks of this comm; pairs match in order */
Pending comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from);
void    comm_wait(Comm *comm, Pending pending);
void    comm_poll(Comm *comm);               /* lets the transport progress; the walk calls it between units */

/* ---- what was sent: payload bytes that left this rank, by verb; a trace of lines where one was asked for ---- */
typedef enum { SENT_ALL_GATHER, SENT_REDUCE_SCATTER, SENT_ALL_REDUCE, SENT_SEND, SENT_VERBS } SentVerb;
typedef struct { int64_t calls, bytes; } Sent;
const char *comm_name(const Comm *comm);
Sent  comm_sent(const Comm *comm, SentVerb verb);
const char *sent_verb_name(SentVerb verb);
void  comm_sent_reset(Comm *comm);
void  comm_sent_add(Comm *comm, SentVerb verb, Sent more);      /* a dry run's: what it would have sent, computed */
void  comm_trace(Comm *comm, void (*line)(void *context, const char *text), void *context);  /* "tp all-gather F64 64x32": NULL turns it off */
#endif
