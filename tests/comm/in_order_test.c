/* The in-order and the delaying transport of test_transports.h: same results as the host's, and the one finds the deadlock of a schedule
 * that relies on messages passing each other. */
#include "comm/test_transports.h"

#include <stdio.h>
#include "comm/program.h"
#include "comm/watchdog.h"
#include "base/testing.h"

typedef struct { bool in_order; double delay; uint64_t hash; } Kind;

static Status kind_body(Transport *transport, void *context)
{
    Kind *kind = context;
    transport->data = test_transport_open(transport, kind->in_order, kind->delay);
    Status status = program_body(transport, &kind->hash);
    transport->data->close(transport->data);
    return status;
}

static void results_are_those_of_the_host(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        uint64_t host = 0;
        Kind ordered = { .in_order = true }, late = { .delay = 1e-5 };
        assert_int_equal(transport_threads_run(ranks, program_body, &host), OK);
        if (transport_threads_run(ranks, kind_body, &late) != OK) fail_msg("%s", fail_text());
        assert_int_equal(late.hash, host);
        program_rings = false;                                       /* of sends alone, which wait for each other */
        if (transport_threads_run(ranks, kind_body, &ordered) != OK) fail_msg("%s", fail_text());
        program_rings = true;
        assert_int_equal(ordered.hash, host);
    }
}

/* ---- schedules of two ranks that exchange activations and gradients ---- */
typedef void Act(Comm *down, Comm *up, Queue *q, Tensor x, Tensor y, int rank);

static Status act_body(Transport *transport, void *context)
{
    Comm  *world, *down, *up;
    Watchdog *watchdog;
    Queue  q;
    double at[2] = { 0 };
    transport->data = test_transport_open(transport, true, 0);
    world = comm_world(transport);
    down = comm_open(world, "pp", (int[]){ 0, 1 }, 2);
    up = comm_open(world, "pp-back", (int[]){ 0, 1 }, 2);
    TRY(watchdog_open(&watchdog, world, 0.6));
    TRY(queue_open(&q, "ref", 1, NULL));
    (*(Act **)context)(down, up, &q, tensor_at(at, F64, (int64_t[]){ 1 }, 1), tensor_at(at + 1, F64, (int64_t[]){ 1 }, 1),
                       transport->rank);
    queue_close(&q);
    watchdog_close(watchdog, world);
    comm_close(up);
    comm_close(down);
    comm_close(world);
    transport->data->close(transport->data);
    return OK;
}

static void act_play(void *act)
{
    if (transport_threads_run(2, act_body, act) != OK) _exit(1);
}

/* As 1F1B does: the first stage asks for a gradient before it sends the activation that makes it. */
static void gradient_first(Comm *down, Comm *up, Queue *q, Tensor x, Tensor y, int rank)
{
    Pending a, b;
    if (rank == 0) {
        a = comm_recv_begin(up, q, y, 1);
        b = comm_send_begin(down, q, x, 1);
        comm_wait(down, b);
        comm_wait(up, a);
    } else {
        a = comm_recv_begin(down, q, x, 0);
        comm_wait(down, a);
        b = comm_send_begin(up, q, y, 0);
        comm_wait(up, b);
    }
}

static void on_one_comm(Comm *down, Comm *up, Queue *q, Tensor x, Tensor y, int rank)
{
    (void)up;
    gradient_first(down, down, q, x, y, rank);
}

static void a_ring(Comm *down, Comm *up, Queue *q, Tensor x, Tensor y, int rank)
{
    (void)up;
    for (int i = 0; i < 3; i++) comm_wait(down, comm_exchange_begin(down, q, y, 1 - rank, x, 1 - rank));
}

static void a_wrong_order_is_found(void **state)
{
    (void)state;
    Ended good = run_in_child(act_play, &(Act *){ gradient_first }), ring = run_in_child(act_play, &(Act *){ a_ring });
    Ended bad  = run_in_child(act_play, &(Act *){ on_one_comm });
    assert_string_equal(good.text, "");
    assert_int_equal(good.exit_code, 0);
    assert_string_equal(ring.text, "");
    assert_int_equal(ring.exit_code, 0);
    assert_int_equal(bad.exit_code, 3);
    assert_contains(bad.text, "have waited 0.6 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_host),
        cmocka_unit_test(a_wrong_order_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
