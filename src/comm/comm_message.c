/* How one call is given to a transport and waited for, by the control and by the data transport, and the
 * count of what was sent. Each wait shows in the heartbeat, and each call passes comm_delivered, where a
 * test may drop it. */
#include "comm/comm_internal.h"
#include "comm/data_abort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/message.h"
#include "base/seam.h"
#include "base/trace.h"
#include "tensor/ops.h"

/* ---- waiting ---- */
/* The dry run sends nothing, so it loses nothing: fault injection counts real messages only. */
bool comm_delivered(Comm *comm, const char *verb, long number)
{
    if (comm->dry) return true;
    seam_point("collective");
    return seam.deliver(comm->transport->rank, verb, number);
}

/* What lives as long as a wait: the two ends of a message, which the watchdog reads, and what is restored. */
typedef struct { int pair[2]; const char *outer; int64_t begin; } Waiting;

static void wait_begins(Comm *comm, Waiting *waiting, const char *verb, long number, int peer)
{
    *waiting = (Waiting){ { comm->ranks[comm->rank], peer < 0 ? -1 : comm->ranks[peer] },
                          thread_context()->op, thread_context()->trace ? seam.clock() : 0 };
    /* The members that the watchdog reports as missing: all of a collective, the two ends of a message. */
    heartbeat_enter(comm->heartbeat, comm->name, verb, number, peer < 0 ? comm->ranks : waiting->pair,
                    peer < 0 ? comm->size : 2);
    thread_context()->op = verb;
}

static void wait_ends(Comm *comm, const Waiting *waiting, const char *verb, double bytes)
{
    thread_context()->op = waiting->outer;
    if (thread_context()->trace)
        trace_add(thread_context()->trace, TRACE_WAIT, comm->name, verb, waiting->begin, 0, bytes);
    heartbeat_leave(comm->heartbeat);
}

/* ---- bytes of the host ---- */
void comm_finish(Comm *comm, int request, const char *verb, long number, int peer)
{
    Transport *t = comm->transport;
    Waiting waiting;
    wait_begins(comm, &waiting, verb, number, peer);
    while (request == REQUEST_LOST) pause();          /* the watchdog ends the process */
    for (;;) {
        comm->data->poll(comm->data, false);
        t->poll(t);
        if (t->test(t, request)) break;
        t->idle(t, request);
    }
    wait_ends(comm, &waiting, verb, 0);
}

void comm_gather_bytes(Comm *comm, const char *verb, void *out, const void *in, size_t bytes)
{
    long number  = comm->number++;
    int  request = REQUEST_LOST;
    if (comm_delivered(comm, verb, number))
        request = comm->transport->all_gather(comm->transport, comm->control, out, NULL, in, bytes);
    comm_finish(comm, request, verb, number, -1);
}

void comm_send_bytes(Comm *comm, const void *data, size_t bytes, int to)
{
    int request = comm->transport->send(comm->transport, comm->control, data, bytes, to, TAG_CONTROL);
    comm_finish(comm, request, "send", comm->sent_to[to]++, to);
}

void comm_recv_bytes(Comm *comm, void *data, size_t bytes, int from)
{
    int request = comm->transport->recv(comm->transport, comm->control, data, bytes, from, TAG_CONTROL);
    comm_finish(comm, request, "recv", comm->received_from[from]++, from);
}

/* Ranks counted from `from` on: r receives from r without its lowest bit, and sends to r with one more bit
 * below that. */
void comm_broadcast_bytes(Comm *comm, void *data, size_t bytes, int from)
{
    int n = comm->size, mine = (comm->rank - from + n) % n, bit = 1;
    while (bit < n && !(mine & bit)) bit *= 2;
    if (mine) comm_recv_bytes(comm, data, bytes, (mine - bit + from) % n);
    for (bit /= 2; bit > 0; bit /= 2)
        if (mine + bit < n) comm_send_bytes(comm, data, bytes, (mine + bit + from) % n);
}

void comm_collect(Comm *comm, const void *mine, size_t bytes, CommTake *take, void *context)
{
    uint64_t own = bytes, *all = malloc((size_t)comm->size * sizeof *all);
    CHECK(all, "no memory for the sizes of %d ranks' data", comm->size);
    all[0] = own;
    if (comm->size > 1) comm_gather_bytes(comm, "collect", all, &own, sizeof own);
    if (comm->rank == 0) take(context, 0, mine, bytes);
    else comm_send_bytes(comm, mine, bytes, 0);
    for (int from = 1; comm->rank == 0 && from < comm->size; from++) {
        void *data = malloc(all[from] + 1);
        CHECK(data, "no memory for %llu bytes of rank %d", (unsigned long long)all[from], from);
        comm_recv_bytes(comm, data, all[from], from);
        take(context, from, data, all[from]);
        free(data);
    }
    free(all);
}

/* An all-gather of one word: no rank has all words before the last has come. */
void comm_barrier(Comm *comm)
{
    if (comm->size == 1 || comm->dry) return;
    int32_t word = 0;
    comm_gather_bytes(comm, "barrier", comm->word, &word, sizeof word);
}

/* ---- tensors ---- */
/* Numbers identify a call across ranks (struct Comm). An exchange is a message to one rank and one from
 * another, which may be a third: its number is that of what it receives. */
