#include "comm/nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/data_abort.h"
#include "comm/nccl_library.h"
#include "tensor/ops.h"

/* Numbers of calls: those of the host's transport are below ON_DEVICE; others are a place in `call` and a
 * count of its uses, so that a number that the recorder still has is never that of a later call. */
enum { CALLS = 4096, ON_DEVICE = 1 << 30, USES = 1 << 18 };

/* sum: gathered numbers that are added at the wait, into out. issued: its event is recorded; waited: that may
 * still come. */
typedef struct {
    bool       used, issued, waited;
    int        uses;
    QueueEvent done;
    Queue     *queue;
    Tensor     out, sum;
} NcclCall;

struct DataGroup {
    DataTransport *transport;                         /* the host's, and its group */
    DataGroup  *host, *next;
    NcclComm   *comm;
    const char *name;
    int         rank, count, world_rank;
    Queue       lane;
    QueueEvent  ready;                                /* of the queue at a begin */
};

typedef struct {
    Nccl           nccl;
    DataTransport *host;
    int            device;
    bool           dry;
    atomic_bool    aborted;
    pthread_mutex_t lock;                             /* of what the watchdog's thread reads: groups, call */
    DataGroup     *groups;
    int            turn;                              /* the place where a free one is looked for */
    NcclCall       call[CALLS];
} NcclData;

/* ---- failures ---- */

static const char *cure(int result)
{
    switch (result) {
    case NCCL_DEVICE_ERROR:   return "a GPU failed or has no memory left; nvidia-smi and dmesg tell which";
    case NCCL_SYSTEM_ERROR:   return "a socket or shared memory was refused; look at /dev/shm and set "
                                     "NCCL_SOCKET_IFNAME to the network of the hosts";
    case NCCL_BAD_ARGUMENT:
    case NCCL_BAD_USAGE:      return "all ranks need the same library and a GPU of their own; "
                                     "--device-transport staged lets ranks share one";
    case NCCL_REMOTE_ERROR:   return "another rank ended or the network between them failed; its own message "
                                     "tells more";
    default:                  return "NCCL_DEBUG=WARN in the environment shows NCCL's own messages";
    }
}

/* While the job is aborted, ranks that are threads fail everywhere: only the first one's message counts. A
 * rank that knows of another one's failure leaves it the time to report that. */
enum { OTHERS_FIRST_US = 500000 };

static void nccl_check(NcclData *n, DataGroup *g, int result, const char *what)
{
    if (result == NCCL_OK || result == NCCL_IN_PROGRESS) return;
    if (result == NCCL_REMOTE_ERROR) usleep(OTHERS_FIRST_US);
    if (data_aborting()) for (;;) pause();
    const char *more = n->nccl.GetLastError(g->comm);
    stop_world(__FILE__, __LINE__, "%s: %s of communicator %s failed on rank %d of %d (rank %d of the "
               "world): %s%s%s; %s", n->nccl.name, what, g->name, g->rank, g->count, g->world_rank,
               n->nccl.GetErrorString(result), more && *more ? ": " : "", more ? more : "", cure(result));
}

/* Faults of the network or of another rank show only here; the kernels then never end. The report is made
 * without the lock, since it aborts all groups, and waits for the reports of others. */
static void check_groups(NcclData *n)
{
    DataGroup failed = { 0 };
    int error = NCCL_OK;
    pthread_mutex_lock(&n->lock);
    for (DataGroup *g = n->groups; g && !n->aborted && error == NCCL_OK; g = g->next) {
        if (n->nccl.CommGetAsyncError(g->comm, &error) != NCCL_OK || error == NCCL_IN_PROGRESS)
            error = NCCL_OK;
        failed = *g;
    }
    pthread_mutex_unlock(&n->lock);
    if (error != NCCL_OK) nccl_check(n, &failed, error, "a message");
}

/* ---- groups ---- */

/* The identity of the new communicator, which its rank 0 makes, on all its ranks. */
static NcclId id_of_group(NcclData *n, DataGroup *g, Transport *control, const int *ranks)
{
    NcclId mine = { "" }, *all = malloc((size_t)g->count * sizeof *all);
    Group *group = control->group_open(control, ranks, g->count);
    CHECK(all && group, "no memory for communicator %s of %d ranks", g->name, g->count);
    if (g->rank == 0) nccl_check(n, g, n->nccl.GetUniqueId(&mine), "ncclGetUniqueId");
    int request = control->all_gather(control, group, all, NULL, &mine, sizeof mine);
    for (control->poll(control); !control->test(control, request); control->poll(control))
        control->idle(control, request);
    control->group_close(control, group);
    mine = all[0];
    free(all);
    return mine;
}

