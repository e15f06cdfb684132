/* Messages: how one is given to the transport and waited for, non-blocking communication, and the count
 * of what was sent. Each wait shows in the heartbeat, and each message passes comm_delivered, where a
 * test may drop it. */
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/seam.h"
#include "base/trace.h"

/* ---- one message: given to the transport, waited for ---- */
/* The dry run sends nothing, so it loses nothing: fault injection counts real messages only. */
bool comm_delivered(Comm *comm, const char *verb, long number)
{
    if (comm->dry) return true;
    seam_point("collective");
    return seam.deliver(comm->transport->rank, verb, number);
}

void comm_finish(Comm *comm, int request, const char *verb, long number, int peer)
{
    /* The members that the watchdog reports as missing: all of a collective, the two ends of a message. */
    int pair[2] = { comm->ranks[comm->rank], peer < 0 ? -1 : comm->ranks[peer] };
    heartbeat_enter(comm->heartbeat, comm->name, verb, number, peer < 0 ? comm->ranks : pair,
                    peer < 0 ? comm->size : 2);
    const char *outer = thread_context()->op;
    Trace *trace   = thread_context()->trace;
    int64_t begin  = trace ? seam.clock() : 0;
    thread_context()->op = verb;
    while (request == REQUEST_LOST) pause();          /* the watchdog ends the process */
    comm->transport->wait(comm->transport, request);
    thread_context()->op = outer;
    if (trace) trace_add(trace, TRACE_WAIT, comm->name, verb, begin, 0, comm->recorded);
    comm->recorded = 0;
    heartbeat_leave(comm->heartbeat);
}

void comm_gather_bytes(Comm *comm, const char *verb, void *out, const void *in, size_t bytes)
{
    long number  = comm->number++;
    int  request = REQUEST_LOST;
    if (comm_delivered(comm, verb, number))
        request = comm->transport->all_gather(comm->transport, comm->group, out, in, bytes);
    comm_finish(comm, request, verb, number, -1);
}

void comm_collect(Comm *comm, const void *mine, size_t bytes, CommTake *take, void *context)
{
    uint64_t own = bytes, *all = malloc((size_t)comm->size * sizeof *all);
    CHECK(all, "no memory for the sizes of %d ranks' data", comm->size);
    all[0] = own;
    if (comm->size > 1) comm_gather_bytes(comm, "collect", all, &own, sizeof own);
    if (comm->rank == 0) take(context, 0, mine, bytes);
    else comm_finish(comm, comm->transport->send(comm->transport, comm->group, mine, bytes, 0), "send",
                     comm->sent_to[0]++, 0);
    for (int from = 1; comm->rank == 0 && from < comm->size; from++) {
        void *data = malloc(all[from] + 1);
        CHECK(data, "no memory for %llu bytes of rank %d", (unsigned long long)all[from], from);
        comm_finish(comm, comm->transport->recv(comm->transport, comm->group, data, all[from], from), "recv",
                    comm->received_from[from]++, from);
        take(context, from, data, all[from]);
        free(data);
    }
    free(all);
}

/* ---- non-blocking communication ---- */
/* Stores the request in the first free slot. The search is linear in the number of messages in progress,
 * which is small, and happens once for each message. */
static Pending comm_pend(Comm *comm, int request, const char *verb, long number, int peer)
{
    for (int slot = 0; slot < COMM_PENDING; slot++)
        if (!comm->pending[slot].used) {
            comm->pending[slot] = (PendingMessage){ true, request, peer, verb, number,
                thread_context()->trace ? seam.clock() : 0, comm->recorded };
            comm->recorded = 0;
            return (Pending){ slot };
        }
    stop_world(__FILE__, __LINE__, "comm %s: more than %d messages are begun and not waited for", comm->name,
               COMM_PENDING);
}

Pending comm_all_gather_begin(Comm *comm, Queue *q, Tensor out, Tensor in)
{
    CHECK(tensor_contiguous(out) && tensor_contiguous(in), "all-gather of %s: tensors must be contiguous",
          comm->name);
    CHECK(out.dtype == in.dtype && tensor_count(out) == comm->size * tensor_count(in),
          "all-gather of %s: out counts %lld, not %d times %lld of the same type", comm->name,
          (long long)tensor_count(out), comm->size, (long long)tensor_count(in));
    if (comm->size == 1) {
        if (out.data != in.data)
            copy_strided(q, (CopyStrided){ .y = tensor_view(out, tensor_count(in)),
                                           .x = tensor_view(in, tensor_count(in)) });
        return (Pending){ -1 };
    }
    const char *verb = sent_verb_name(SENT_ALL_GATHER);
    size_t bytes     = tensor_bytes(in);
    long   number    = comm->number++;
    int    request   = REQUEST_LOST;
    comm_record(comm, SENT_ALL_GATHER, (comm->size - 1) * (int64_t)bytes, in);
    queue_wait(q);                                    /* the queue may still be computing `in` */
    if (comm_delivered(comm, verb, number))
        request = comm->transport->all_gather(comm->transport, comm->group, out.data, in.data, bytes);
    return comm_pend(comm, request, verb, number, -1);
}

