#ifndef COMM_DATA_TRANSPORT_H
#define COMM_DATA_TRANSPORT_H
/* The interface to what carries tensors between the ranks of a communicator. Its verbs know queues, types and
 * sums, so that a library that reduces on devices (NCCL) fits behind it; comm/comm.h is its only user.
 *
 * Order with queues. A call begins after what its queue has been given so far, and `wait` orders what the
 * queue is given later after the call. A transport of devices records and waits for events in both places and
 * does not block the host. The transport of the host (comm/host_data.c) waits for the queue in `begin`, and
 * for the call in `wait`.
 *
 * What a further transport must provide
 *   between processes without MPI:  a Transport (comm/transport.h). comm/host_data.c adds the verbs and the
 *       sums, with the same bits as on threads and MPI. comm/program.h of the tests runs on it.
 *   of devices, with sums of its own:  this table. It promises that the same layout gives the same bits each
 *       time, and groups of one size the same from the same numbers, since sums over the world go along the
 *       axes of the mesh; not that they are those of the host. `control` is at hand to exchange addresses
 *       and keys. */
#include "comm/transport.h"
#include "tensor/queue.h"

typedef struct DataTransport DataTransport;
typedef struct DataGroup DataGroup;                   /* each transport defines its own */

typedef enum {
    DATA_ALL_GATHER, DATA_REDUCE_SCATTER, DATA_ALL_REDUCE, DATA_ALL_TO_ALL, DATA_SEND, DATA_RECV,
    DATA_EXCHANGE
} DataVerb;
typedef enum { REDUCE_SUM, REDUCE_MAX } Reduction;

/* One call. Tensors are contiguous; they and the offsets are the caller's and stay until the wait. */
typedef struct {
    DataVerb  verb;
    Reduction reduction;                              /* of reduce-scatter and all-reduce */
    Queue    *queue;
    /* all-reduce: `out` alone, in place. send: `in` alone; receive: `out` alone. Exchange: `in` goes to
     * `peer` and `out` comes from `from` in one call, neither of which waits for the other. */
    Tensor    out, in;
    /* [size + 1] elements. all-gather, reduce-scatter: out_at is where the ranks' parts begin in the whole;
     * NULL: equal parts. all-to-all: both. */
    const int64_t *out_at, *in_at;
    int       peer, from;                             /* of send and receive; of exchange */
    Tensor    window;                                 /* of the bytes that `window` asks for */
    long      number;                                 /* of a collective, the same on all its ranks */
} DataCall;

struct DataTransport {
    const char *name;                                 /* "host" */
    void       *self;
    bool        adds;                                 /* it reduces 16 bits itself, as fast as more */
    /* Collective over the members, whose world ranks ascend. sum_group: ranks of an inner group of sums
     * (comm/sum_order.h). name: of the comm, for messages, which lives as long. NULL: no memory. */
    DataGroup *(*group_open) (DataTransport *d, Transport *control, const int *ranks, int count,
                              int sum_group, const char *name);
    void       (*group_close)(DataTransport *d, DataGroup *g);
    /* Bytes of scratch that a reduction of elements in parts of up to `part` needs until its wait: the same
     * on all ranks, and bounded whatever the part (SUM_WINDOW). */
    size_t     (*window)(const DataGroup *g, Dtype dtype, int64_t part);
    /* Bytes of payload that this rank sends to others in this call. */
    int64_t    (*payload)(const DataGroup *g, const DataCall *call);
    /* Returns a number of the call, to be waited for once. Does not wait for other ranks, except where a
     * library connects them at the first call of a group. */
    int        (*begin)(DataTransport *d, DataGroup *g, const DataCall *call);
    /* Makes progress without waiting. within: the rank's team is at work (base/team.h), so the transport runs
     * no operations on the queue. */
    void       (*poll) (DataTransport *d, bool within);
    /* Without waiting. true: complete, and the call is no more, as after `wait`. */
    bool       (*done) (DataTransport *d, int number);
    /* Returns when anything may have changed since the last poll. */
    void       (*idle) (DataTransport *d, int number);
    void       (*wait) (DataTransport *d, Queue *queue, int number);
    /* Of a transport whose calls go on after `wait` (RecordedComplete of comm/recorder.h); else NULL. */
    bool       (*is_complete)(void *d, int number);
    /* Ends the calls that run on devices, from any thread, before the process ends; else NULL. */
    void       (*abort)(DataTransport *d);
    void       (*close)(DataTransport *d);
};

/* Scratch of a reduction: at most SUM_WINDOW bytes, or SUM_PIECE bytes for each piece where ranks are so many
 * that their pieces would be shorter. */
enum { SUM_WINDOW = 4 << 20, SUM_PIECE = 1024 };
/* Reductions that a rank may have begun and not waited for. */
enum { SUMS_IN_FLIGHT = 64 };

/* The transport over a Transport that moves bytes of the host: threads, MPI, dry. NULL: no memory. */
DataTransport *host_data_open(Transport *control);
#endif