/* NCCL connects two ranks at their first message, for which the host of each waits for the other one's call.
 * In the first step of a pipeline each neighbour would wait for a message that the other one sends later, so
 * pairs are connected when they are opened. In larger groups all ranks make a call at once. */
static void pair_connect(NcclData *n, DataGroup *g)
{
    if (g->count != 2) return;
    const ArenaMemory *memory = g->lane.memory;
    char *byte = memory->take(memory->context, 2);
    CHECK(byte, "%s has no memory left to connect the ranks of %s; nvidia-smi shows which programs hold it",
          memory->where, g->name);
    nccl_check(n, g, n->nccl.GroupStart(), "connecting");
    void *stream = queue_stream(&g->lane);
    nccl_check(n, g, n->nccl.Send(byte, 1, NCCL_U8, 1 - g->rank, g->comm, stream), "connecting");
    nccl_check(n, g, n->nccl.Recv(byte + 1, 1, NCCL_U8, 1 - g->rank, g->comm, stream), "connecting");
    nccl_check(n, g, n->nccl.GroupEnd(), "connecting");
    queue_wait(&g->lane);
    memory->give(memory->context, byte);
}

static void communicator_open(NcclData *n, DataGroup *g, Transport *control, const int *ranks)
{
    NcclConfig config = { sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 1, NCCL_UNSET, NCCL_UNSET,
                          NCCL_BLOCKS, NULL, NCCL_UNSET };
    Status status = queue_lane_open(&g->lane, n->device);
    CHECK(status == OK, "%s", fail_text());
    queue_event_open(&g->ready, &g->lane);
    NcclId id = id_of_group(n, g, control, ranks);
    nccl_check(n, g, n->nccl.CommInitRankConfig(&g->comm, g->count, id, g->rank, &config),
               "ncclCommInitRankConfig");
    pair_connect(n, g);
}

static DataGroup *nccl_group_open(DataTransport *d, Transport *control, const int *ranks, int count,
                                  int sum_group, const char *name)
{
    NcclData  *n = d->self;
    DataGroup *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    *g = (DataGroup){ .transport = n->host, .name = name, .count = count, .world_rank = control->rank };
    while (ranks[g->rank] != control->rank) g->rank++;
    g->host = n->host->group_open(n->host, control, ranks, count, sum_group, name);
    if (!g->host) return free(g), NULL;
    if (n->dry) return g;
    communicator_open(n, g, control, ranks);
    pthread_mutex_lock(&n->lock);
    g->next   = n->groups;
    n->groups = g;
    pthread_mutex_unlock(&n->lock);
    return g;
}

static void nccl_group_close(DataTransport *d, DataGroup *g)
{
    NcclData *n = d->self;
    n->host->group_close(n->host, g->host);
    if (!n->dry) {
        queue_wait(&g->lane);
        pthread_mutex_lock(&n->lock);
        for (DataGroup **at = &n->groups; *at; at = &(*at)->next)
            if (*at == g) { *at = g->next; break; }
        pthread_mutex_unlock(&n->lock);
        nccl_check(n, g, n->nccl.CommFinalize(g->comm), "ncclCommFinalize");
        nccl_check(n, g, n->nccl.CommDestroy(g->comm), "ncclCommDestroy");
        queue_event_close(&g->ready);
        queue_close(&g->lane);
    }
    free(g);
}

/* ---- what a call takes and sends ---- */

/* Of F64 sums, for the numbers of all ranks as far as they are few; and what the host needs, which has no
 * other reductions. */
static size_t nccl_window(const DataGroup *g, Dtype dtype, int64_t part)
{
    if (dtype != F64) return 0;
    int64_t mine = part * g->count * g->count * (int64_t)sizeof(double);
    size_t  most = (size_t)(mine < SUM_WINDOW ? mine : SUM_WINDOW);
    size_t  host = g->transport->window(g->host, dtype, part);
    return most > host ? most : host;
}

static bool adds_in_order(const DataGroup *g, const DataCall *call)
{
    return call->verb == DATA_ALL_REDUCE && call->reduction == REDUCE_SUM && call->out.dtype == F64 &&
           (size_t)g->count * tensor_bytes(call->out) <= tensor_bytes(call->window);
}