static void parts_check(const Comm *comm, Tensor x, const int64_t *at)
{
    CHECK(tensor_contiguous(x), "all-to-all of %s: tensors must be contiguous", comm->name);
    CHECK(at[0] >= 0 && at[comm->size] <= tensor_count(x), "all-to-all of %s: elements %lld to %lld of %lld",
          comm->name, (long long)at[0], (long long)at[comm->size], (long long)tensor_count(x));
    for (int r = 0; r < comm->size; r++)
        CHECK(at[r] <= at[r + 1], "all-to-all of %s: the offsets descend after rank %d", comm->name, r);
}

Pending comm_all_to_all_begin(Comm *comm, Queue *q, Tensor out, const int64_t *out_at, Tensor in,
                              const int64_t *in_at)
{
    parts_check(comm, out, out_at);
    parts_check(comm, in, in_at);
    int64_t mine = in_at[comm->rank + 1] - in_at[comm->rank];
    CHECK(out.dtype == in.dtype && out_at[comm->rank + 1] - out_at[comm->rank] == mine,
          "all-to-all of %s: this rank's own part or the types differ", comm->name);
    if (comm->size == 1) {
        if (mine > 0)
            copy_strided(q, (CopyStrided){ .y = tensor_flat(out, out_at[0], mine),
                                           .x = tensor_flat(in, in_at[0], mine) });
        return (Pending){ -1 };
    }
    const char *verb = sent_verb_name(SENT_ALL_TO_ALL);
    size_t width     = dtype_width(in.dtype);
    long   number    = comm->number++;
    int    request   = REQUEST_LOST;
    comm_record(comm, SENT_ALL_TO_ALL, (in_at[comm->size] - in_at[0] - mine) * (int64_t)width, in);
    queue_wait(q);
    if (comm_delivered(comm, verb, number))
        request = comm->transport->all_to_all(comm->transport, comm->group, out.data, out_at, in.data, in_at,
                                              width);
    return comm_pend(comm, request, verb, number, -1);
}

static void peer_check(const Comm *comm, const char *verb, Tensor x, int peer)
{
    CHECK(peer >= 0 && peer < comm->size && peer != comm->rank, "%s: rank %d of %s cannot %s rank %d of %d",
          verb, comm->rank, comm->name, verb, peer, comm->size);
    CHECK(tensor_contiguous(x), "%s of %s: the tensor must be contiguous", verb, comm->name);
}

Pending comm_send_begin(Comm *comm, Queue *q, Tensor x, int to)
{
    peer_check(comm, "send to", x, to);
    const char *verb = sent_verb_name(SENT_SEND);
    long number      = comm->sent_to[to]++;
    comm_record(comm, SENT_SEND, (int64_t)tensor_bytes(x), x);
    queue_wait(q);
    if (!comm_delivered(comm, verb, number))
        return (Pending){ -1 };                       /* a network does not tell the sender of a loss */
    int request = comm->transport->send(comm->transport, comm->group, x.data, tensor_bytes(x), to);
    return comm_pend(comm, request, verb, number, to);
}

Pending comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from)
{
    peer_check(comm, "receive from", x, from);
    queue_wait(q);
    int request = comm->transport->recv(comm->transport, comm->group, x.data, tensor_bytes(x), from);
    return comm_pend(comm, request, "recv", comm->received_from[from]++, from);
}

void comm_wait(Comm *comm, Pending pending)
{
    if (pending.slot < 0) return;
    PendingMessage *message = &comm->pending[pending.slot];
    CHECK(message->used, "comm %s: a message is waited for twice", comm->name);
    comm->recorded = message->bytes;
    comm_finish(comm, message->request, message->verb, message->number, message->peer);
    if (thread_context()->trace && message->begun)
        trace_add(thread_context()->trace, TRACE_MESSAGE, comm->name, message->verb, message->begun, 0,
                  message->bytes);
    message->used = false;
}

void comm_poll(Comm *comm)
{
    comm->transport->poll(comm->transport);
}

/* ---- accounting ---- */
const char *comm_name(const Comm *comm)
{
    return comm->name;
}

const char *sent_verb_name(SentVerb verb)
{
    static const char *const name[SENT_VERBS] = { "all-gather", "reduce-scatter", "all-reduce", "all-to-all",
                                                 "send" };
    return name[verb];
}

Sent comm_sent(const Comm *comm, SentVerb verb)
{
    return comm->sent[verb];
}

void comm_sent_reset(Comm *comm)
{
    memset(comm->sent, 0, sizeof comm->sent);
}

void comm_sent_add(Comm *comm, SentVerb verb, Sent more)
{
    comm->sent[verb].calls += more.calls;
    comm->sent[verb].bytes += more.bytes;
}

void comm_trace(Comm *comm, void (*line)(void *context, const char *text), void *context)
{
    comm->line         = line;
    comm->line_context = context;
}

void comm_record(Comm *comm, SentVerb verb, int64_t bytes, Tensor x)
{
    comm->sent[verb].calls += 1;
    comm->sent[verb].bytes += bytes;
    comm->recorded = (double)bytes;
    if (!comm->line) return;
    int last = 3;                                     /* trailing dimensions of 1 are not printed */
    while (last > 0 && x.dim[last] == 1) last--;
    char text[192];
    int at = snprintf(text, sizeof text, "%s %s %s ", comm->name, sent_verb_name(verb), dtype_name(x.dtype));
    for (int i = 0; i <= last; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? "x" : "", (long long)x.dim[i]);
    comm->line(comm->line_context, text);
}
