/* Items come out in the order they were filled, once each and worked on, with and without a reader; weight
 * is bounded; a pause forgets what was filled; closing in the middle ends all threads. */
#include <stdatomic.h>
#include <unistd.h>
#include "base/ordered_pipeline.h"
#include "base/testing.h"

enum { ITEMS = 2000, SLOTS_MOST = 16, HEAVY = 10 };

typedef struct {
    int64_t    filled, items, number[SLOTS_MOST], result[SLOTS_MOST];
    int        weight;                          /* of each item */
    atomic_int filling, weighed, weighed_most, calls;
} Job;

static bool fill(void *context, int slot, int64_t *weight)
{
    Job *job = context;
    assert_int_equal(atomic_fetch_add(&job->filling, 1), 0);
    bool more = job->filled < job->items;
    job->number[slot] = job->filled;
    job->result[slot] = -1;
    job->filled += more;
    *weight = job->weight;
    atomic_fetch_sub(&job->filling, 1);
    return more;
}

static void work(void *context, int worker, int slot)
{
    Job *job = context;
    int now = atomic_fetch_add(&job->weighed, 1) + 1;
    if (now > atomic_load(&job->weighed_most)) atomic_store(&job->weighed_most, now);
    if (job->number[slot] % 64 == worker) usleep(200);          /* some take longer than those after them */
    job->result[slot] = job->number[slot] * 3;
    atomic_fetch_add(&job->calls, 1);
    atomic_fetch_sub(&job->weighed, 1);
}

static OrderedPipelinePlan plan_of(Job *job, int workers, bool reader)
{
    *job = (Job){ .items = ITEMS };
    return (OrderedPipelinePlan){ .what = "a test", .workers = workers, .slots = workers + 2, .reader = reader, .context = job,
                                  .fill = fill, .work = workers ? work : NULL };
}

static void take_all(OrderedPipeline *p, const Job *job, int64_t from)
{
    int64_t next = from;
    for (int slot; (slot = ordered_pipeline_next(p)) >= 0; next++) {
        assert_int_equal(job->number[slot], next);
        if (job->calls) assert_int_equal(job->result[slot], next * 3);
    }
    assert_int_equal(next, job->items);
    assert_int_equal(ordered_pipeline_next(p), -1);             /* the end stays the end */
}

static void in_order(void **state)
{
    (void)state;
    Job job;
    OrderedPipeline *p;
    for (int workers = 0; workers <= 5; workers++)
        for (int reader = !workers; reader < 2; reader++) {
            OrderedPipelinePlan plan = plan_of(&job, workers, reader);
            assert_int_equal(ordered_pipeline_open(&p, &plan), OK);
            take_all(p, &job, 0);
            assert_int_equal(job.calls, workers ? ITEMS : 0);
            ordered_pipeline_close(p);
        }
}

/* Two items of a limit of two and a half; one that is heavier than the limit is alone in the ring. */
static void weight_is_bounded(void **state)
{
    (void)state;
    Job job;
    OrderedPipeline *p;
    for (int heavy = 0; heavy < 2; heavy++) {
        OrderedPipelinePlan plan = plan_of(&job, 4, true);
        job.items  = 200;
        job.weight = heavy ? 3 * HEAVY : HEAVY;
        plan.weight_most = 2 * HEAVY + HEAVY / 2;
        assert_int_equal(ordered_pipeline_open(&p, &plan), OK);
        take_all(p, &job, 0);
        ordered_pipeline_close(p);
        assert_true(job.weighed_most <= (heavy ? 1 : 2));
    }
}

/* Released early, a slot is filled again while its reader has gone on: with one slot too. */
static void released_early(void **state)
{
    (void)state;
    Job job;
    OrderedPipeline *p;
    OrderedPipelinePlan plan = plan_of(&job, 0, true);
    plan.slots = 1;
    assert_int_equal(ordered_pipeline_open(&p, &plan), OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(job.number[ordered_pipeline_next(p)], i);
        if (i % 2) ordered_pipeline_release(p);
        if (i % 3 == 0) ordered_pipeline_release(p);            /* twice, or none */
    }
    assert_true(ordered_pipeline_waited(p) >= 0);
    ordered_pipeline_close(p);
}

static void pauses_forget(void **state)
{
    (void)state;
    Job job;
    OrderedPipeline *p;
    for (int workers = 0; workers <= 3; workers += 3) {
        OrderedPipelinePlan plan = plan_of(&job, workers, true);
        plan.paused = true;
        assert_int_equal(ordered_pipeline_open(&p, &plan), OK);
        for (int64_t jump = 0; jump < 200; jump++) {
            job.filled = jump * 7;                              /* nobody else looks at it now */
            ordered_pipeline_resume(p);
            for (int64_t i = 0; i < jump % 5; i++) assert_int_equal(job.number[ordered_pipeline_next(p)], jump * 7 + i);
            ordered_pipeline_pause(p);
            assert_int_equal(job.filling + job.weighed, 0);
        }
        job.filled = ITEMS - 30;
        ordered_pipeline_resume(p);
        take_all(p, &job, ITEMS - 30);
        ordered_pipeline_close(p);
    }
}

static void closed_in_the_middle(void **state)
{
    (void)state;
    Job job;
    OrderedPipeline *p;
    for (int taken = 0; taken < 40; taken++) {
        OrderedPipelinePlan plan = plan_of(&job, 1 + taken % 4, taken % 2);
        assert_int_equal(ordered_pipeline_open(&p, &plan), OK);
        for (int i = 0; i < taken; i++) assert_int_equal(job.number[ordered_pipeline_next(p)], i);
        ordered_pipeline_close(p);
        assert_int_equal(job.filling + job.weighed, 0);
    }
    ordered_pipeline_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(weight_is_bounded),
        cmocka_unit_test(released_early),
        cmocka_unit_test(pauses_forget),
        cmocka_unit_test(closed_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
