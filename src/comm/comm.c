#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/seam.h"
#include "comm/start.h"

/* ---- opening ---- */
static Status comm_make(Comm **out, Transport *transport, const char *name, const int *ranks, int count)
{
    size_t n = (size_t)count;
    Comm *comm = calloc(1, sizeof *comm);
    *out = comm;
    if (comm) {
        comm->ranks         = calloc(n, sizeof *comm->ranks);
        comm->sent_to       = calloc(n, sizeof *comm->sent_to);
        comm->received_from = calloc(n, sizeof *comm->received_from);
        comm->in_at         = calloc(n + 1, sizeof *comm->in_at);
        comm->out_at        = calloc(n + 1, sizeof *comm->out_at);
        comm->word          = calloc(n, sizeof *comm->word);
    }
    if (!comm || !comm->ranks || !comm->sent_to || !comm->received_from || !comm->in_at || !comm->out_at ||
        !comm->word)
        return fail(NO_MEMORY, "no memory for comm %s of %d ranks", name, count);

    comm->transport = transport;
    comm->size      = count;
    comm->rank      = -1;
    comm->dry       = strcmp(transport->name, "dry") == 0;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    for (int r = 0; r < count; r++) {
        CHECK(r == 0 || ranks[r] > ranks[r - 1], "comm %s: ranks must ascend", name);
        comm->ranks[r] = ranks[r];
        if (ranks[r] == transport->rank) comm->rank = r;
    }
    CHECK(comm->rank >= 0, "comm %s: rank %d opens it and is not in it", name, transport->rank);
    return OK;
}

static Status comm_join(Comm *comm)
{
    if (comm->size == 1) return OK;
    heartbeat_enter(comm->heartbeat, comm->name, "opening", 0, comm->ranks, comm->size);
    comm->group = comm->transport->group_open(comm->transport, comm->ranks, comm->size);
    heartbeat_leave(comm->heartbeat);
    return comm->group ? OK : fail(NO_MEMORY, "no memory for a group of %d ranks (%s)", comm->size,
                                   comm->name);
}

Status comm_world(Comm **world, Transport *transport)
{
    int *ranks = malloc((size_t)transport->size * sizeof *ranks);
    if (!ranks) return fail(NO_MEMORY, "no memory for %d ranks", transport->size);
    for (int r = 0; r < transport->size; r++) ranks[r] = r;
    Status status = comm_make(world, transport, "world", ranks, transport->size);
    free(ranks);
    TRY(status);
    (*world)->world = true;
    if (!(*world)->dry) thread_context()->rank = transport->rank;
    TRY(heartbeat_open(&(*world)->heartbeat));
    if (!(*world)->dry) start_begin("the meeting of all ranks");     /* watchdog_open ends it */
    return comm_join(*world);
}

Status comm_open(Comm **comm, Comm *world, const char *name, const int *ranks, int count)
{
    TRY(comm_make(comm, world->transport, name, ranks, count));
    (*comm)->heartbeat = world->heartbeat;
    return comm_join(*comm);
}

Status comm_open_axes(Comm **comm, Comm *world, const Mesh *mesh, int axes)
{
    static const struct { int axis; const char *name; } axis[] = {
        { AXIS_TP, "tp" }, { AXIS_DP, "dp" }, { AXIS_CP, "cp" }, { AXIS_PP, "pp" } };
    char name[HEARTBEAT_NAME] = "";
    for (int i = 0; i < 4; i++)
        if (axes & axis[i].axis)
            snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", *name ? "+" : "", axis[i].name);
    int *ranks = malloc((size_t)mesh->world * sizeof *ranks);
    if (!ranks) return fail(NO_MEMORY, "no memory for %d ranks", mesh->world);
    Status status = comm_open(comm, world, name, ranks, mesh_group(mesh, axes, ranks));
    free(ranks);
    return status;
}

void comm_close(Comm *comm)
{
    if (!comm) return;
    if (comm->group) comm->transport->group_close(comm->transport, comm->group);
    if (comm->world) heartbeat_close(comm->heartbeat);
    free(comm->ranks);
    free(comm->sent_to);
    free(comm->received_from);
    free(comm->in_at);
    free(comm->out_at);
    free(comm->word);
    free(comm);
}

int  comm_rank(const Comm *comm)                 { return comm->rank; }
int  comm_size(const Comm *comm)                 { return comm->size; }
bool comm_dry (const Comm *comm)                 { return comm->dry; }
int  comm_world_rank(const Comm *comm, int rank) { return comm->ranks[rank]; }

/* ---- giving a message to the transport, and waiting for it ---- */
bool comm_delivered(Comm *comm, const char *verb, long number)
{
    if (comm->dry) return true;
    seam_point("collective");
    return seam.deliver(comm->transport->rank, verb, number);
}

void comm_finish(Comm *comm, int request, const char *verb, long number, int peer)
{
    int pair[2] = { comm->ranks[comm->rank], peer < 0 ? -1 : comm->ranks[peer] };
    heartbeat_enter(comm->heartbeat, comm->name, verb, number, peer < 0 ? comm->ranks : pair,
                peer < 0 ? comm->size : 2);
    const char *outer = thread_context()->op;
    thread_context()->op = verb;
    while (request == REQUEST_LOST) pause();
    comm->transport->wait(comm->transport, request);
    thread_context()->op = outer;
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

static Pending comm_pend(Comm *comm, int request, const char *verb, long number, int peer)
{
    for (int slot = 0; slot < COMM_PENDING; slot++)
        if (!comm->waiting[slot].used) {
            comm->waiting[slot] = (Waiting){ true, request, peer, verb, number };
            return (Pending){ slot };
        }
    stop_world(__FILE__, __LINE__, "comm %s: more than %d messages begun and not waited for", comm->name,
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
            copy_strided(q, (CopyStrided){ .y = tensor_view(out, tensor_count(in)), .x = tensor_view(in, tensor_count(in)) });
        return (Pending){ -1 };
    }
    const char *verb = sent_verb_name(SENT_ALL_GATHER);
    size_t bytes     = tensor_bytes(in);
    long   number    = comm->number++;
    int    request   = REQUEST_LOST;
    comm_record(comm, SENT_ALL_GATHER, (comm->size - 1) * (int64_t)bytes, in);
    queue_wait(q);
    if (comm_delivered(comm, verb, number))
        request = comm->transport->all_gather(comm->transport, comm->group, out.data, in.data, bytes);
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
        return (Pending){ -1 };                       /* gone on its way: the sender sees nothing */
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
    Waiting *w = &comm->waiting[pending.slot];
    CHECK(w->used, "comm %s: a message is waited for twice", comm->name);
    comm_finish(comm, w->request, w->verb, w->number, w->peer);
    w->used = false;
}

void comm_poll(Comm *comm)
{
    comm->transport->poll(comm->transport);
}

/* ---- what was sent ---- */
const char *comm_name(const Comm *comm)
{
    return comm->name;
}

const char *sent_verb_name(SentVerb verb)
{
    static const char *const name[SENT_VERBS] = { "all-gather", "reduce-scatter", "all-reduce", "send" };
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
    if (!comm->line) return;
    int last = 3;
    while (last > 0 && x.dim[last] == 1) last--;
    char text[192];
    int at = snprintf(text, sizeof text, "%s %s %s ", comm->name, sent_verb_name(verb), dtype_name(x.dtype));
    for (int i = 0; i <= last; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? "x" : "", (long long)x.dim[i]);
    comm->line(comm->line_context, text);
}
