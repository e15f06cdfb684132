#ifndef COMM_COMM_H
#define COMM_COMM_H
/* Communicators and their collectives. A Comm is a set of ranks as one of its members sees it: all
 * ranks, one or more axes of the mesh, or the two stages that share tied embeddings. Of size 1 every
 * call is a local copy or does nothing, so callers need no second code path for a run on one rank.
 *
 * Two kinds of transport are below it. Control (comm/transport.h) moves bytes of the host: agreement, flags,
 * pieces of checkpoints. Data (comm/data_transport.h) carries tensors and knows queues, types and sums; that
 * header says what a further transport must provide. On the host reductions are added in a fixed order
 * (comm/sum_order.h), so the results are bitwise the same on every transport and on every rank. Ranks may be
 * threads of one process, so this module has no global state that could differ between ranks, and only the
 * rank's own thread may call these functions.
 *
 * Begin orders a call after what its queue has been given so far, and wait orders what the queue is given
 * later after the call. On the host both wait: begin for the queue (queue_wait), wait for the call. */
#include "comm/mesh.h"
#include "comm/transport.h"
#include "tensor/ops.h"

typedef struct Comm Comm;

/* ---- opening ---- */
/* Opening cannot fail: a rank without memory for a comm stops the job, since the others are in the same
 * collective and would wait for it.
 *
 * All ranks of the transport, which must outlive the comm. Collective. Starts the time limit of comm/start.h,
 * which watchdog_open ends. */
Comm  *comm_world(Transport *transport);
/* The same with sums in groups of `sum_group` ranks, 1 to 128, instead of COMM_SUM_GROUP, for this comm and
 * all that are opened from it. It decides the order of additions, so it is a part of a run's identity. */
enum { COMM_SUM_GROUP = 8 };
Comm  *comm_world_sums(Transport *transport, int sum_group);
/* The `count` ranks (world ranks, ascending, this rank among them; anything else is a CHECK). Collective
 * over those ranks, which must open their comms in the same order. `name` appears in messages and traces
 * and is copied, at most HEARTBEAT_NAME - 1 bytes of it. The world must outlive the comm. */
Comm  *comm_open (Comm *world, const char *name, const int *ranks, int count);
/* The ranks that differ from this one only along `axes`, a bit set of Axis of one grid of the mesh. Its
 * name is that of the axes: "tp", "dp+cp", "edp". */
Comm  *comm_open_axes(Comm *world, const Mesh *mesh, int axes);
void   comm_close(Comm *comm);                                   /* NULL is allowed */
int    comm_rank(const Comm *comm);                              /* this rank's index in the comm */
int    comm_size(const Comm *comm);
int    comm_world_rank(const Comm *comm, int rank);              /* a member's rank in the world */
bool   comm_dry (const Comm *comm);                              /* true on the transport of the dry run */

/* ---- blocking collectives ----
 * The result is complete on return, and `scratch` is reset to the mark it had before the call. Tensors
 * are contiguous; the reductions take floating-point types of the queue's back end and add in its compute
 * type, and F64, which they add in double. Anything else is a CHECK. Each rank of the comm makes the same
 * calls in the same order. */
/* out = rank 0's in, rank 1's in, ...: out has size * count(in) elements. `in` may be this rank's block
 * of `out`. */
void comm_all_gather    (Comm *comm, Queue *q, Tensor out, Tensor in);
/* The same with parts of unequal length, some of them empty: rank r's is elements begin[r] .. begin[r + 1] of
 * out. begin: [size + 1], from 0 to count(out), the same on all ranks. */
void comm_all_gather_parts(Comm *comm, Queue *q, Tensor out, const int64_t *begin, Tensor in);
/* Elements in_at[r] .. in_at[r + 1] of `in` go to rank r, which puts them at its out_at[this rank] ..: each
 * rank's part for another has the length that the other expects. Both are [size + 1] element offsets that
 * ascend within the tensor. `out` and `in` have one type, any, and do not overlap. */
void comm_all_to_all    (Comm *comm, Queue *q, Tensor out, const int64_t *out_at, Tensor in,
                         const int64_t *in_at);
/* Whether whole tensors of 16 bits may be reduced in the background: on a device, by its library. Elsewhere
 * that takes copies which are better made window by window. */
bool   comm_adds_on_device(const Comm *comm);
/* Bytes of the window of a reduction of parts of up to `part` elements; 0 in a comm of one rank. */
size_t comm_window(const Comm *comm, Dtype dtype, int64_t part);
/* Reductions take a window from scratch, whose bytes are bounded whatever the tensor's: SUM_WINDOW of
 * comm/data_transport.h, 4 MiB, and among more than some 4,000 groups of ranks 1 KiB for each. */
