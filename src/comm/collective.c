/* The verbs of a Comm: what may be asked of them, and the calls that they are for the data transport. The
 * bytes that leave a rank are those of the best algorithms, S being the bytes of the tensor and n the
 * ranks:
 *
 *   all-gather      out = in of rank 0, of rank 1, ...                     (n - 1) times its part
 *   all-to-all      rank r's part of in to rank r                          S less its own part
 *   reduce-scatter  the sum of rank r's part to rank r                     S less its own part: (n - 1) / n S
 *   all-reduce      reduce-scatter, then all-gather of the sums            2 (n - 1) / n S */
#include "comm/comm_internal.h"
#include "comm/sum_order.h"
#include "tensor/ops.h"

static void contiguous_check(const Comm *comm, const char *verb, Tensor x)
{
    CHECK(tensor_contiguous(x), "%s of %s: the tensor must be contiguous", verb, comm->name);
}

/* A call of all members, of which `verb` is counted and traced with the shape of `shown`. */
static Pending collective_begin(Comm *comm, SentVerb verb, DataCall call, Tensor shown)
{
    return comm_begin(comm, &(CommCall){ .data = call, .counted = verb, .name = sent_verb_name(verb),
                                         .peer = -1, .shown = shown });
}

/* The same of a reduction, whose largest part has `part` elements. */
static Pending reduction_begin(Comm *comm, SentVerb verb, DataCall call, Tensor shown, Arena *scratch,
                               int64_t part)
{
    return comm_begin(comm, &(CommCall){ .data = call, .counted = verb, .name = sent_verb_name(verb),
                                         .peer = -1, .shown = shown, .scratch = scratch, .part = part });
}

/* The boundaries ascend from 0 to `whole`, and this rank's part is `own`; NULL: all parts are `own`. */
static void boundaries_check(const Comm *comm, const char *verb, const int64_t *begin, int64_t whole,
                             int64_t own)
{
    int64_t mine = begin ? begin[comm->rank + 1] - begin[comm->rank] : whole / comm->size;
    int64_t end  = begin ? begin[comm->size] - begin[0] : comm->size * own;
    CHECK(mine == own && end == whole && (!begin || begin[0] == 0),
          "%s of %s: this rank's part counts %lld, not %lld, or the parts of %d ranks are %lld, not %lld",
          verb, comm->name, (long long)own, (long long)mine, comm->size, (long long)end, (long long)whole);
}

/* ---- all-gather ---- */
Pending comm_all_gather_parts_begin(Comm *comm, Queue *q, Tensor out, const int64_t *begin, Tensor in)
{
    const char *verb = sent_verb_name(SENT_ALL_GATHER);
    contiguous_check(comm, verb, out);
    contiguous_check(comm, verb, in);
    CHECK(out.dtype == in.dtype, "all-gather of %s: %s into %s", comm->name, dtype_name(in.dtype),
          dtype_name(out.dtype));
    boundaries_check(comm, verb, begin, tensor_count(out), tensor_count(in));
    if (comm->size == 1) {
        if (out.data != in.data)
            copy_strided(q, (CopyStrided){ .y = tensor_view(out, tensor_count(in)),
                                           .x = tensor_view(in, tensor_count(in)) });
        return (Pending){ -1 };
    }
    DataCall call = { .verb = DATA_ALL_GATHER, .queue = q, .out = out, .in = in, .out_at = begin };
    return collective_begin(comm, SENT_ALL_GATHER, call, in);
}

Pending comm_all_gather_begin(Comm *comm, Queue *q, Tensor out, Tensor in)
{
    return comm_all_gather_parts_begin(comm, q, out, NULL, in);
}

void comm_all_gather_parts(Comm *comm, Queue *q, Tensor out, const int64_t *begin, Tensor in)
{
    comm_wait(comm, comm_all_gather_parts_begin(comm, q, out, begin, in));
}

void comm_all_gather(Comm *comm, Queue *q, Tensor out, Tensor in)
{
    comm_wait(comm, comm_all_gather_begin(comm, q, out, in));
}

/* ---- all-to-all ---- */
static void parts_check(const Comm *comm, Tensor x, const int64_t *at)
{
    contiguous_check(comm, "all-to-all", x);
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
    DataCall call = { .verb = DATA_ALL_TO_ALL, .queue = q, .out = out, .in = in, .out_at = out_at,
                      .in_at = in_at };
    return collective_begin(comm, SENT_ALL_TO_ALL, call, in);
}

void comm_all_to_all(Comm *comm, Queue *q, Tensor out, const int64_t *out_at, Tensor in, const int64_t *in_at)
{
    comm_wait(comm, comm_all_to_all_begin(comm, q, out, out_at, in, in_at));
}

/* ---- reductions ---- */
static void sum_check(const Comm *comm, SentVerb verb, Tensor x)
{
    CHECK(dtype_is_float(x.dtype), "%s of %s: reductions take floating-point types, got %s",
          sent_verb_name(verb), comm->name, dtype_name(x.dtype));
    contiguous_check(comm, sent_verb_name(verb), x);
}

bool comm_adds_on_device(const Comm *comm) { return comm->data->adds; }

