/* A region verb and its backward are adjoint: <f x, y> = <x, g y>, where a value that all ranks hold alike counts once and
 * values that differ by rank count in each.      T tokens   t tokens held   C channels */
#include "comm/region.h"

#include <math.h>
#include "base/random.h"
#include "comm/transport.h"
#include "base/testing.h"

enum { T = 12, C = 5 };
typedef struct { bool sequence; double product, enter, leave; } Pairs;

static Tensor random_rows(Arena *arena, const char *name, int64_t rows)
{
    Tensor x = tensor_new(arena, "rows", F64, rows, C);
    for (int64_t i = 0; i < rows * C; i++) ((double *)x.data)[i] = random_normal(random_key(3, name), (uint64_t)i);
    return x;
}

static Tensor twin(Region *tp, Tensor x)                  /* a verb may work in place */
{
    Tensor y = tensor_new(tp->scratch, "twin", F64, x.dim[0], x.dim[1]);
    copy_strided(tp->queue, (CopyStrided){ .y = y, .x = x });
    return y;
}

/* Over all ranks; `alike`: both are the same everywhere, rank 0's counts. */
static double inner(Region *tp, Tensor a, Tensor b, bool alike)
{
    assert_int_equal(tensor_count(a), tensor_count(b));
    Tensor sum = tensor_new(tp->scratch, "inner", F64, 1);
    double *s  = sum.data;
    *s = 0;
    for (int64_t i = 0; i < tensor_count(a) && !(alike && comm_rank(tp->comm)); i++)
        *s += ((double *)a.data)[i] * ((double *)b.data)[i];
    comm_all_reduce(tp->comm, tp->queue, sum, tp->scratch);
    return *s;
}

static Status region_body(Transport *transport, void *context)
{
    Pairs *pairs = context;
    Comm  *world;
    Queue  q;
    Arena  arena;
    world = comm_world(transport);
    TRY(queue_open(&q, "ref", 1, NULL));
    TRY(arena_open(&arena, "scratch", 1 << 20));
    Region  tp = { world, &q, &arena, pairs->sequence };
    int64_t t  = pairs->sequence ? T / transport->size : T;
    char    mine[16] = { (char)('a' + transport->rank) };
    bool    alike = !pairs->sequence;                     /* the narrow side: all rows on all ranks when plain */

    Tensor x_tC = random_rows(&arena, alike ? "all" : mine, t), y_TC = random_rows(&arena, mine, T);
    Tensor fx   = tp_enter_forward(&tp, x_tC);
    assert_int_equal(fx.dim[0], T);
    double left = inner(&tp, fx, y_TC, false), right = inner(&tp, x_tC, tp_enter_backward(&tp, twin(&tp, y_TC), tp.scratch), alike);
    double enter = fabs(left - right);

    Tensor gx = tp_leave_forward(&tp, twin(&tp, y_TC));
    assert_int_equal(gx.dim[0], t);
    left  = inner(&tp, gx, x_tC, alike);
    right = inner(&tp, y_TC, tp_leave_backward(&tp, x_tC, &arena), false);
    double leave = fabs(left - right);

    Tensor rows = tp_rows(&tp, y_TC);
    assert_int_equal(rows.dim[0], t);
    assert_ptr_equal(rows.data, (double *)y_TC.data + (pairs->sequence ? transport->rank * t * C : 0));
    if (transport->rank == 0) pairs->enter = enter, pairs->leave = leave, pairs->product = fabs(left);
    arena_close(&arena);
    queue_close(&q);
    comm_close(world);
    return OK;
}

static void verbs_and_their_backwards_are_adjoint(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int sequence = 0; sequence < 2; sequence++) {
            Pairs pairs = { .sequence = sequence };
            assert_int_equal(transport_threads_run(ranks, region_body, &pairs), OK);
            assert_true(pairs.product > 1e-3);              /* the product itself is no zero */
            assert_true(pairs.enter < 1e-12 && pairs.leave < 1e-12);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(verbs_and_their_backwards_are_adjoint) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
