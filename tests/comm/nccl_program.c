/* The verbs of comm/nccl.h among threads with a device each, on the emulated NCCL of tests/tensor/shim: what they compute, that the host
 * does not wait in them, that queues and calls are in order under each pace, and by NAME one fault, of which cause and cure must be named
 * in the words that tests.cmake expects. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm_internal.h"
#include "comm/device_data.h"
#include "comm/watchdog.h"
#include "order.h"
#include "tensor/ops.h"

enum { RANKS = 4 };
#define MUST(cond, ...) CHECK(cond, __VA_ARGS__)

/* A rank: its queue and what it allocates in the memory of its device. */
typedef struct { Transport *transport; Comm *world, *pair; Watchdog *watchdog; Queue q; Arena arena; } Lab;
typedef void Act(Lab *lab);
typedef struct { Act *act; DeviceTransport wanted; int devices; double watch; } Play;

/* ---- tensors of the device ---- */

static double value(int rank, int64_t i) { return (double)((rank * 37 + i * 11) % 64) / 8 - 3; }      /* exact in all types, as are its sums */

static Tensor filled(Lab *lab, Dtype dtype, int rank, int64_t count)
{
    Tensor x = tensor_new(&lab->arena, "x", dtype, count);
    char *host = malloc((size_t)count * 8 + 1);
    for (int64_t i = 0; i < count; i++) {
        double v = value(rank, i);
        if (dtype == I32) ((int32_t *)host)[i] = (int32_t)(8 * v);
        else dtype_convert(host + (size_t)i * dtype_width(dtype), dtype, &v, F64, 1);
    }
    queue_write(&lab->q, x.data, host, tensor_bytes(x));
    free(host);
    return x;
}

static Tensor empty(Lab *lab, Dtype dtype, int64_t count) { return filled(lab, dtype, 99, count); }

/* Elements of x: wanted(rank, i) of the caller. */
static void expect(Lab *lab, const char *what, Tensor x, int64_t first, int64_t count, double (*wanted)(int n, int me, int64_t i))
{
    char *host = malloc(tensor_bytes(x) + 1);
    queue_read(&lab->q, host, x.data, tensor_bytes(x));
    for (int64_t i = 0; i < count; i++) {
        double v = 0, w = wanted(comm_size(lab->world), comm_rank(lab->world), i);
        if (x.dtype == I32) v = ((int32_t *)host)[first + i] / 8.0;
        else dtype_convert(&v, F64, host + (size_t)(first + i) * dtype_width(x.dtype), x.dtype, 1);
        MUST(v == w, "%s of %s, element %lld: %g, not %g", what, dtype_name(x.dtype), (long long)i, v, w);
    }
    free(host);
}

static double sum_of(int n, int me, int64_t i)
{
    double s = 0;
    (void)me;
    for (int r = 0; r < n; r++) s += value(r, i);
    return s;
}

static double most_of(int n, int me, int64_t i)
{
    double s = -INFINITY;
    (void)me;
    for (int r = 0; r < n; r++) s = fmax(s, value(r, i));
    return s;
}

/* ---- verbs ---- */
static const Dtype floats[] = { F32, BF16, F16, F64 };
enum { PART = 13 };

static double own_sum(int n, int me, int64_t i)      { return sum_of(n, me, me * PART + i); }
static double gathered(int n, int me, int64_t i)     { (void)n, (void)me; return value((int)(i / PART), i % PART); }

static void reductions(Lab *lab)
{
    int n = comm_size(lab->world), me = comm_rank(lab->world);
    for (int t = 0; t < 4; t++) {
        Dtype type = floats[t];
        Tensor x = filled(lab, type, me, 29), in = filled(lab, type, me, n * PART), out = empty(lab, type, PART), y = filled(lab, type, me, 29);
        comm_all_reduce(lab->world, &lab->q, x, &lab->arena);
        expect(lab, "all-reduce", x, 0, 29, sum_of);
        comm_all_reduce_max(lab->world, &lab->q, y, &lab->arena);
        expect(lab, "maximum", y, 0, 29, most_of);
        comm_reduce_scatter(lab->world, &lab->q, out, in, &lab->arena);
        expect(lab, "reduce-scatter", out, 0, PART, own_sum);
        comm_reduce_scatter(lab->world, &lab->q, tensor_flat(in, me * PART, PART), in, &lab->arena);
        expect(lab, "reduce-scatter in place", in, me * PART, PART, own_sum);
    }
}

