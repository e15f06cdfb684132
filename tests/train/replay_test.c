/* A NaN in a weight of one layer is found on a rank that has it, in that layer, by the first operation that reads it; the replay changes
 * nothing, and the steps after it are those of a run without one. */
#include "train/step.h"
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

/* Where the weight's elements are on this rank, in a parameter block; NULL: it has none. */
static double *element_in(Trainer *t, int64_t block, ParamId id)
{
    for (int i = 0; i < t->buckets.count; i++) {
        Bucket *k = &t->buckets.bucket[i];
        int p = k->block.params ? k->block.index_of[id] : -1;
        if (k->block.index != block || p < 0 || !k->weights.data) continue;
        int64_t first = k->zero_stage < 3 ? 0 : k->own_first, count = k->zero_stage < 3 ? bucket_whole(k) : k->own_count;
        int64_t at = k->block.param[p].at - first;
        if (at >= 0 && at < count) return (double *)k->weights.data + at;
    }
    return NULL;
}

static double *element_of(Trainer *t, ParamId id) { return element_in(t, LAYER + 2, id); }

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
        queue_read(&t->queue, all, t->sums.total_S.data, sizeof all);
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

/* A flag of one rank, whichever it is, is known to all after the step; without one nothing is sent. Of ranks with the least number the
 * lowest is named, and none where no rank has a number. */
static void flag_alone(Trainer *t, void *context)
{
    int R = t->mesh.world, me = t->mesh.rank;
    (void)context;
    for (int who = 0; who < R; who++)
        for (int kind = 0; kind < 3; kind++) {
            volatile sig_atomic_t stop = who == me && kind == 2 ? 15 : 0;
            t->stop   = &stop;
            t->input.failed = who == me && kind == 1 ? BAD_FILE : OK;
            bool skipped = trainer_step(t).skipped;
            RunFlags flags = trainer_step_flags(t);
            if (skipped != (kind == 1) || t->sums.flagged != (kind > 0) || flags.failed != (kind == 1) || flags.signal != (kind == 2 ? 15 : 0) || flags.expired)
                fail_msg("a flag of rank %d, kind %d, on rank %d: skipped %d, flagged %d, failed %d, signal %d", who, kind, me, skipped, t->sums.flagged, flags.failed, flags.signal);
            t->stop   = NULL;
            t->input.failed = OK;
            assert_int_equal(trainer_least(t, me < who ? INFINITY : 7), who);
            assert_int_equal(trainer_least(t, (me + who) % R), (R - who) % R);
        }
    assert_int_equal(trainer_least(t, INFINITY), -1);
}

static void a_flag_of_one_rank_reaches_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        Job job = { .config = tiny_config(MODEL_GPT, "ref", scratch_path("corpus")), .ranks = layouts[i].ranks, .steps = 1 };
        config_set_layout(&job.config, &layouts[i]);
        job.look = flag_alone;
        job_run(&job);
    }
}

/* --test-mode: a bit of a copy that changes on one rank is found by it and by the others that hold the copy, and its name is said.
 * Without copies there is nothing to find. */
typedef struct { Layout layout; ModelName model; int64_t block; ParamId id; const char *ranks; } CopyCase;
static const CopyCase copies[] = {
    { { "tp2",               2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_NORM2_GAIN, "on 2 tensor-parallel ranks" },
    { { "tp2 seq dp2",       4, 2, 1, 1, 1, 1, true,  SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_NORM2_GAIN, "on 2 tensor-parallel ranks" },
    { { "dp2",               2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, "on 2 data-parallel ranks" },
    { { "dp3 zero2",         3, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, "on 3 data-parallel ranks" },
    { { "cp2 pp2",           4, 1, 2, 2, 1, 0, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, "on 2 data-parallel ranks" },
    { { "dp4 zero3 hybrid2", 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, "on 2 data-parallel ranks" },
    { { "pp2 tied",          2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B }, MODEL_GPT, 0, PARAM_EMBED_TOKEN_WEIGHT, "on 2 stages with the token embedding" },
    { { "tp4 of 2 heads",    4, 4, 1, 1, 1, 0, false, SCHEDULE_1F1B }, MODEL_LLAMA, LAYER + 2, PARAM_ATTENTION_KEY_WEIGHT, "on 2 tensor-parallel ranks with one" },
    { { "dp4 zero3",         4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, NULL },
    { { "tp2 split",         2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, MODEL_GPT, LAYER + 2, PARAM_MLP_UP_WEIGHT, NULL },
};

static int changed_by;
static void change_a_copy(Trainer *t, void *context)
{
    const CopyCase *of = context;
    char text[200] = "";
    double *x = element_in(t, of->block, of->id), was = x ? *x : 0;
    bool first = x && t->mesh.at.tp == 0 && t->mesh.at.dp < 2 && t->mesh.at.cp == 0 && (of->block > 0 || t->mesh.at.pp == 1);
    if (!weight_copies_equal(&t->copies, &t->buckets, text)) fail_msg("%s: %s", of->layout.name, text);
    if (first && __atomic_add_fetch(&changed_by, 1, __ATOMIC_RELAXED) == 1) *x = nextafter(was, INFINITY);
    bool equal = weight_copies_equal(&t->copies, &t->buckets, text);
    if (!equal && (!of->ranks || !strstr(text, ".weight") == !strstr(text, ".gain"))) fail_msg("%s: %s", of->layout.name, text);
    if (!equal && strstr(text, of->ranks)) __atomic_add_fetch(&found_by, 1, __ATOMIC_RELAXED);
}

static void a_changed_copy_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        Job job = { .config = tiny_config(copies[i].model, "ref", scratch_path("corpus")), .ranks = copies[i].layout.ranks, .steps = 2 };
        config_set_layout(&job.config, &copies[i].layout);
        job.config.global = 12;
        job.config.test_copies = true;
        job.look = change_a_copy;
        job.context = (void *)&copies[i];
        found_by = changed_by = 0;
        job_run(&job);
        if (changed_by < 1 || !found_by == !!copies[i].ranks) fail_msg("%s: found by %d ranks", copies[i].layout.name, found_by);
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_nan_is_named), cmocka_unit_test(the_step_again_is_the_same),
                                        cmocka_unit_test(a_flag_of_one_rank_reaches_all), cmocka_unit_test(a_changed_copy_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