static int64_t nccl_payload(const DataGroup *g, const DataCall *call)
{
    int n = g->count, me = g->rank;
    int64_t all = (int64_t)tensor_bytes(call->verb == DATA_ALL_REDUCE ? call->out : call->in);
    int64_t width = (int64_t)dtype_width(call->in.dtype);
    switch (call->verb) {
    case DATA_ALL_GATHER:     return (n - 1) * all;
    case DATA_REDUCE_SCATTER: return all - (int64_t)tensor_bytes(call->out);
    case DATA_ALL_REDUCE:     return adds_in_order(g, call) ? (n - 1) * all : 2 * (n - 1) * all / n;
    case DATA_ALL_TO_ALL:
        return (call->in_at[n] - call->in_at[0] - (call->in_at[me + 1] - call->in_at[me])) * width;
    case DATA_RECV:           return 0;
    default:                  return all;
    }
}

/* ---- calls ---- */

static int reduced_type(Dtype dtype)
{
    switch (dtype) {
    case F64:  return NCCL_F64;
    case F32:  return NCCL_F32;
    case BF16: return NCCL_BF16;
    case F16:  return NCCL_F16;
    default:   stop_world(__FILE__, __LINE__, "NCCL does not add numbers of type %s", dtype_name(dtype));
    }
}

static int reduced_by(const DataCall *call) { return call->reduction == REDUCE_MAX ? NCCL_MAX : NCCL_SUM; }

/* The offsets are those of equal parts. */
static bool is_equal(const DataGroup *g, const int64_t *at)
{
    for (int r = 0; at && r < g->count; r++)
        if (at[r + 1] - at[r] != at[1] - at[0]) return false;
    return true;
}

static char *element_of(Tensor x, int64_t i) { return (char *)x.data + i * (int64_t)dtype_width(x.dtype); }

/* What adds nothing moves bytes, of any type. Calls of no bytes are left out on both sides. */
static int send(NcclData *n, DataGroup *g, Tensor x, int64_t first, int64_t count, int to)
{
    size_t bytes = (size_t)count * dtype_width(x.dtype);
    return !bytes ? NCCL_OK
                  : n->nccl.Send(element_of(x, first), bytes, NCCL_U8, to, g->comm, queue_stream(&g->lane));
}

static int receive(NcclData *n, DataGroup *g, Tensor x, int64_t first, int64_t count, int from)
{
    size_t bytes = (size_t)count * dtype_width(x.dtype);
    return !bytes ? NCCL_OK
                  : n->nccl.Recv(element_of(x, first), bytes, NCCL_U8, from, g->comm, queue_stream(&g->lane));
}

/* Rank r's part comes from rank r. */
static int gather_parts(NcclData *n, DataGroup *g, const DataCall *c)
{
    int error = NCCL_OK;
    for (int r = 0; r < g->count && error == NCCL_OK; r++) {
        size_t bytes = (size_t)(c->out_at[r + 1] - c->out_at[r]) * dtype_width(c->out.dtype);
        if (bytes > 0)
            error = n->nccl.Broadcast(c->in.data, element_of(c->out, c->out_at[r]), bytes, NCCL_U8, r,
                                      g->comm, queue_stream(&g->lane));
    }
    return error;
}

/* Rank r gets the sum of rank r's part. */
static int reduce_parts(NcclData *n, DataGroup *g, const DataCall *c)
{
    int error = NCCL_OK;
    for (int r = 0; r < g->count && error == NCCL_OK; r++) {
        size_t count = (size_t)(c->out_at[r + 1] - c->out_at[r]);
        if (count > 0)
            error = n->nccl.Reduce(element_of(c->in, c->out_at[r]), r == g->rank ? c->out.data : NULL, count,
                                   reduced_type(c->in.dtype), reduced_by(c), r, g->comm,
                                   queue_stream(&g->lane));
    }
    return error;
}

static int all_to_all(NcclData *n, DataGroup *g, const DataCall *c)
{
    int error = NCCL_OK;
    for (int r = 0; r < g->count && error == NCCL_OK; r++) {
        error = send(n, g, c->in, c->in_at[r], c->in_at[r + 1] - c->in_at[r], r);
        if (error == NCCL_OK) error = receive(n, g, c->out, c->out_at[r], c->out_at[r + 1] - c->out_at[r], r);
    }
    return error;
}

static int exchange(NcclData *n, DataGroup *g, const DataCall *c)
{
    int error = send(n, g, c->in, 0, tensor_count(c->in), c->peer);
    return error == NCCL_OK ? receive(n, g, c->out, 0, tensor_count(c->out), c->from) : error;
}