static void gathers(Lab *lab)
{
    static const Dtype types[] = { F32, BF16, I32, F64 };
    int n = comm_size(lab->world), me = comm_rank(lab->world);
    for (int t = 0; t < 4; t++) {
        Tensor all = empty(lab, types[t], n * PART), in = filled(lab, types[t], me, PART);
        comm_all_gather(lab->world, &lab->q, all, in);
        expect(lab, "all-gather", all, 0, n * PART, gathered);
        all = empty(lab, types[t], n * PART);
        Tensor own = tensor_flat(all, me * PART, PART);
        copy_strided(&lab->q, (CopyStrided){ .y = own, .x = in });
        comm_all_gather(lab->world, &lab->q, all, own);
        expect(lab, "all-gather in place", all, 0, n * PART, gathered);
    }
}

/* Parts of 5, 0, 7, 5, 0, ... */
static int64_t unequal_begin(int r) { return r / 3 * 12 + (r % 3 > 0 ? 5 : 0); }
static double unequal_sum(int n, int me, int64_t i) { return sum_of(n, me, unequal_begin(me) + i); }

static void unequal(Lab *lab)
{
    int n = comm_size(lab->world), me = comm_rank(lab->world);
    int64_t begin[RANKS + 1];
    for (int r = 0; r <= n; r++) begin[r] = unequal_begin(r);
    int64_t mine = begin[me + 1] - begin[me];
    Tensor in = filled(lab, F32, me, begin[n]), own = tensor_flat(empty(lab, F32, mine + 1), 0, mine), all = empty(lab, F32, begin[n]);
    comm_reduce_scatter_parts(lab->world, &lab->q, own, in, begin, &lab->arena);
    expect(lab, "unequal reduce-scatter", own, 0, mine, unequal_sum);
    comm_all_gather_parts(lab->world, &lab->q, all, begin, own);
    expect(lab, "unequal all-gather", all, 0, begin[n], sum_of);
}

/* Rank a sends (a + 2 b) % 4 elements to rank b. */
static int64_t sends(int a, int b) { return (a + 2 * b) % 4; }
static int64_t sends_before(int a, int b) { int64_t n = 0; for (int k = 0; k < b; k++) n += sends(a, k); return n; }
static double swapped(int n, int me, int64_t i)
{
    for (int a = 0; a < n; a++) {
        if (i < sends(a, me)) return value(a, sends_before(a, me) + i);
        i -= sends(a, me);
    }
    return NAN;
}

static void messages(Lab *lab)
{
    int n = comm_size(lab->world), me = comm_rank(lab->world), next = (me + 1) % n, previous = (me + n - 1) % n;
    int64_t in_at[RANKS + 1] = { 0 }, out_at[RANKS + 1] = { 0 };
    for (int r = 0; r < n; r++) {
        in_at[r + 1]  = in_at[r] + sends(me, r);
        out_at[r + 1] = out_at[r] + sends(r, me);
    }
    Tensor in = filled(lab, BF16, me, in_at[n] + 1), out = empty(lab, BF16, out_at[n] + 1);
    comm_all_to_all(lab->world, &lab->q, out, out_at, in, in_at);
    expect(lab, "all-to-all", out, 0, out_at[n], swapped);
    Tensor got = empty(lab, F32, PART), mine = filled(lab, F32, me, PART);
    comm_wait(lab->world, comm_exchange_begin(lab->world, &lab->q, got, previous, mine, next));
    comm_all_reduce(lab->world, &lab->q, got, &lab->arena);
    expect(lab, "exchange", got, 0, PART, sum_of);
    if (!lab->pair) return;
    Tensor x = me % 2 ? empty(lab, F32, PART) : filled(lab, F32, 5, PART);
    comm_wait(lab->pair, me % 2 ? comm_recv_begin(lab->pair, &lab->q, x, 0) : comm_send_begin(lab->pair, &lab->q, x, 1));
    comm_all_reduce_max(lab->pair, &lab->q, x, &lab->arena);
    char host[PART * 4];
    queue_read(&lab->q, host, x.data, sizeof host);
    for (int i = 0; i < PART; i++) MUST(((float *)host)[i] == (float)value(5, i), "message: element %d", i);
}

/* Several in flight on two communicators beside work of the queue, waited for in another order on every second rank; the sums see the
 * values of their begins. */
