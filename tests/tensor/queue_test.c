/* Devices by name, refusals, what the wrappers count, and the check for NaN and infinity. */
#include "base/testing.h"

#include <math.h>
#include "base/random.h"
#include "base/seam.h"
#include "tensor/ops.h"

static void devices(void **state)
{
    (void)state;
    static const struct { const char *device; Dtype compute; bool dry; int team; } known[] = {
        { "ref",     F64, false, 3 }, { "cpu",     F32, false, 3 },
        { "dry-ref", F64, true,  1 }, { "dry-cpu", F32, true,  1 },
    };
    StepState step_state = { 0 };
    for (int i = 0; i < 4; i++) {
        Queue q;
        assert_int_equal(queue_open(&q, known[i].device, 3, &step_state), OK);
        assert_string_equal(q.backend->name, known[i].device);
        assert_int_equal(q.backend->compute, known[i].compute);
        assert_int_equal(q.backend->dry, known[i].dry);
        assert_int_equal(team_size(q.team), known[i].team);
        assert_ptr_equal(q.step_state, &step_state);
        queue_wait(&q);
        queue_close(&q);
    }
}

static void refusals(void **state)
{
    (void)state;
    Queue q;
    assert_int_equal(queue_open(&q, "tpu", 1, NULL), BAD_OPTION);
    assert_contains(fail_text(), "device tpu is unknown; give cpu,");
    queue_close(&q);
    assert_int_equal(queue_open(&q, "cpu", 0, NULL), BAD_OPTION);
    assert_int_equal(queue_open(&q, "cuda", 1, NULL), BAD_OPTION);
    assert_contains(fail_text(), "--device cuda: this program was built without kernels for GPUs; build it");
}

/* ---- the wrappers, around a back end of our own ---- */
static const char *op_during;
static int64_t     now;
static int64_t     jumping_clock(void) { return now += 500000000; }

static void own_add(Queue *q, const Accumulate *a)
{
    (void)q;
    op_during      = thread_context()->op;
    float       *y = a->y.data;
    const float *x = a->x.data;
    for (int64_t i = 0; i < a->y.dim[0]; i++)
        for (int64_t j = 0; j < a->y.dim[1]; j++) y[i * a->y.stride[0] + j] += x[i * a->x.stride[0] + j];
}
static void own_stats(Queue *q, const XentStats *a) { (void)q, (void)a; }
static const Backend own = { .name = "own", .compute = F32, .activation = 1u << F32, .accumulate = own_add, .xent_stats = own_stats };

static void wrappers_count_and_time(void **state)
{
    (void)state;
    float  y[4] = { 1, 2, 3, 4 };
    Tensor y_22 = tensor_at(y, F32, (const int64_t[]){ 2, 2 }, 2);
    Queue  q    = { .backend = &own };
    accumulate(&q, (Accumulate){ y_22, y_22 });
    assert_true(q.count[OP_accumulate].seconds == 0);               /* not timed */
    q.timed    = true;
    seam.clock = jumping_clock;
    thread_context()->op = "outer";
    accumulate(&q, (Accumulate){ y_22, y_22 });
    seam = seam_system;
    assert_string_equal(op_during, "accumulate");
    assert_string_equal(thread_context()->op, "outer");
    thread_context()->op = NULL;
    assert_true(y[3] == 16);
    assert_int_equal(q.count[OP_accumulate].calls, 2);
    assert_true(q.count[OP_accumulate].seconds == 0.5);
    assert_true(queue_bytes(&q) == 64 && queue_flops(&q) == 0);
}

static void adds_watched(void *context)
{
    float  y[6] = { 1, 2, NAN, 3, 4, 5 }, x[6] = { 0 };      /* the NaN is outside of the rows of two */
    y[*(int *)context] = INFINITY;
    Tensor y_22 = tensor_slice(tensor_at(y, F32, (const int64_t[]){ 2, 3 }, 2), 1, 0, 2);
    Tensor x_22 = tensor_slice(tensor_at(x, F32, (const int64_t[]){ 2, 3 }, 2), 1, 0, 2);
    Queue  q    = { .backend = &own, .watch = true };
    accumulate(&q, (Accumulate){ y_22, x_22 });
}

static void watching_names_op_and_tensor(void **state)
{
    (void)state;
    int inside = 4, beside = 5;
    assert_int_equal(run_in_child(adds_watched, &beside).exit_code, 0);
    Ended run = run_in_child(adds_watched, &inside);
    assert_int_equal(run.exit_code, 3);
    assert_contains(run.text, ", in accumulate: y[1, 1, 0, 0] is inf (tensor/ops.c:");
}

static void stats_watched(void *context)
{
    float stats[3] = { *(float *)context, 0, 0 };
    Queue  q        = { .backend = &own, .watch = true };
    xent_stats(&q, (XentStats){ .stats_T3 = tensor_at(stats, F32, (const int64_t[]){ 1, 3 }, 2) });
}

static void largest_of_no_columns_is_no_alarm(void **state)
{
    (void)state;
    float none = -INFINITY, broken = NAN;
    assert_int_equal(run_in_child(stats_watched, &none).exit_code, 0);
    assert_contains(run_in_child(stats_watched, &broken).text, "in xent_stats: stats_T3[0, 0, 0, 0] is ");
}

static void small_words(void **state)
{
    (void)state;
    StepState a = { .seed = 1, .step = 2 }, b = { .seed = 1, .step = 3 };
    assert_false(tensor_present(tensor_none()));
    assert_int_equal(tensor_count(tensor_none()), 0);
    assert_int_equal(dropout_key(&a, 7), random_mix(random_mix(1, 2), 7));
    assert_int_not_equal(dropout_key(&a, 7), dropout_key(&b, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),
        cmocka_unit_test(refusals),
        cmocka_unit_test(wrappers_count_and_time),
        cmocka_unit_test(watching_names_op_and_tensor),
        cmocka_unit_test(largest_of_no_columns_is_no_alarm),
        cmocka_unit_test(small_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
