/* Tensors over a transport that moves bytes of the host. Gathers, all-to-alls and messages are the
 * transport's own; reductions are computed here (comm/host_sum.c), so that they have the same bits on every
 * transport. Calls advance when the rank polls or waits: a wait advances all calls of the rank, because the
 * other ranks may wait for any of them. */
#include "comm/host_data.h"

#include <stdlib.h>
#include <string.h>

/* A call is numbered by its request, or by SUMS + its place in `sum`. */
enum { SUMS = TRANSPORT_REQUESTS };

typedef struct {
    Transport *control;
    bool       dry;
    bool       advancing;                             /* a sum is being computed: its team may poll */
    int        calls;                                 /* begun and not ended */
    int        top;                                   /* sums at this index and above are free */
    HostSum    sum[SUMS_IN_FLIGHT];
    /* Runs sums on the rank's own thread alone, while the rank's team is at work. */
    Queue      own_queue;
    Team      *own_team;
} HostData;

static DataGroup *host_group_open(DataTransport *d, Transport *control, const int *ranks, int count,
                                  int sum_group, const char *name)
{
    DataGroup *g = calloc(1, sizeof *g);
    int rank = 0;
    (void)d, (void)name;
    CHECK(sum_group >= 1 && sum_group <= SUM_GROUP_MAX, "sums in groups of %d ranks; 1 to %d are possible",
          sum_group, SUM_GROUP_MAX);
    while (ranks[rank] != control->rank) rank++;
    if (!g) return NULL;
    *g = (DataGroup){ .control = control, .order = sum_order(count, rank, sum_group) };
    g->group = control->group_open(control, ranks, count);
    if (g->group) return g;
    free(g);
    return NULL;
}

static void host_group_close(DataTransport *d, DataGroup *g)
{
    (void)d;
    g->control->group_close(g->control, g->group);
    free(g);
}

/* Calls of several requests, which advance as state machines. */
static bool is_sum(DataVerb verb)
{
    return verb == DATA_REDUCE_SCATTER || verb == DATA_ALL_REDUCE || verb == DATA_EXCHANGE;
}

static int64_t host_payload(const DataGroup *g, const DataCall *call)
{
    int64_t width = (int64_t)dtype_width(call->verb == DATA_ALL_REDUCE ? call->out.dtype : call->in.dtype);
    int     n = g->order.count, me = g->order.rank;
    switch (call->verb) {
    case DATA_ALL_GATHER: return (n - 1) * tensor_count(call->in) * width;
    case DATA_ALL_TO_ALL:
        return (call->in_at[n] - call->in_at[0] - (call->in_at[me + 1] - call->in_at[me])) * width;
    case DATA_SEND:
    case DATA_EXCHANGE:   return tensor_count(call->in) * width;
    case DATA_RECV:       return 0;
    default:              return host_sum_payload(g, call);
    }
}

/* ---- begin ---- */
static int sum_begin(HostData *host, DataGroup *g, const DataCall *call)
{
    int i = 0;
    while (i < SUMS_IN_FLIGHT && host->sum[i].used) i++;
    CHECK(i < SUMS_IN_FLIGHT, "more than %d reductions are in flight on one rank", SUMS_IN_FLIGHT);
    if (i >= host->top) host->top = i + 1;
    if (host->dry) {
        host_sum_count(g, call);
        host->sum[i] = (HostSum){ .used = true, .done = true };
    } else {
        host_sum_begin(&host->sum[i], g, call);
    }
    return SUMS + i;
}

static int host_begin(DataTransport *d, DataGroup *g, const DataCall *call)
{
    HostData  *host = d->self;
    Transport *t    = g->control;
    Tensor     in   = call->in, out = call->out;
    queue_wait(call->queue);                          /* the queue may still be computing `in` */
    host->calls++;
    if (is_sum(call->verb)) return sum_begin(host, g, call);
    switch (call->verb) {
    case DATA_ALL_GATHER:
        return t->all_gather(t, g->group, out.data, call->out_at, in.data,
                             call->out_at ? dtype_width(in.dtype) : tensor_bytes(in));
    case DATA_ALL_TO_ALL:
        return t->all_to_all(t, g->group, out.data, call->out_at, in.data, call->in_at,
                             dtype_width(in.dtype));
    case DATA_SEND: return t->send(t, g->group, in.data, tensor_bytes(in), call->peer, TAG_DATA);
    default:        return t->recv(t, g->group, out.data, tensor_bytes(out), call->peer, TAG_DATA);
    }
}

/* ---- progress ---- */
static bool advance_all(HostData *host, bool within)
{
    bool moved = false;
    if (host->advancing) return false;
    host->advancing = true;
    for (int i = 0; i < host->top; i++) {
        HostSum *sum = &host->sum[i];
        if (!sum->used || sum->done) continue;
        Queue *queue = sum->call.queue;
        if (within) {                                 /* the back end of the call, one thread */
            host->own_queue = (Queue){ .backend = queue->backend, .kernels = queue->kernels,
                                       .team = host->own_team, .threads = 1 };
            queue = &host->own_queue;
        }
        moved |= host_sum_advance(sum, queue);
    }
    host->advancing = false;
    return moved;
}

static void host_poll(DataTransport *d, bool within)
{
    HostData *host = d->self;
    if (host->calls == 0) return;
    do host->control->poll(host->control);
    while (advance_all(host, within) && !within);
}

static bool host_done(DataTransport *d, int number)
{
    HostData *host = d->self;
    bool done = number < SUMS ? host->control->test(host->control, number) : host->sum[number - SUMS].done;
    host->calls -= done;
    if (!done || number < SUMS) return done;
    host->sum[number - SUMS].used = false;
    while (host->top > 0 && !host->sum[host->top - 1].used) host->top--;
    return true;
}

static void host_idle(DataTransport *d, int number)
{
    HostData *host = d->self;
    int request = number < SUMS ? number : host_sum_awaits(&host->sum[number - SUMS]);
    if (request >= 0) host->control->idle(host->control, request);
}

static void host_wait(DataTransport *d, Queue *queue, int number)
{
    (void)queue;
    for (;;) {
        host_poll(d, false);
        if (host_done(d, number)) return;
        host_idle(d, number);
    }
}

static void host_close(DataTransport *d)
{
    HostData *host = d->self;
    team_close(host->own_team);
    free(host);
    free(d);
}

DataTransport *host_data_open(Transport *control)
{
    DataTransport *d    = calloc(1, sizeof *d);
    HostData      *host = calloc(1, sizeof *host);
    if (!d || !host || team_open(&host->own_team, 1) != OK) {
        free(d);
        free(host);
        return NULL;
    }
    host->control = control;
    host->dry     = control->kind == TRANSPORT_DRY;
    *d = (DataTransport){
        .name = "host", .self = host, .group_open = host_group_open, .group_close = host_group_close,
        .window = host_sum_window, .payload = host_payload, .begin = host_begin, .poll = host_poll,
        .done = host_done, .idle = host_idle, .wait = host_wait, .close = host_close,
    };
    return d;
}