static void in_flight(Lab *lab)
{
    enum { MANY = 6 };
    int me = comm_rank(lab->world);
    Tensor x[MANY], other = filled(lab, F32, me, 100);
    Pending pending[MANY];
    for (int k = 0; k < MANY; k++) {
        x[k] = empty(lab, F32, 29);
        Tensor right = filled(lab, F32, me, 29);
        copy_strided(&lab->q, (CopyStrided){ .y = x[k], .x = right });
        pending[k] = comm_all_reduce_begin(lab->world, &lab->q, x[k], &lab->arena);
        fill_zero(&lab->q, (FillZero){ right });
        if (lab->pair) comm_all_reduce(lab->pair, &lab->q, other, &lab->arena);
        comm_poll(lab->world);
    }
    for (int k = 0; k < MANY; k++) comm_wait(lab->world, pending[me % 2 ? k : MANY - 1 - k]);
    for (int k = 0; k < MANY; k++) expect(lab, "a sum in flight", x[k], 0, 29, sum_of);
}

/* F64 numbers have the bits of an addition in the order of ranks. */
static double third(int rank) { return 1.0 / (3 + rank); }

static void numbers(Lab *lab)
{
    int n = comm_size(lab->world), me = comm_rank(lab->world);
    double mine[2] = { third(me), -third(me) }, got[2], want = third(0);
    for (int r = 1; r < n; r++) want += third(r);
    Tensor x = tensor_new(&lab->arena, "x", F64, 2);
    queue_write(&lab->q, x.data, mine, sizeof mine);
    comm_all_reduce(lab->world, &lab->q, x, &lab->arena);
    queue_read(&lab->q, got, x.data, sizeof got);
    MUST(got[0] == want && got[1] == -want, "sum of numbers: %.17g, not %.17g", got[0], want);
    double on_host = me;                                       /* of the host, on the same communicator */
    Queue host;
    Arena window;
    MUST(queue_open(&host, "cpu", 1, NULL) == OK && arena_open(&window, "window", 1 << 20) == OK, "%s", fail_text());
    comm_all_reduce(lab->world, &host, tensor_at(&on_host, F64, (int64_t[]){ 1 }, 1), &window);
    MUST(on_host == n * (n - 1) / 2, "sum of the host: %g", on_host);
    arena_close(&window);
    queue_close(&host);
}

/* As a rank of a run waits. */
static void wait_asking(Lab *lab)
{
    lab->q.waiting = comm_waiting, lab->q.waiting_context = lab->world;
    queue_wait(&lab->q);
    lab->q.waiting = NULL;
}

/* No rank waits for another in a call: rank 0 begins and waits for all, and only then lets the others go. */
static void host_goes_on(Lab *lab)
{
    Comm *world = lab->world;
    if (comm_rank(world) > 0) comm_barrier(world);
    Tensor x = filled(lab, F32, comm_rank(world), 29);
    for (int k = 0; k < 50; k++) comm_all_reduce_max(world, &lab->q, x, &lab->arena);
    Pending p = comm_all_reduce_begin(world, &lab->q, x, &lab->arena);
    comm_wait(world, p);
    if (comm_rank(world) == 0) comm_barrier(world);
    wait_asking(lab);
    double most = most_of(comm_size(world), 0, 3) * comm_size(world);
    float host[29];
    queue_read(&lab->q, host, x.data, sizeof host);
    MUST(host[3] == (float)most, "after the host went on: %g, not %g", (double)host[3], most);
}

/* A call that is asked for instead of waited for; its sum is then in the order of the queue as well. */
static void asked(Lab *lab)
{
    static const Dtype types[] = { F32, F64 };
    for (int t = 0; t < 2; t++) {
        DataTransport *d = lab->world->data;
        Tensor x = filled(lab, types[t], comm_rank(lab->world), 29);
        Tensor window = tensor_new(&lab->arena, "window", U8, (int64_t)comm_window(lab->world, types[t], 29) + 1);
        int number = d->begin(d, lab->world->data_group, &(DataCall){ .verb = DATA_ALL_REDUCE, .queue = &lab->q, .out = x, .window = window });
        for (d->poll(d, false); !d->done(d, number); d->poll(d, false)) d->idle(d, number);
        expect(lab, "a sum that was asked for", x, 0, 29, sum_of);
    }
}

