/* A NaN in a weight of one layer is found on a rank that has it, in that layer, by the first operation that reads it; the replay changes
 * nothing, and the steps after it are those of a run without one. */
#include "train/compare.h"
#include "train/replay.h"

static const Layout layouts[] = {
    { "one rank",                  1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 dp2 zero1",     8, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },
    { "pp2 zb-h1",                 2, 1, 1, 2, 1, 0, false, SCHEDULE_ZB_H1 },
    { "dp4 zero3",                 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "cp2 pp2 interleaved",       4, 1, 2, 2, 2, 0, false, SCHEDULE_INTERLEAVED },
};
enum { LAYER = 2 };

/* Where the weight's elements are on this rank; NULL: it has none. */
static double *element_of(Trainer *t, ParamId id)
{
    for (int i = 0; i < t->buckets.count; i++) {
        Bucket *k = &t->buckets.bucket[i];
        int p = k->block.params ? k->block.index_of[id] : -1;
        if (k->block.index != LAYER + 2 || p < 0 || !k->weights.data) continue;
        int64_t first = k->zero_stage < 3 ? 0 : k->own_first, count = k->zero_stage < 3 ? bucket_whole(k) : k->own_count;
        int64_t at = k->block.param[p].at - first;
        if (at >= 0 && at < count) return (double *)k->weights.data + at;
    }
    return NULL;
}

static int found_by;                                       /* ranks that found it in the right place */
static void poke(Trainer *t, void *context)
{
    (void)context;
    double *x = element_of(t, PARAM_MLP_UP_WEIGHT), was = x ? *x : 0;
    OpFinding f = { .unit = -1 };
    if (x) *x = NAN;
    StepReport bad = trainer_step(t);
    assert_true(bad.skipped && !bad.spike);
    trainer_again(t, &f);
    if (x) {
        assert_true(f.found);
        if (f.unit != LAYER + 1 || !strstr(f.op, "matmul") || !strstr(f.text, "w_KC") || !strstr(f.text, " is nan"))
            fail_msg("unit %d, %s: %s", f.unit, f.op, f.text);
        __atomic_add_fetch(&found_by, 1, __ATOMIC_RELAXED);
    }
    /* the rank that is named has found it */
    int least = trainer_least(t, f.found ? f.unit : INFINITY);
    assert_true(least >= 0 && (least != t->mesh.rank || f.found));
    assert_true(replay_step(t));
    if (!strstr(fail_text(), "in layer 3 of 4, matmul_activation_forward: y_TF[0, 0, 0, 0] is nan")) fail_msg("%s", fail_text());
    if (x) *x = was;
    OpFinding none = { .unit = -1 };
    trainer_again(t, &none);
    assert_false(none.found);
}

static void a_nan_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        Job job = { .config = tiny_config(MODEL_GPT, "ref", scratch_path("corpus")), .ranks = layouts[i].ranks, .steps = 2 };
        config_set_layout(&job.config, &layouts[i]);
        job.look = poke;
        found_by = 0;
        job_run(&job);
        assert_true(found_by > 0);
    }
}

/* The step again gives the same gradients to the bit. */
static double again_norm[2];
static void twice(Trainer *t, void *context)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        OpFinding f = { .unit = -1 };
        double all[3];
        trainer_again(t, &f);
        queue_read(&t->queue, all, t->sums_S.data, sizeof all);
        if (t->mesh.rank == 0) again_norm[i] = all[2];
        trainer_gradients(t);
    }
}

static void the_step_again_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        Job job = { .config = tiny_config(MODEL_LLAMA, "ref", scratch_path("corpus")), .ranks = layouts[i].ranks, .steps = 3 };
        config_set_layout(&job.config, &layouts[i]);
        job.look = twice;
        job_run(&job);
        assert_true(again_norm[0] == again_norm[1] && again_norm[0] != 0);
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_nan_is_named), cmocka_unit_test(the_step_again_is_the_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
