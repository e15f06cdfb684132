/* The runs of a shard against a search over all elements of small tensors, and by hand. */
#include "base/testing.h"

#include "tensor/tensor_shard.h"

/* The box's elements one by one, as places in the logical tensor */
static int64_t enumerate(const TensorShard *p, int64_t *place)
{
    int64_t n = 0, i[4] = { 0 };
    for (int64_t all = 0, end = p->box[0] * p->box[1] * p->box[2] * p->box[3]; all < end; all++) {
        int64_t at = 0;
        for (int d = 0; d < 4; d++) at = at * p->global[d] + p->offset[d] + i[d];
        place[n++] = at;
        for (int d = 3; d >= 0 && ++i[d] == p->box[d]; d--) i[d] = 0;
    }
    return n;
}

static void check_runs(const TensorShard *p, const int64_t *place)
{
    int64_t  cursor = 0, local = 0, end = -1;
    TensorShardRun run;
    while (tensor_shard_next_run(p, &cursor, &run)) {
        assert_int_equal(run.local, local);
        assert_true(run.count > 0 && run.local + run.count <= p->count);
        assert_true(run.global != end);        /* rows that touch are joined */
        for (int64_t i = 0; i < run.count; i++)
            if (run.global + i != place[p->first + local + i]) fail_msg("element %ld", (long)(local + i));
        local += run.count;
        end    = run.global + run.count;
    }
    assert_int_equal(local, p->count);
    assert_false(tensor_shard_next_run(p, &cursor, &run));
}

static void check_flats(TensorShard *p)
{
    int64_t place[64], n = enumerate(p, place);
    for (p->first = 0; p->first <= n; p->first++)
        for (p->count = 0; p->first + p->count <= n; p->count++) check_runs(p, place);
}

/* every box of the tensor, dim by dim */
static void check_boxes(TensorShard *p, int d)
{
    if (d == p->dims) {
        check_flats(p);
        return;
    }
    for (p->offset[d] = 0; p->offset[d] < p->global[d]; p->offset[d]++)
        for (p->box[d] = 1; p->offset[d] + p->box[d] <= p->global[d]; p->box[d]++) check_boxes(p, d + 1);
    p->offset[d] = 0;
}

static void every_small_box(void **state)
{
    (void)state;
    static const struct { int dims; int64_t global[4]; } shapes[] = {
        { 1, { 7, 1, 1, 1 } }, { 2, { 3, 4, 1, 1 } }, { 2, { 1, 5, 1, 1 } }, { 2, { 5, 1, 1, 1 } },
        { 3, { 2, 3, 3, 1 } }, { 3, { 2, 1, 3, 1 } }, { 4, { 2, 2, 1, 3 } },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        TensorShard p = { .name = "w", .dims = shapes[i].dims, .box = { 1, 1, 1, 1 } };
        memcpy(p.global, shapes[i].global, sizeof p.global);
        check_boxes(&p, 0);
    }
}

static void by_hand(void **state)
{
    (void)state;
    /* columns 4..7 of a [3, 8] matrix, of that box elements 2..8: three rows */
    TensorShard p = { .name = "w", .dims = 2, .global = { 3, 8 }, .offset = { 0, 4 }, .box = { 3, 4 } };
    p.first = 2, p.count = 7;
    TensorShardRun run, expected[] = { { 6, 0, 2 }, { 12, 2, 4 }, { 20, 6, 1 } };
    int64_t  cursor = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(tensor_shard_next_run(&p, &cursor, &run));
        assert_memory_equal(&run, &expected[i], sizeof run);
    }
    assert_false(tensor_shard_next_run(&p, &cursor, &run));
}

static void empty_is_done(void **state)
{
    (void)state;
    TensorShard    p      = { .name = "w", .dims = 2, .global = { 3, 8 }, .box = { 0, 8 } };
    int64_t  cursor = 0;
    TensorShardRun run;
    assert_false(tensor_shard_next_run(&p, &cursor, &run));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_box),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(empty_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
