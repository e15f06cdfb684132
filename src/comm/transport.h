#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H
/* The interface to what moves bytes of the host between ranks: threads of one process, an MPI plug-in, TCP
 * (comm/tcp/tcp.h), or nothing (the dry run). It carries what controls a run (agreement, flags, the start,
 * pieces of checkpoints), and comm/host_data.c builds the verbs of tensors on it (comm/data_transport.h), so
 * that a transport of this kind never adds numbers. It uses plain C types and bytes only, so that an MPI
 * plug-in compiles without the rest of jotun. Only the rank's own thread calls it (MPI_THREAD_FUNNELED).
 * Requests are small integers from a fixed pool, so that nothing is allocated during a step. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* TRANSPORT_ABI changes with the layout of Transport; a plug-in of another version is refused.
 * TRANSPORT_REQUESTS bounds the requests in progress on one rank; exceeding it stops the job.
 * TRANSPORT_TAGS: tags of messages are below it; MPI guarantees 32,768. TAG_CONTROL is that of control. */
enum { TRANSPORT_ABI = 5, TRANSPORT_REQUESTS = 4096, TRANSPORT_TAGS = 32768, TAG_CONTROL = 0 };
typedef struct Transport Transport;
/* DRY moves nothing; of THREADS the ranks are in one process. */
typedef enum { TRANSPORT_DRY, TRANSPORT_THREADS, TRANSPORT_MPI, TRANSPORT_TCP } TransportKind;
typedef struct Group Group;                       /* each transport defines its own */
struct DataTransport;                             /* comm/data_transport.h */

/* all_gather, all_to_all, send and recv return a request and never block; their buffers and offsets stay
 * valid and unchanged until `test` is true for it, which is asked until it is, once for each request.
 * Offsets are in elements of `width` bytes, count + 1 of them, which ascend. */
struct Transport {
    int   abi;                                    /* TRANSPORT_ABI */
    TransportKind kind;
    const char *name;                             /* "threads", "openmpi", "mpich", "tcp", "dry" */
    char  address[64];                            /* of this host, as other ranks reach it; "": unknown */
    int   rank, size;                             /* in the world */
    void *self;                                   /* the transport's own state */
    /* What carries tensors, where that is not this transport: set before comm_world, closed by who set it.
     * NULL: comm/host_data.c over this transport. */
    struct DataTransport *data;
    /* Collective over the ranks in the list (world ranks, ascending, this rank among them). NULL: no
     * memory. Collectives of a group match in the order of their calls. */
    Group *(*group_open) (Transport *t, const int *ranks, int count);
    void   (*group_close)(Transport *t, Group *g);
    /* Elements at[r] .. at[r+1] of `out` come from member r, this member's from `in`, which may be its own
     * part of `out`. at NULL: one element from each, in group order. */
    int  (*all_gather)(Transport *t, Group *g, void *out, const int64_t *at, const void *in, size_t width);
    /* Elements in_at[r] .. in_at[r+1] of `in` go to member r; elements out_at[r] .. out_at[r+1] of `out`
     * come from member r. */
    int  (*all_to_all)(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in,
                       const int64_t *in_at, size_t width);
    /* `to` and `from` are members of the group; messages of a pair of ranks and a tag match in order. */
    int  (*send)(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag);
    int  (*recv)(Transport *t, Group *g, void *data, size_t bytes, int from, int tag);
    void (*poll)(Transport *t);                   /* makes progress without waiting */
    bool (*test)(Transport *t, int request);      /* true: complete, and the request is no more */
    /* Returns when anything may have changed since the last poll; it may return early. `request` is one
     * that the caller waits for: where it can never complete, the job stops. */
    void (*idle)(Transport *t, int request);
    void (*abort)(Transport *t, int exit_code);   /* ends the whole job at once */
    void (*close)(Transport *t);                  /* the rank's last call */
};

/* Runs `body` in `ranks` threads, each with a transport of its own, and joins them. Returns the status
 * of the lowest rank that failed, and its message becomes the calling thread's fail_text(). The threads
 * may not share anything in which ranks could differ. A rank that waits for one that has returned stops
 * the job. */
typedef Status RankBody(Transport *transport, void *context);
Status transport_threads_run(int ranks, RankBody *body, void *context);
/* A transport of the given rank and world size that moves nothing. The caller closes it. */
Transport *transport_dry_open(int rank, int size);

/* Opens what joins the processes of the launcher that started this one, which the environment shows
 * (comm/launcher.c): an MPI plug-in or TCP. *transport is NULL where none did. BAD_OPTION, with the
 * remedy, if it is not available. seconds: time limit of MPI_Init or of the rendezvous, and of the first
 * synchronization of all ranks after it (comm/start.h); 0: none. control_port: where rank 0 listens for TCP;
 * 0: by the launcher's rule. */
Status transport_open(Transport **transport, double seconds, int control_port, int *argc, char ***argv);
const char *transport_launcher(void);             /* from the environment: "Open MPI"; NULL: none */
int transport_launcher_size(void);                /* processes that it started; 0: it does not tell */
int transport_launcher_rank(void);                /* known before it is opened; 0 without a launcher */
int transport_launcher_local(void);               /* processes on this host, 1 where it does not tell */
/* This process among those of its host, from 0, by Open MPI, MPICH, Slurm, PALS, torchrun or jotun run; -1:
 * by none. */
int transport_launcher_place(void);

/* A plug-in exports this one symbol. It returns NULL and a message in `error` where MPI_Init_thread fails. */
typedef Transport *TransportPlugin(int *argc, char ***argv, char *error, size_t error_bytes);
#define TRANSPORT_PLUGIN_SYMBOL "jotun_transport_open"
#endif