static long number_next(Comm *comm, const DataCall *call)
{
    switch (call->verb) {
    case DATA_SEND:     return comm->sent_to[call->peer]++;
    case DATA_RECV:     return comm->received_from[call->peer]++;
    case DATA_EXCHANGE: return comm->sent_to[call->peer]++, comm->received_from[call->from]++;
    default:            return comm->number++;
    }
}

/* "tp all-gather F64 64x32" */
static void trace_call(const Comm *comm, const CommCall *call)
{
    int last = 3;                                     /* trailing dimensions of 1 are not printed */
    const Tensor *x = &call->shown;
    while (last > 0 && x->dim[last] == 1) last--;
    char text[192];
    snprintf(text, sizeof text, "%s %s %s ", comm->name, sent_verb_name(call->counted), dtype_name(x->dtype));
    for (int i = 0; i <= last; i++)
        message_add(text, sizeof text, "%s%lld", i ? "x" : "", (long long)x->dim[i]);
    comm->line(comm->line_context, text);
}

/* Bytes of payload that leave this rank. */
static int64_t count_call(Comm *comm, const CommCall *call, const DataCall *data)
{
    if (call->counted == SENT_VERBS) return 0;
    int64_t bytes = comm->data->payload(comm->data_group, data);
    comm->sent[call->counted].calls += 1;
    comm->sent[call->counted].bytes += bytes;
    if (comm->line) trace_call(comm, call);
    return bytes;
}

static long record_call(Comm *comm, const CommCall *call, long number, int64_t bytes, int begun)
{
    int peer = call->peer;
    return recorder_begin(comm->recorder, &(RecordedCall){ .comm = comm->name, .verb = call->name,
        .number = number, .step = thread_context()->step, .bytes = bytes, .begun = seam.clock(),
        .pair = { comm->ranks[comm->rank], peer < 0 ? -1 : comm->ranks[peer] },
        .members = peer < 0 ? comm->ranks : NULL, .count = peer < 0 ? comm->size : 2, .call = begun,
        .complete = begun == REQUEST_LOST });
}

/* The first free place. The search is linear in the number of calls in progress, which is small, and happens
 * once for each. */
static int pending_free(const Comm *comm)
{
    int slot = 0;
    while (slot < COMM_PENDING && comm->pending[slot].used) slot++;
    CHECK(slot < COMM_PENDING, "comm %s: more than %d messages of this rank are begun and not waited for",
          comm->name, COMM_PENDING);
    return slot;
}

/* A library of devices may connect ranks at their first call, and wait for them. */
static int give(Comm *comm, const CommCall *call, const DataCall *data)
{
    bool blocks = comm->data->is_complete && data->queue->backend->device;
    int  pair[2] = { comm->ranks[comm->rank], call->peer < 0 ? -1 : comm->ranks[call->peer] };
    if (blocks) heartbeat_enter(comm->heartbeat, comm->name, call->name, data->number,
                                call->peer < 0 ? comm->ranks : pair, call->peer < 0 ? comm->size : 2);
    int begun = comm->data->begin(comm->data, comm->data_group, data);
    if (blocks) heartbeat_leave(comm->heartbeat);
    return begun;
}

Pending comm_begin(Comm *comm, const CommCall *call)
{
    data_abort_stay();
    DataCall data = call->data;
    int  slot = pending_free(comm), begun = REQUEST_LOST;
    long number = data.number = number_next(comm, &data);
    size_t window = call->scratch ? comm_window(comm, call->shown.dtype, call->part) : 0;
    if (window > 0) data.window = tensor_new(call->scratch, "reduction window", U8, (int64_t)window);
    int64_t bytes = count_call(comm, call, &data);
    if (data.verb == DATA_RECV || comm_delivered(comm, call->name, number))
        begun = give(comm, call, &data);
    else if (data.verb == DATA_SEND) return (Pending){ -1 };       /* a network does not tell of a loss */
    comm->pending[slot] = (PendingMessage){ true, begun, data.queue, call->peer, call->name, number,
        record_call(comm, call, number, bytes, begun), thread_context()->trace ? seam.clock() : 0,
        (double)bytes };
    return (Pending){ slot };
}

void comm_wait(Comm *comm, Pending pending)
{
    if (pending.slot < 0) return;
    PendingMessage *message = &comm->pending[pending.slot];
    CHECK(message->used, "comm %s: a message is waited for twice", comm->name);
    Waiting waiting;
    wait_begins(comm, &waiting, message->verb, message->number, message->peer);
    while (message->call == REQUEST_LOST) pause();    /* the watchdog ends the process */
    comm->data->wait(comm->data, message->queue, message->call);
    data_abort_stay();
    wait_ends(comm, &waiting, message->verb, message->bytes);
    recorder_end(comm->recorder, message->recorded);
    if (thread_context()->trace && message->begun)
        trace_add(thread_context()->trace, TRACE_MESSAGE, comm->name, message->verb, message->begun, 0,
                  message->bytes);
    message->used = false;
}

/* What fails in a message, or between the ranks, shows in a poll. */
void comm_waiting(void *comm)
{
    const Comm *c = comm;
    data_abort_stay();
    c->data->poll(c->data, false);
    c->transport->poll(c->transport);
}

void comm_poll(Comm *comm)        { comm->data->poll(comm->data, false); }
void comm_poll_within(void *comm) { ((Comm *)comm)->data->poll(((Comm *)comm)->data, true); }

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
