/* Saved under one layout, opened under another: tensors and states to the bit, and the losses go on as if
 * nothing had happened. */
#include "train/harness.h"

static const Layout from = { "tp2 pp2 dp2 zero1", 8, 2, 1, 2, 1, 1, false, SCHEDULE_1F1B };
static PrecisionChoice choice;                             /* of the test that runs */
static const Layout into[] = {
    { "tp2 pp2 dp2 zero1",  8, 2, 1, 2, 1, 1, false, SCHEDULE_1F1B },
    { "dp4 zero3",          4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "cp2",                2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "one rank",           1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 zb-h1",  4, 2, 1, 2, 1, 0, true,  SCHEDULE_ZB_H1 },
    { "dp2 zero2 pp2 interleaved", 4, 1, 1, 2, 2, 2, false, SCHEDULE_INTERLEAVED },
};

/* The loss scale begins so high that the first steps overflow, and grows again within the run. */
static const LossScaling scaling = { true, 1, 3, 1 };

static Job job_of(ModelName model, const char *device, const Layout *layout, int steps, const char *save, const char *load)
{
    Job job = { .config = tiny_config(model, device, scratch_path("corpus")), .ranks = layout->ranks, .steps = steps, .save = save, .load = load };
    config_set_layout(&job.config, layout);
    job.config.precision = choice;
    if (choice.mixed == MIXED_F16) job.config.scaling = scaling, job.config.loss_scale = 0x1p24;
    job.config.settings.stochastic = choice.state_bf16[0];
    return job;
}

static void compare(ModelName model, const char *device, double losses_within)
{
    int half_way = turns(10, 2);
    char whole[512], half[512], again[512], worst[128] = "";
    snprintf(whole, sizeof whole, "%s/%d-%s%d-whole", scratch_folder(), model, device, choice.mixed);
    snprintf(half,  sizeof half,  "%s/%d-%s%d-half",  scratch_folder(), model, device, choice.mixed);
    Job straight = job_of(model, device, &from, 2 * half_way, whole, NULL), first = job_of(model, device, &from, half_way, half, NULL);
    job_run(&straight);
    job_run(&first);
    for (size_t i = 0; i < sizeof into / sizeof *into; i++) {
        snprintf(again, sizeof again, "%s/%d-%s%d-again%zu", scratch_folder(), model, device, choice.mixed, i);
        Job copy = job_of(model, device, &into[i], 0, again, half);
        job_run(&copy);
        double off = checkpoints_differ(half, again, half_way, true, worst);
        if (off != 0) fail_msg("%s into %s: %s differs by %g", device, into[i].name, worst, off);
        Job rest = job_of(model, device, &into[i], half_way, again, half);
        job_run(&rest);
        double most = 0;
        for (int s = 0; s < half_way; s++) most = fmax(most, fabs(rest.loss[s] - straight.loss[half_way + s]));
        printf("%s %s into %-26s states to the bit, losses off by %.1e\n", device, model == MODEL_GPT ? "gpt" : "llama", into[i].name, most);
        if (!(most <= losses_within)) fail_msg("%s into %s: losses differ by %g", device, into[i].name, most);
        if (i > 0) continue;
        /* the same layout: the same bits, weights and states too */
        assert_true(most == 0);
        assert_true(checkpoints_differ(whole, again, 2 * half_way, true, worst) == 0);
    }
}

static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT,   "ref", 1e-12); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA, "ref", 1e-12); }
static void test_cpu  (void **state) { (void)state; compare(MODEL_LLAMA, "cpu", 2e-4); }      /* float sums in another order, 10 steps on */

static void test_bf16(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_BF16, .message_bf16 = true, .state_bf16 = { true, true } };
    compare(MODEL_LLAMA, "cpu", 2e-2);
}
static void test_fp16(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_F16 };
    compare(MODEL_GPT, "cpu", 2e-3);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama), cmocka_unit_test(test_cpu),
                                        cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp16) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
