#include "comm/staged.h"

#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "tensor/ops.h"

/* BUSY: of a call; LEAVING: its copy to the device may not be done, which it is when the queue has been
 * waited for. */
typedef enum { FREE, BUSY, LEAVING } BufferState;
typedef struct { char *memory; size_t bytes; BufferState state; Queue *queue; } PinnedBuffer;
enum { OUT, IN, WINDOW, PARTS, NONE = -1 };
typedef struct { bool used; Queue *queue; Tensor out; int buffer[PARTS]; } Call;

typedef struct {
    DataTransport *host;
    Queue   queue;                                    /* of sums, on the CPU */
    PinnedBuffer *buffer;
    Call   *call;                                     /* by the host transport's number */
    int     buffers, buffer_room, calls, call_room;
} Staged;

/* ---- pinned memory ---- */

/* The smallest free one that is large enough, or a new one. In the second step there are as many as a step
 * needs. */
static int buffer_take(Staged *s, Queue *q, size_t bytes)
{
    int best = NONE;
    for (int i = 0; i < s->buffers; i++) {
        const PinnedBuffer *k = &s->buffer[i];
        if (k->state == FREE && k->queue == q && k->bytes >= bytes &&
            (best == NONE || k->bytes < s->buffer[best].bytes)) best = i;
    }
    if (best == NONE) {
        ARRAY_RESERVE_OR_STOP(s->buffer, s->buffer_room, s->buffers + 1);
        best = s->buffers++;
        s->buffer[best] = (PinnedBuffer){ .memory = queue_host_alloc(q, bytes), .bytes = bytes, .queue = q };
        CHECK(s->buffer[best].memory, "no pinned memory of the host for a message of %zu bytes; fewer ranks "
              "on this host or a smaller --micro-batch-size need less", bytes);
    }
    s->buffer[best].state = BUSY;
    return best;
}

/* After queue_wait. */
static void buffers_left(Staged *s, const Queue *q)
{
    for (int i = 0; i < s->buffers; i++)
        if (s->buffer[i].queue == q && s->buffer[i].state == LEAVING) s->buffer[i].state = FREE;
}

/* A tensor's twin in pinned memory, and where that is. */
static Tensor twin_of(Staged *s, Queue *q, Tensor x, int *pinned)
{
    *pinned = NONE;
    if (!tensor_present(x) || tensor_bytes(x) == 0) return x;
    *pinned  = buffer_take(s, q, tensor_bytes(x));
    x.data = s->buffer[*pinned].memory;
    return x;
}

/* ---- calls ---- */

/* Offsets of an all-to-all may leave parts of `out` as they are. */
static bool reads_out(const DataCall *c) { return c->verb == DATA_ALL_REDUCE || c->verb == DATA_ALL_TO_ALL; }

static int staged_begin(DataTransport *d, DataGroup *g, const DataCall *call)
{
    Staged  *s = d->self;
    Queue   *q = call->queue;
    DataCall on_host = *call;
    Call     kept = { .used = true, .queue = q, .out = call->out, .buffer = { NONE, NONE, NONE } };
    if (!q->backend->device) return s->host->begin(s->host, g, call);
    on_host.queue = &s->queue;
    if (q->backend->dry) return s->host->begin(s->host, g, &on_host);
    on_host.out    = twin_of(s, q, call->out, &kept.buffer[OUT]);
    on_host.in     = twin_of(s, q, call->in, &kept.buffer[IN]);
    on_host.window = twin_of(s, q, call->window, &kept.buffer[WINDOW]);
    bool in = kept.buffer[IN] != NONE, out = reads_out(call) && kept.buffer[OUT] != NONE;
    if (in)  queue_read_begin(q, on_host.in.data, call->in.data, tensor_bytes(call->in));
    if (out) queue_read_begin(q, on_host.out.data, call->out.data, tensor_bytes(call->out));
    if (in || out) {
        queue_wait(q);
        buffers_left(s, q);
    }
    int number = s->host->begin(s->host, g, &on_host);
    if (number >= s->calls) {
        ARRAY_RESERVE_OR_STOP(s->call, s->call_room, number + 1);
        memset(s->call + s->calls, 0, (size_t)(number + 1 - s->calls) * sizeof *s->call);
        s->calls = number + 1;
    }
    s->call[number] = kept;
    return number;
}

/* What came is put on the queue, behind what that was given so far. */
static void arrived(Staged *s, int number)
{
    Call *c = number < s->calls ? &s->call[number] : NULL;
    if (!c || !c->used) return;
    int out = c->buffer[OUT];
    if (out != NONE) {
        queue_write_begin(c->queue, c->out.data, s->buffer[out].memory, tensor_bytes(c->out));
        s->buffer[out].state = LEAVING;
    }
    for (int i = IN; i < PARTS; i++)
        if (c->buffer[i] != NONE) s->buffer[c->buffer[i]].state = FREE;
    c->used = false;
}

static bool staged_done(DataTransport *d, int number)
{
    Staged *s = d->self;
    if (!s->host->done(s->host, number)) return false;
    arrived(s, number);
    return true;
}

static void staged_wait(DataTransport *d, Queue *queue, int number)
{
    Staged *s = d->self;
    s->host->wait(s->host, queue, number);
    arrived(s, number);
}

/* ---- what the host's transport does unchanged ---- */

static DataGroup *staged_group_open(DataTransport *d, Transport *control, const int *ranks, int count,
                                    int sum_group, const char *name)
{
    Staged *s = d->self;
    return s->host->group_open(s->host, control, ranks, count, sum_group, name);
}

static void staged_group_close(DataTransport *d, DataGroup *g)
{
    Staged *s = d->self;
    s->host->group_close(s->host, g);
}

static void staged_poll(DataTransport *d, bool within)
{
    Staged *s = d->self;
    s->host->poll(s->host, within);
}

static void staged_idle(DataTransport *d, int number)
{
    Staged *s = d->self;
    s->host->idle(s->host, number);
}

/* ---- opening ---- */

static void staged_close(DataTransport *d)
{
    Staged *s = d->self;
    for (int i = 0; i < s->buffers; i++) queue_host_free(s->buffer[i].queue, s->buffer[i].memory);
    s->host->close(s->host);
    queue_close(&s->queue);
    free(s->buffer);
    free(s->call);
    free(s);
    free(d);
}

DataTransport *staged_data_open(Transport *control, int threads)
{
    bool dry = control->kind == TRANSPORT_DRY;
    DataTransport *d = calloc(1, sizeof *d), *host = host_data_open(control);
    Staged *s = calloc(1, sizeof *s);
    if (!d || !host || !s || queue_open(&s->queue, dry ? "dry-cpu" : "cpu", threads, NULL) != OK) {
        if (host) host->close(host);
        free(d);
        free(s);
        return NULL;
    }
    s->host = host;
    *d = (DataTransport){
        .name = "staged", .self = s, .group_open = staged_group_open, .group_close = staged_group_close,
        .window = host->window, .payload = host->payload, .begin = staged_begin, .poll = staged_poll,
        .done = staged_done, .idle = staged_idle, .wait = staged_wait, .close = staged_close,
    };
    return d;
}
