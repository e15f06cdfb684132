#include "comm/program.h"

#include <stdio.h>
#include "base/testing.h"

#define assert_ok(status) do { if ((status) != OK) fail_msg("%s", fail_text()); } while (0)

static void sums_and_gathers_of_1_to_8_threads(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks++) {
        uint64_t hash = 0;
        assert_ok(transport_threads_run(ranks, program_body, &hash));
        assert_true(hash != 0);
    }
}

/* ---- doubles on a back end of fp32 ---- */
/* Numbers whose sum and maximum are exact in double, and which fp32 rounds: 2^20 + r 2^-20 and its negative. */
static Status doubles_body(Transport *transport, void *context)
{
    Comm  *world;
    Queue  q;
    Arena  arena;
    double n = transport->size, mine = 0x1p20 + transport->rank * 0x1p-20, x[] = { mine, -mine }, y[] = { mine, -mine };
    (void)context;
    world = comm_world(transport);
    TRY(queue_open(&q, "cpu", 1, NULL));
    TRY(arena_open(&arena, "scratch", 1 << 16));
    comm_all_reduce    (world, &q, tensor_at(x, F64, (int64_t[]){ 2 }, 1), &arena);
    comm_all_reduce_max(world, &q, tensor_at(y, F64, (int64_t[]){ 2 }, 1), &arena);
    double sum = n * 0x1p20 + n * (n - 1) / 2 * 0x1p-20;
    bool right = x[0] == sum && x[1] == -sum && y[0] == 0x1p20 + (n - 1) * 0x1p-20 && y[1] == -0x1p20;
    arena_close(&arena);
    queue_close(&q);
    comm_close(world);
    return right ? OK : fail(BAD_SHAPE, "%g ranks: sums %.17g %.17g, maxima %.17g %.17g", n, x[0], x[1], y[0], y[1]);
}

static void doubles_are_reduced_in_double(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 20; ranks += 1 + ranks / 5) assert_ok(transport_threads_run(ranks, doubles_body, NULL));
}

/* ---- a dry comm asks for the same scratch and counts the same bytes ---- */
typedef struct { int ranks; size_t peak; int64_t sent[SENT_VERBS]; char trace[512]; } Account;

static void note(void *context, const char *text)
{
    Account *account = context;
    snprintf(account->trace + strlen(account->trace), sizeof account->trace - strlen(account->trace), "%s\n", text);
}

static Status account_body(Transport *transport, void *context)
{
    Account  *account = (Account *)context + (transport->kind == TRANSPORT_DRY ? 0 : transport->rank);
    bool      dry     = transport->kind == TRANSPORT_DRY;
    Comm     *world, *tp;
    Queue     q;
    Arena     arena;
    Mesh      mesh;
    TRY(mesh_make(&mesh, transport->size, transport->rank, (MeshShape){ .tp = transport->size, .cp = 1, .pp = 1 }));
    world = comm_world(transport);
    tp = comm_open_axes(world, &mesh, AXIS_TP);
    TRY(queue_open(&q, dry ? "dry-ref" : "ref", 1, NULL));
    if (dry) arena_dry(&arena, "scratch");
    else     TRY(arena_open(&arena, "scratch", 1 << 16));
    comm_trace(tp, note, account);
    int    n  = comm_size(tp), me = comm_rank(tp);
    Tensor in = tensor_new(&arena, "in", F64, 4, 8), out = tensor_new(&arena, "out", F64, n * 4, 8);
    Tensor odd = tensor_new(&arena, "odd", F64, 13);
    fill_zero(&q, (FillZero){ in });
    fill_zero(&q, (FillZero){ odd });
    comm_all_gather(tp, &q, out, in);
    comm_reduce_scatter(tp, &q, in, out, &arena);
    comm_all_reduce(tp, &q, in, &arena);
    comm_all_reduce(tp, &q, odd, &arena);
    int64_t at[6] = { 0 };
    for (int r = 0; r < n; r++) at[r + 1] = at[r] + 32;
    comm_all_to_all(tp, &q, out, at, tensor_new(&arena, "twin", F64, n * 4, 8), at);
    Pending sent = { -1 }, got = { -1 };
    if (n > 1 && me == 0)     sent = comm_send_begin(tp, &q, in, n - 1);
    if (n > 1 && me == n - 1) got  = comm_recv_begin(tp, &q, in, 0);
    comm_wait(tp, sent);
    comm_wait(tp, got);
    comm_barrier(tp);
    TRY(agree(world, OK));
    account->peak = arena.peak;
    for (int v = 0; v < SENT_VERBS; v++) account->sent[v] = comm_sent(tp, (SentVerb)v).bytes;
    arena_close(&arena);
    queue_close(&q);
    comm_close(tp);
    comm_close(world);
    return OK;
}

static void a_dry_comm_counts_what_a_real_one_does(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++) {
        Account real[5] = { 0 };
        assert_ok(transport_threads_run(ranks, account_body, real));
        for (int r = 0; r < ranks; r++) {
            Account    dry = { 0 };
            Transport *transport = transport_dry_open(r, ranks);
            assert_ok(account_body(transport, &dry));
            transport->close(transport);
            assert_int_equal(dry.peak, real[r].peak);
            assert_memory_equal(dry.sent, real[r].sent, sizeof dry.sent);
            assert_string_equal(dry.trace, real[r].trace);
        }
        if (ranks == 1) assert_string_equal(real[0].trace, "");
        if (ranks == 4) {
            assert_string_equal(real[0].trace, "tp all-gather F64 4x8\ntp reduce-scatter F64 16x8\ntp all-reduce F64 4x8\n"
                                               "tp all-reduce F64 13\ntp all-to-all F64 16x8\ntp send F64 4x8\n");
            assert_int_equal(real[0].sent[SENT_ALL_GATHER], 3 * 256);
            assert_int_equal(real[0].sent[SENT_REDUCE_SCATTER], 1024 * 3 / 4);
            assert_int_equal(real[0].sent[SENT_ALL_TO_ALL], 1024 * 3 / 4);
            assert_int_equal(real[3].sent[SENT_ALL_REDUCE], 2 * 3 * 256 / 4 + 8 * (12 + 3 * 1));  /* parts of 13: 4 4 4 1 */
        }
    }
}

static void comms_are_named_by_their_axes(void **state)
{
    (void)state;
    static const struct { int axes; const char *name; } names[] = { { AXIS_TP, "tp" }, { AXIS_DP | AXIS_CP, "dp+cp" },
        { AXIS_PP | AXIS_TP, "tp+pp" }, { AXIS_ALL, "tp+dp+cp+pp" } };
    Transport *transport = transport_dry_open(3, 8);
    Comm *world, *comm;
    Mesh  mesh;
    assert_ok(mesh_make(&mesh, 8, 3, (MeshShape){ .tp = 2, .cp = 2, .pp = 1 }));
    world = comm_world(transport);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        comm = comm_open_axes(world, &mesh, names[i].axes);
        assert_string_equal(comm_name(comm), names[i].name);
        comm_close(comm);
    }
    comm = comm_open_axes(world, &mesh, AXIS_CP);
    assert_int_equal(comm_size(comm), 2);
    assert_int_equal(comm_world_rank(comm, 0), 1);
    comm_close(comm);
    comm_close(world);
    transport->close(transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_gathers_of_1_to_8_threads),
        cmocka_unit_test(doubles_are_reduced_in_double),
        cmocka_unit_test(a_dry_comm_counts_what_a_real_one_does),
        cmocka_unit_test(comms_are_named_by_their_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