/* Groups are closed and made again. */
static void groups_again(Lab *lab)
{
    for (int i = 0; i < 3; i++) {
        int ranks[RANKS];
        Comm *again;
        for (int r = 0; r < comm_size(lab->world); r++) ranks[r] = r;
        again = comm_open(lab->world, "again", ranks, comm_size(lab->world));
        Tensor x = filled(lab, F32, comm_rank(lab->world), 29);
        comm_all_reduce(again, &lab->q, x, &lab->arena);
        expect(lab, "all-reduce of a new group", x, 0, 29, sum_of);
        comm_close(again);
    }
}

static void all_verbs(Lab *lab)
{
    Act *const act[] = { reductions, gathers, unequal, messages, in_flight, numbers, asked, host_goes_on, groups_again };
    for (size_t i = 0; i < sizeof act / sizeof *act; i++) {
        size_t mark = arena_mark(&lab->arena);
        act[i](lab);
        queue_wait(&lab->q);
        arena_reset(&lab->arena, mark);
    }
}

/* ---- faults ---- */
static void steps(Lab *lab)
{
    thread_context()->step = 40;
    for (int k = 0; k < 8; k++) {
        size_t mark = arena_mark(&lab->arena);
        Tensor x = filled(lab, F32, 1, 29 + k);
        comm_all_reduce(lab->world, &lab->q, x, &lab->arena);
        comm_all_reduce(lab->pair, &lab->q, x, &lab->arena);
        queue_wait(&lab->q);
        arena_reset(&lab->arena, mark);
    }
}

static void one_by_one(Lab *lab)
{
    for (int k = 0; k < 8; k++) comm_all_reduce(lab->world, &lab->q, filled(lab, F32, 1, 29 + k), &lab->arena);
    queue_wait(&lab->q);
}

/* Rank 1 stops to call, as in an endless loop of its own. */
static void absent(Lab *lab)
{
    thread_context()->step = 40;
    for (int k = 0; k < 4; k++) {
        Tensor x = filled(lab, F32, 1, 29);
        while (k == 2 && comm_rank(lab->world) == 1) sleep(1);
        comm_all_reduce(lab->world, &lab->q, x, &lab->arena);
        wait_asking(lab);
    }
}

static void drained(Lab *lab)
{
    Tensor x = filled(lab, F32, 1, 29);
    for (int k = 0; k < 4; k++) comm_all_reduce(lab->world, &lab->q, x, &lab->arena);
    wait_asking(lab);
}

/* Each of two ranks receives on one communicator before it sends what the other waits for on the same one. */
static void a_circle(Lab *lab)
{
    int other = 1 - comm_rank(lab->world);
    Tensor x = empty(lab, F32, PART), y = empty(lab, F32, PART);
    Pending a = comm_recv_begin(lab->world, &lab->q, x, other), b = comm_send_begin(lab->world, &lab->q, y, other);
    comm_wait(lab->world, a);
    comm_wait(lab->world, b);
    queue_wait(&lab->q);
}

/* More communicators in flight than a GPU has room for. */
static void crowded(Lab *lab)
{
    enum { MANY = 17 };
    Comm *comm[MANY];
    Tensor x = empty(lab, F32, PART);
    for (int i = 0; i < MANY; i++) {
        int both[] = { 0, 1 };
        comm[i] = comm_open(lab->world, "many", both, 2);
    }
    if (comm_rank(lab->world) == 1) comm_barrier(lab->world);             /* rank 0 does not come */
    for (int i = 0; i < MANY; i++) comm_all_reduce_begin(comm[i], &lab->q, x, &lab->arena);
    wait_asking(lab);
    for (int i = 0; i < MANY; i++) comm_wait(comm[i], (Pending){ i });
    queue_wait(&lab->q);
}

/* ---- running ---- */
static Status play_body(Transport *transport, void *context)
{
    const Play *play = context;
    DeviceTransport chosen;
    DataTransport *data;
    Lab lab = { .transport = transport };
    char device[16];
    int pair[2] = { transport->rank / 2 * 2, transport->rank / 2 * 2 + 1 };
    TRY(device_transport_choose(&chosen, play->wanted, transport, transport->rank));
    MUST(chosen == DEVICE_NCCL || play->wanted == DEVICE_AUTO, "the choice is %d", chosen);
    if (play->wanted == DEVICE_AUTO) printf("chosen: %s\n", chosen == DEVICE_NCCL ? "nccl" : "staged");
    TRY(device_data_open(&data, chosen, transport, transport->rank, 1));
    transport->data = data;
    snprintf(device, sizeof device, "cuda:%d", transport->rank);
    lab.world = comm_world(transport);
    if (transport->size == RANKS) lab.pair = comm_open(lab.world, "pair", pair, 2);
    TRY(watchdog_open(&lab.watchdog, lab.world, play->watch));
    TRY(queue_open(&lab.q, device, 1, NULL));
    TRY(arena_open_on(&lab.arena, "device", 256 << 10, lab.q.memory, NULL));
    play->act(&lab);
    arena_close(&lab.arena);
    watchdog_close(lab.watchdog, lab.world);
    comm_close(lab.pair);
    comm_close(lab.world);
    data->close(data);
    transport->data = NULL;
    queue_close(&lab.q);
    return OK;
}

