/* The bytes that a comm records are those that it gives to the transport for other ranks, in each call and on each rank. */
#include "comm/comm.h"
#include "comm/data_transport.h"

#include <stdio.h>
#include "base/testing.h"

enum { MOST_RANKS = 17, ROOM = 1 << 20, ROOM_OF_WINDOWS = 24 << 20 };

/* ---- a transport that counts what tensors give it ---- */
/* of: the transport of threads; bytes: given to it for other ranks since the last call. */
typedef struct { Transport face, *of; int64_t bytes; } Counting;

/* All groups are the world. */
static int counting_all_gather(Transport *t, Group *g, void *out, const int64_t *at, const void *in, size_t width)
{
    Counting *c = (Counting *)t;
    int64_t mine = at ? at[t->rank + 1] - at[t->rank] : 1;
    c->bytes += (t->size - 1) * mine * (int64_t)width;
    return c->of->all_gather(c->of, g, out, at, in, width);
}

static int counting_all_to_all(Transport *t, Group *g, void *out, const int64_t *out_at, const void *in, const int64_t *in_at,
                               size_t width)
{
    Counting *c = (Counting *)t;
    for (int r = 0; r < t->size; r++)
        if (r != t->rank) c->bytes += (in_at[r + 1] - in_at[r]) * (int64_t)width;
    return c->of->all_to_all(c->of, g, out, out_at, in, in_at, width);
}

static int counting_send(Transport *t, Group *g, const void *data, size_t bytes, int to, int tag)
{
    Counting *c = (Counting *)t;
    c->bytes += to == t->rank ? 0 : (int64_t)bytes;
    return c->of->send(c->of, g, data, bytes, to, tag);
}

static Group *counting_group_open(Transport *t, const int *ranks, int count)
{
    return ((Counting *)t)->of->group_open(((Counting *)t)->of, ranks, count);
}

static void counting_group_close(Transport *t, Group *g) { ((Counting *)t)->of->group_close(((Counting *)t)->of, g); }
static int  counting_recv(Transport *t, Group *g, void *data, size_t bytes, int from, int tag)
{
    return ((Counting *)t)->of->recv(((Counting *)t)->of, g, data, bytes, from, tag);
}
static void counting_poll(Transport *t)              { ((Counting *)t)->of->poll(((Counting *)t)->of); }
static bool counting_test(Transport *t, int request) { return ((Counting *)t)->of->test(((Counting *)t)->of, request); }
static void counting_idle(Transport *t, int request) { ((Counting *)t)->of->idle(((Counting *)t)->of, request); }

static Counting counting_of(Transport *of)
{
    Counting c = { .face = *of, .of = of };
    c.face.self        = NULL;
    c.face.data        = NULL;
    c.face.group_open  = counting_group_open;
    c.face.group_close = counting_group_close;
    c.face.all_gather  = counting_all_gather;
    c.face.all_to_all  = counting_all_to_all;
    c.face.send        = counting_send;
    c.face.recv        = counting_recv;
    c.face.poll        = counting_poll;
    c.face.test        = counting_test;
    c.face.idle        = counting_idle;
    return c;
}

/* ---- calls ---- */
typedef struct { int sum_group; bool windows; } Case;
typedef struct { Counting *counting; Comm *comm; Queue *q, queue[2]; Arena arena; Case at; } Rank;

/* What was recorded since the last call, of `verb` alone, and what was given to the transport. */
static Status compare(Rank *x, SentVerb verb, const char *what, Tensor shown)
{
    Sent sent = { 0 };
    for (int v = 0; v < SENT_VERBS; v++) {
        Sent one = comm_sent(x->comm, (SentVerb)v);
        sent.bytes += one.bytes;
        sent.calls += (SentVerb)v == verb ? one.calls : 1000 * one.calls;
    }
    int64_t given = x->counting->bytes;
    x->counting->bytes = 0;
    comm_sent_reset(x->comm);
    if (sent.bytes == given && sent.calls == (comm_size(x->comm) > 1)) return OK;
    return fail(BAD_SHAPE, "rank %d of %d, groups of %d: %s of %lld %s: %lld calls of %lld bytes recorded, %lld bytes given to the transport",
                comm_rank(x->comm), comm_size(x->comm), x->at.sum_group, what, (long long)tensor_count(shown), dtype_name(shown.dtype),
                (long long)sent.calls, (long long)sent.bytes, (long long)given);
}

static Tensor zeros(Rank *x, Dtype type, int64_t count)
{
    Tensor t = tensor_new(&x->arena, "payload", type, count);
    if (count > 0) fill_zero(x->q, (FillZero){ .y = t });
    return t;
}

/* Unequal parts, of which some are empty, the same on all ranks. */
static void boundaries(int n, int64_t part, int64_t begin[MOST_RANKS + 1])
{
    begin[0] = 0;
    for (int r = 0; r < n; r++) begin[r + 1] = begin[r] + (r % 3 == 1 ? 0 : part + r % 5);
}