size_t comm_window(const Comm *comm, Dtype dtype, int64_t part)
{
    return comm->size > 1 ? comm->data->window(comm->data_group, dtype, part) : 0;
}

Pending comm_reduce_scatter_parts_begin(Comm *comm, Queue *q, Tensor out, Tensor in, const int64_t *begin,
                                        Arena *scratch)
{
    int64_t own = tensor_count(out), part = own;
    sum_check(comm, SENT_REDUCE_SCATTER, in);
    sum_check(comm, SENT_REDUCE_SCATTER, out);
    CHECK(out.dtype == in.dtype, "reduce-scatter of %s: %s into %s", comm->name, dtype_name(in.dtype),
          dtype_name(out.dtype));
    boundaries_check(comm, "reduce-scatter", begin, tensor_count(in), own);
    if (comm->size == 1) {
        if (out.data != in.data)
            copy_strided(q, (CopyStrided){ .y = tensor_view(out, own), .x = tensor_view(in, own) });
        return (Pending){ -1 };
    }
    for (int r = 0; begin && r < comm->size; r++)
        if (begin[r + 1] - begin[r] > part) part = begin[r + 1] - begin[r];
    DataCall call = { .verb = DATA_REDUCE_SCATTER, .queue = q, .out = out, .in = in, .out_at = begin };
    return reduction_begin(comm, SENT_REDUCE_SCATTER, call, in, scratch, part);
}

Pending comm_reduce_scatter_begin(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch)
{
    return comm_reduce_scatter_parts_begin(comm, q, out, in, NULL, scratch);
}

void comm_reduce_scatter_parts(Comm *comm, Queue *q, Tensor out, Tensor in, const int64_t *begin,
                               Arena *scratch)
{
    size_t mark = arena_mark(scratch);
    comm_wait(comm, comm_reduce_scatter_parts_begin(comm, q, out, in, begin, scratch));
    arena_reset(scratch, mark);
}

void comm_reduce_scatter(Comm *comm, Queue *q, Tensor out, Tensor in, Arena *scratch)
{
    comm_reduce_scatter_parts(comm, q, out, in, NULL, scratch);
}

static Pending all_reduce_begin(Comm *comm, Queue *q, Tensor x, Reduction reduction, Arena *scratch)
{
    sum_check(comm, SENT_ALL_REDUCE, x);
    if (comm->size == 1) return (Pending){ -1 };
    int64_t  part = sum_part(NULL, tensor_count(x), comm->size, 1);      /* the first, which is the largest */
    DataCall call = { .verb = DATA_ALL_REDUCE, .reduction = reduction, .queue = q, .out = x };
    return reduction_begin(comm, SENT_ALL_REDUCE, call, x, scratch, part);
}

Pending comm_all_reduce_begin(Comm *comm, Queue *q, Tensor x, Arena *scratch)
{
    return all_reduce_begin(comm, q, x, REDUCE_SUM, scratch);
}

void comm_all_reduce(Comm *comm, Queue *q, Tensor x, Arena *scratch)
{
    size_t mark = arena_mark(scratch);
    comm_wait(comm, comm_all_reduce_begin(comm, q, x, scratch));
    arena_reset(scratch, mark);
}

void comm_all_reduce_max(Comm *comm, Queue *q, Tensor x, Arena *scratch)
{
    size_t mark = arena_mark(scratch);
    comm_wait(comm, all_reduce_begin(comm, q, x, REDUCE_MAX, scratch));
    arena_reset(scratch, mark);
}

/* ---- messages ---- */
static void peer_check(const Comm *comm, const char *verb, Tensor x, int peer)
{
    CHECK(peer >= 0 && peer < comm->size && peer != comm->rank, "%s: rank %d of %s cannot %s rank %d of %d",
          verb, comm->rank, comm->name, verb, peer, comm->size);
    contiguous_check(comm, verb, x);
}

/* name: the watchdog compares it; peer: whom it waits for. */
static Pending message_begin(Comm *comm, const char *name, SentVerb counted, DataCall call, Tensor shown,
                             int peer)
{
    return comm_begin(comm, &(CommCall){ .data = call, .counted = counted, .name = name, .peer = peer,
                                         .shown = shown });
}

Pending comm_send_begin(Comm *comm, Queue *q, Tensor x, int to)
{
    peer_check(comm, "send to", x, to);
    DataCall call = { .verb = DATA_SEND, .queue = q, .in = x, .peer = to };
    return message_begin(comm, "send", SENT_SEND, call, x, to);
}

Pending comm_recv_begin(Comm *comm, Queue *q, Tensor x, int from)
{
    peer_check(comm, "receive from", x, from);
    DataCall call = { .verb = DATA_RECV, .queue = q, .out = x, .peer = from };
    return message_begin(comm, "recv", SENT_VERBS, call, x, from);
}

Pending comm_exchange_begin(Comm *comm, Queue *q, Tensor out, int from, Tensor in, int to)
{
    peer_check(comm, "send to", in, to);
    peer_check(comm, "receive from", out, from);
    DataCall call = { .verb = DATA_EXCHANGE, .queue = q, .out = out, .in = in, .peer = to, .from = from };
    return message_begin(comm, "exchange", SENT_SEND, call, in, from);
}