/* out = this rank's 1/size of the sum over the ranks; in has size * count(out) elements. `out` may be this
 * rank's part of `in`. */
void comm_reduce_scatter(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch);
/* The same with parts of unequal length, as comm_all_gather_parts has them. */
void comm_reduce_scatter_parts(Comm *comm, Queue *q, Tensor out, Tensor in, const int64_t *begin,
                               Arena *scratch);
/* x = the sum of x over the ranks, in place, of any count. */
void comm_all_reduce    (Comm *comm, Queue *q, Tensor x, Arena *scratch);
/* The same with the maximum over the ranks, of the compute type or F64. */
void comm_all_reduce_max(Comm *comm, Queue *q, Tensor x, Arena *scratch);
void comm_barrier       (Comm *comm);
/* Rank 0 takes the bytes of each rank, its own first, in the order of ranks; `data` is valid during the call.
 * Rank 0 receives from one rank after another and holds the bytes of one at a time. For reports, not for
 * tensors: neither counted nor traced. Allocates; a rank without memory for it stops the job. */
typedef void CommTake(void *context, int rank, const void *data, size_t bytes);
void comm_collect       (Comm *comm, const void *mine, size_t bytes, CommTake *take, void *context);

/* ---- non-blocking communication ----
 * Each Pending is passed to comm_wait exactly once, in any order. Until then its buffers and offsets belong
 * to the comm: they are neither written nor, where they receive, read. So does what it takes from scratch,
 * which is not reset. Of one comm several may be in flight. They advance in comm_poll and in every wait of
 * the rank. */
typedef struct { int slot; } Pending;                            /* slot < 0: complete already */
Pending comm_all_gather_begin(Comm *comm, Queue *q, Tensor out, Tensor in);
Pending comm_all_gather_parts_begin(Comm *comm, Queue *q, Tensor out, const int64_t *begin, Tensor in);
Pending comm_reduce_scatter_begin(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch);
Pending comm_reduce_scatter_parts_begin(Comm *comm, Queue *q, Tensor out, Tensor in, const int64_t *begin,
                                        Arena *scratch);
Pending comm_all_reduce_begin(Comm *comm, Queue *q, Tensor x, Arena *scratch);
Pending comm_all_to_all_begin(Comm *comm, Queue *q, Tensor out, const int64_t *out_at, Tensor in,
                              const int64_t *in_at);
/* `to` and `from` are ranks of this comm, other than the caller. The k-th send of a pair of ranks
 * matches its k-th receive, which must have the same number of bytes. */
Pending comm_send_begin(Comm *comm, Queue *q, Tensor x, int to);
Pending comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from);
/* A send and a receive in one call, so that neither waits for the other where calls of a comm are started in
 * order: what the ranks of a ring do all at once. Counted as a send. */
Pending comm_exchange_begin(Comm *comm, Queue *q, Tensor out, int from, Tensor in, int to);
void    comm_wait(Comm *comm, Pending pending);
/* Queue.waiting of a rank's queue on a device, with the world as context: a failure of a message or of
 * another rank stops the job instead of leaving the host to wait for ever. */
void    comm_waiting(void *world);
/* Lets all calls of the rank make progress, because MPI libraries without a progress thread move data only
 * inside MPI calls, and sums are the rank's own work. The stage executor calls it between units, a team
 * between the chunks of a loop (team_poll_hook): `within` runs no operation on the rank's queue. */
void    comm_poll(Comm *comm);
void    comm_poll_within(void *comm);

/* ---- accounting ----
 * Payload bytes that this rank sent to other ranks, by operation. Agreement, barriers and heartbeats are
 * not counted. */
typedef enum { SENT_ALL_GATHER, SENT_REDUCE_SCATTER, SENT_ALL_REDUCE, SENT_ALL_TO_ALL, SENT_SEND,
               SENT_VERBS } SentVerb;
typedef struct { int64_t calls, bytes; } Sent;
const char *comm_name(const Comm *comm);
Sent  comm_sent(const Comm *comm, SentVerb verb);
const char *sent_verb_name(SentVerb verb);                       /* "all-gather" */
void  comm_sent_reset(Comm *comm);
/* Adds what the dry run computes instead of executing: the traffic of the micro-batches that it leaves
 * out. */
void  comm_sent_add(Comm *comm, SentVerb verb, Sent more);
/* Calls `line` with a text such as "tp all-gather F64 64x32" for each operation; NULL ends the trace. */
void  comm_trace(Comm *comm, void (*line)(void *context, const char *text), void *context);
#endif