static Status sums(Rank *x, Dtype type, int64_t part)
{
    int n = comm_size(x->comm), me = comm_rank(x->comm);
    int64_t begin[MOST_RANKS + 1];
    size_t mark = arena_mark(&x->arena);
    Tensor whole = zeros(x, type, n * part), own = zeros(x, type, part);
    comm_reduce_scatter(x->comm, x->q, own, whole, &x->arena);
    TRY(compare(x, SENT_REDUCE_SCATTER, "reduce-scatter", whole));
    boundaries(n, part, begin);
    Tensor parts = zeros(x, type, begin[n]), mine = zeros(x, type, begin[me + 1] - begin[me]);
    comm_reduce_scatter_parts(x->comm, x->q, mine, parts, begin, &x->arena);
    TRY(compare(x, SENT_REDUCE_SCATTER, "reduce-scatter of parts", parts));
    for (int64_t less = 0; less < 3 && less < n * part; less++) {       /* the last parts shorter or empty */
        Tensor some = tensor_flat(whole, 0, n * part - less);
        comm_all_reduce(x->comm, x->q, some, &x->arena);
        TRY(compare(x, SENT_ALL_REDUCE, "all-reduce", some));
    }
    if (type == F64 || type == F32) {
        comm_all_reduce_max(x->comm, x->q, whole, &x->arena);
        TRY(compare(x, SENT_ALL_REDUCE, "all-reduce of maxima", whole));
    }
    arena_reset(&x->arena, mark);
    return OK;
}

static Status copies(Rank *x, Dtype type, int64_t part)
{
    int n = comm_size(x->comm), me = comm_rank(x->comm);
    int64_t begin[MOST_RANKS + 1], in_at[MOST_RANKS + 1] = { 1 }, out_at[MOST_RANKS + 1] = { 2 };
    size_t mark = arena_mark(&x->arena);
    Tensor whole = zeros(x, type, n * part), own = zeros(x, type, part);
    comm_all_gather(x->comm, x->q, whole, own);
    TRY(compare(x, SENT_ALL_GATHER, "all-gather", own));
    boundaries(n, part, begin);
    Tensor parts = zeros(x, type, begin[n]), mine = zeros(x, type, begin[me + 1] - begin[me]);
    comm_all_gather_parts(x->comm, x->q, parts, begin, mine);
    TRY(compare(x, SENT_ALL_GATHER, "all-gather of parts", mine));
    /* rank a gives rank b (2 a + b) % 4 times `part` elements; tensors begin before the first part and end after the last */
    for (int r = 0; r < n; r++) in_at[r + 1]  = in_at[r] + (2 * me + r) % 4 * part;
    for (int r = 0; r < n; r++) out_at[r + 1] = out_at[r] + (2 * r + me) % 4 * part;
    Tensor in = zeros(x, type, in_at[n] + 3), out = zeros(x, type, out_at[n] + 1);
    comm_all_to_all(x->comm, x->q, out, out_at, in, in_at);
    TRY(compare(x, SENT_ALL_TO_ALL, "all-to-all", in));
    arena_reset(&x->arena, mark);
    return OK;
}

static Status messages(Rank *x, Dtype type, int64_t part)
{
    int n = comm_size(x->comm), me = comm_rank(x->comm), next = (me + 1) % n, last = (me + n - 1) % n;
    size_t mark = arena_mark(&x->arena);
    /* each rank sends a length of its own */
    Tensor in = zeros(x, type, part + me), out = zeros(x, type, part + last);
    comm_wait(x->comm, comm_exchange_begin(x->comm, x->q, out, last, in, next));
    TRY(compare(x, SENT_SEND, "exchange", in));
    Pending got = comm_recv_begin(x->comm, x->q, out, last);
    comm_wait(x->comm, comm_send_begin(x->comm, x->q, in, next));
    comm_wait(x->comm, got);
    TRY(compare(x, SENT_SEND, "send", in));
    arena_reset(&x->arena, mark);
    return OK;
}

/* Elements of a part that takes three windows. */
static int64_t beyond_window(const Comm *comm, Dtype type)
{
    size_t one = comm_window(comm, type, 1), most = comm_window(comm, type, INT32_MAX);
    return one > 0 ? 2 * (int64_t)(most / one) + 3 : 1;
}

static Status calls(Rank *x)
{
    static const struct { Dtype type; int64_t part; } of[] = { { F64, 37 }, { F32, 1 }, { BF16, 37 }, { F64, 0 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        x->q = &x->queue[of[i].type != F64];
        TRY(sums(x, of[i].type, of[i].part));
        TRY(copies(x, of[i].type, of[i].part));
        if (comm_size(x->comm) > 1) TRY(messages(x, of[i].type, of[i].part));
    }
    x->q = &x->queue[0];
    return x->at.windows ? sums(x, F64, beyond_window(x->comm, F64)) : OK;
}

static Status body(Transport *transport, void *context)
{
    Counting counting = counting_of(transport);
    Rank x = { .counting = &counting, .at = *(const Case *)context };
    x.comm = comm_world_sums(&counting.face, x.at.sum_group);
    for (int i = 0; i < 2; i++) TRY(queue_open(&x.queue[i], i ? "cpu" : "ref", 1, NULL));
    TRY(arena_open(&x.arena, "payload", x.at.windows ? ROOM_OF_WINDOWS : ROOM));
    counting.bytes = 0;                               /* of control */
    Status status = calls(&x);
    arena_close(&x.arena);
    for (int i = 0; i < 2; i++) queue_close(&x.queue[i]);
    comm_close(x.comm);
    return status;
}

static void recorded_is_given(void **state)
{
    (void)state;
    static const int group[] = { 1, 2, 3, 8, 128 };
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (size_t g = 0; g < sizeof group / sizeof *group; g++) {
            if (g > 0 && group[g - 1] >= ranks) break;                  /* one group, as before */
            Case at = { .sum_group = group[g], .windows = ranks == 2 || ranks == 5 || ranks == MOST_RANKS };
            if (transport_threads_run(ranks, body, &at) != OK) fail_msg("%s", fail_text());
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(recorded_is_given) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
