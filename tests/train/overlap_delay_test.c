/* Messages that are late by a quarter of the computation that can hide them: of what --no-overlap loses to them the defaults regain a
 * part. Computation and messages take fixed times by a clock of each rank, so that the test is the same on a busy machine;
 * overlap_delay measures it in seconds. */
#include "train/overlap_rows.h"
#include "train/timed_backend.h"

enum { LAYERS = 8, STEPS = 6 };
#define STEP_SECONDS 1.0                               /* of computation of rank 0 in a step */

static Backend timed;

static void look_flops(Trainer *t, void *context)
{
    if (t->mesh.rank == 0) *(double *)context = queue_flops(&t->queue);
}

/* The mean time of a step after the first. */
static double seconds(const OverlapRow *row, double delay, bool apart)
{
    double sum = 0;
    Job job = { .config = overlap_config(row, LAYERS, apart), .ranks = row->ranks, .steps = STEPS, .delay = delay, .timed = &timed };
    test_clocks_reset();
    job_run(&job);
    for (int i = 1; i < STEPS; i++) sum += job.lap[i];
    return sum / (STEPS - 1);
}

static void test_regained(void **state)
{
    (void)state;
    int bad = 0;
    timed = timed_backend();
    for (int i = 0; i < OVERLAP_ROWS; i++) {
        const OverlapRow *row = &overlap_rows[i];
        double flops = 0;
        Job one = { .config = overlap_config(row, LAYERS, false), .ranks = row->ranks, .steps = 1, .look = look_flops, .context = &flops };
        job_run(&one);
        timed_seconds_per_flop = STEP_SECONDS / flops;
        seam.clock = test_clock_read;
        double none = seconds(row, 0, false), delay = overlap_delay(row, LAYERS, none);
        double apart = seconds(row, delay, true), beside = seconds(row, delay, false);
        seam = seam_system;
        bad += overlap_print(row, row->timed, delay, none, apart, beside);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_regained) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