static int issue_one(NcclData *n, DataGroup *g, const DataCall *c)
{
    void *stream = queue_stream(&g->lane);
    const Nccl *nccl = &n->nccl;
    switch (c->verb) {
    case DATA_ALL_GATHER:
        if (!is_equal(g, c->out_at)) return gather_parts(n, g, c);
        return nccl->AllGather(c->in.data, c->out.data, tensor_bytes(c->in), NCCL_U8, g->comm, stream);
    case DATA_REDUCE_SCATTER:
        if (!is_equal(g, c->out_at)) return reduce_parts(n, g, c);
        return nccl->ReduceScatter(c->in.data, c->out.data, (size_t)tensor_count(c->out),
                                   reduced_type(c->in.dtype), reduced_by(c), g->comm, stream);
    case DATA_ALL_REDUCE:
        if (adds_in_order(g, c))
            return nccl->AllGather(c->out.data, c->window.data, tensor_bytes(c->out), NCCL_U8, g->comm,
                                   stream);
        return nccl->AllReduce(c->out.data, c->out.data, (size_t)tensor_count(c->out),
                               reduced_type(c->out.dtype), reduced_by(c), g->comm, stream);
    case DATA_ALL_TO_ALL: return all_to_all(n, g, c);
    case DATA_SEND:       return send(n, g, c->in, 0, tensor_count(c->in), c->peer);
    case DATA_RECV:       return receive(n, g, c->out, 0, tensor_count(c->out), c->peer);
    case DATA_EXCHANGE:   return exchange(n, g, c);
    }
    return NCCL_INTERNAL_ERROR;
}

/* One group, of which NCCL makes one kernel: its parts do not wait for each other. */
static void issue(NcclData *n, DataGroup *g, const DataCall *c)
{
    static const char *const name[] = { "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send",
                                        "receive", "exchange" };
    nccl_check(n, g, n->nccl.GroupStart(), name[c->verb]);
    nccl_check(n, g, issue_one(n, g, c), name[c->verb]);
    nccl_check(n, g, n->nccl.GroupEnd(), name[c->verb]);
}

/* A free place: never used, or its call has passed. Where all are taken the device is that far behind, and
 * the host waits for it. */
static NcclCall *call_take(NcclData *n, DataGroup *g, const DataCall *call)
{
    for (int tried = 1; ; tried++) {
        NcclCall *c = &n->call[n->turn = (n->turn + 1) % CALLS];
        if (!c->used || (c->waited && queue_event_passed(&c->done))) break;
        if (tried % CALLS == 0) check_groups(n), usleep(50);
    }
    NcclCall *c = &n->call[n->turn];
    pthread_mutex_lock(&n->lock);
    if (!c->done.device) queue_event_open(&c->done, &g->lane);
    *c = (NcclCall){ .used = true, .uses = (c->uses + 1) % USES, .done = c->done, .queue = call->queue };
    pthread_mutex_unlock(&n->lock);
    return c;
}

/* NCCL may block in a call, so the lock is not held meanwhile. */
static void set_under_lock(NcclData *n, bool *flag)
{
    pthread_mutex_lock(&n->lock);
    *flag = true;
    pthread_mutex_unlock(&n->lock);
}

static int nccl_begin(DataTransport *d, DataGroup *g, const DataCall *call)
{
    NcclData *n = d->self;
    if (n->dry && call->queue->backend->device) return 0;
    if (!call->queue->backend->device) {
        bool adds = call->verb == DATA_REDUCE_SCATTER || call->verb == DATA_ALL_REDUCE;
        CHECK(!adds || call->out.dtype == F64, "%s of %s on the host, which has no window for it",
              dtype_name(call->out.dtype), g->name);
        return n->host->begin(n->host, g->host, call);
    }
    NcclCall *c = call_take(n, g, call);
    if (adds_in_order(g, call)) {
        c->out = call->out;
        c->sum = tensor_at(call->window.data, F64, (int64_t[]){ g->count, tensor_count(call->out) }, 2);
    }
    queue_event_record(&g->ready, call->queue);
    queue_follow(&g->lane, &g->ready);
    issue(n, g, call);
    queue_event_record(&c->done, &g->lane);
    set_under_lock(n, &c->issued);
    return ON_DEVICE | c->uses << 12 | (int)(c - n->call);
}