static int play(Play p, int ranks)
{
    gpu_cpu_devices(p.devices ? p.devices : ranks);
    if (transport_threads_run(ranks, play_body, &p) == OK) return 0;
    fprintf(stderr, "refused: %s\n", fail_text());
    return 1;
}

typedef struct { const char *name; GpuCpuNcclFault fault; long after; Play play; int ranks; } Row;
static const Row rows[] = {
    { "count",   GPU_CPU_NCCL_COUNT,   3, { steps, DEVICE_NCCL, 0, 0 }, RANKS },
    { "swap",    GPU_CPU_NCCL_SWAP,    4, { one_by_one, DEVICE_NCCL, 0, 0 }, RANKS },
    { "lost",    GPU_CPU_NCCL_LOST,    4, { steps, DEVICE_NCCL, 0, 0 }, RANKS },
    { "dead",    GPU_CPU_NCCL_DEAD,    4, { steps, DEVICE_NCCL, 0, 0 }, RANKS },
    { "error",   GPU_CPU_NCCL_ERROR,   2, { drained, DEVICE_NCCL, 0, 0 }, RANKS },
    { "error_watched", GPU_CPU_NCCL_ERROR, 4, { steps, DEVICE_NCCL, 0, 5 }, RANKS },
    { "hang",    GPU_CPU_NCCL_HANG,    4, { steps, DEVICE_NCCL, 0, 2 }, RANKS },
    { "absent",  GPU_CPU_NCCL_NO_FAULT, 0, { absent, DEVICE_NCCL, 0, 2 }, RANKS },
    { "circle",  GPU_CPU_NCCL_NO_FAULT, 0, { a_circle, DEVICE_NCCL, 0, 0 }, 2 },
    { "crowded", GPU_CPU_NCCL_NO_FAULT, 0, { crowded, DEVICE_NCCL, 0, 0 }, 2 },
    { "missing", GPU_CPU_NCCL_MISSING, 0, { all_verbs, DEVICE_NCCL, 0, 0 }, 2 },
    { "missing_auto", GPU_CPU_NCCL_MISSING, 0, { numbers, DEVICE_AUTO, 0, 0 }, 2 },
    { "old",     GPU_CPU_NCCL_OLD,     0, { all_verbs, DEVICE_NCCL, 0, 0 }, 2 },
    { "shared",  GPU_CPU_NCCL_NO_FAULT, 0, { all_verbs, DEVICE_NCCL, 1, 0 }, 2 },
    { "shared_auto", GPU_CPU_NCCL_NO_FAULT, 0, { numbers, DEVICE_AUTO, 1, 0 }, 2 },
    { "own_auto", GPU_CPU_NCCL_NO_FAULT, 0, { numbers, DEVICE_AUTO, 0, 0 }, 2 },
};

int main(int words, char **word)
{
    gpu_cpu_deadlock(20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (words != 2 || strcmp(word[1], rows[i].name) != 0) continue;
        gpu_cpu_nccl_fault(rows[i].fault, 1, rows[i].after);
        if (rows[i].play.watch > 0) gpu_cpu_deadlock(0);             /* the watchdog's turn */
        int code = play(rows[i].play, rows[i].ranks);
        puts("the end");
        return code;
    }
    if (words > 1) return 2;
    for (int ranks = 2; ranks <= RANKS; ranks++)
        for (unsigned seed = 0; seed < 6; seed++) {
            gpu_cpu_pace(seed == 0 ? GPU_CPU_LATE : seed == 1 ? GPU_CPU_AT_ONCE : GPU_CPU_DRAWN, seed);
            if (play((Play){ all_verbs, DEVICE_NCCL, 0, 0 }, ranks) != 0) return 1;
        }
    return 0;
}