static NcclCall *call_of(NcclData *n, int number) { return &n->call[number % CALLS]; }

static void call_end(NcclData *n, int number)
{
    NcclCall *c = call_of(n, number);
    queue_follow(c->queue, &c->done);
    if (tensor_present(c->sum))
        sums_total(c->queue, (SumsTotal){ .total_S = tensor_flat(c->out, 0, tensor_count(c->out)),
                                          .sums_RS = c->sum });
    set_under_lock(n, &c->waited);
}

static bool on_device(int number) { return number >= ON_DEVICE; }

static bool nccl_is_complete(void *transport, int number)
{
    NcclData *n = ((DataTransport *)transport)->self;
    if (!on_device(number)) return true;              /* the heartbeat shows it while it is waited for */
    check_groups(n);
    pthread_mutex_lock(&n->lock);
    const NcclCall c = *call_of(n, number);
    pthread_mutex_unlock(&n->lock);
    /* without the lock, which an abort takes: a device that has failed stops the job in this question */
    return c.uses != (number >> 12 & (USES - 1)) || (c.issued && queue_event_passed(&c.done));
}

static bool nccl_done(DataTransport *d, int number)
{
    NcclData *n = d->self;
    if (n->dry) return true;
    if (!on_device(number)) return n->host->done(n->host, number);
    if (!nccl_is_complete(d, number)) return false;
    call_end(n, number);
    return true;
}

static void nccl_wait(DataTransport *d, Queue *queue, int number)
{
    NcclData *n = d->self;
    if (on_device(number)) call_end(n, number);
    else if (!n->dry || !queue->backend->device) n->host->wait(n->host, queue, number);
}

static void nccl_poll(DataTransport *d, bool within)
{
    NcclData *n = d->self;
    n->host->poll(n->host, within);
    if (!n->dry) check_groups(n);
}

static void nccl_idle(DataTransport *d, int number)
{
    NcclData *n = d->self;
    if (on_device(number)) usleep(50);
    else n->host->idle(n->host, number);
}

/* ---- opening ---- */

/* The kernels of all groups end with an error. Called by any thread, once. */
static void nccl_abort(DataTransport *d)
{
    NcclData *n = d->self;
    n->aborted = true;
    pthread_mutex_lock(&n->lock);
    for (DataGroup *g = n->groups; g; g = g->next) n->nccl.CommAbort(g->comm);
    pthread_mutex_unlock(&n->lock);
}

static void nccl_data_close(DataTransport *d)
{
    NcclData *n = d->self;
    data_abort_leave(d);
    for (int i = 0; i < CALLS; i++)
        if (n->call[i].done.device) queue_event_close(&n->call[i].done);
    n->host->close(n->host);
    nccl_close(&n->nccl);
    pthread_mutex_destroy(&n->lock);
    free(n);
    free(d);
}

static Status data_make(DataTransport **data, Transport *control, bool dry)
{
    DataTransport *d = calloc(1, sizeof *d), *host = host_data_open(control);
    NcclData      *n = calloc(1, sizeof *n);
    *data = d;
    if (!d || !n || !host) {
        if (host) host->close(host);
        free(n);
        free(d);
        *data = NULL;
        return fail(NO_MEMORY, "no memory for messages between devices");
    }
    n->host = host;
    n->dry  = dry;
    pthread_mutex_init(&n->lock, NULL);
    *d = (DataTransport){
        .name = "nccl", .self = n, .adds = true,
        .group_open = nccl_group_open, .group_close = nccl_group_close,
        .window = nccl_window, .payload = nccl_payload, .begin = nccl_begin, .poll = nccl_poll,
        .done = nccl_done, .idle = nccl_idle, .wait = nccl_wait, .close = nccl_data_close,
        .is_complete = dry ? NULL : nccl_is_complete, .abort = dry ? NULL : nccl_abort,
    };
    return OK;
}

Status nccl_data_open(DataTransport **data, Transport *control, int device)
{
    TRY(data_make(data, control, false));
    NcclData *n = (*data)->self;
    n->device = device;
    data_abort_join(*data);
    Status status = nccl_open(&n->nccl);
    if (status == OK) return OK;
    (*data)->close(*data);
    *data = NULL;
    return status;
}

DataTransport *nccl_dry_open(Transport *control)
{
    DataTransport *data;
    return data_make(&data, control, true) == OK ? data : NULL;
}

const char *nccl_version_text(char text[24], int version)
{
    snprintf(text, 24, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return text;
}
