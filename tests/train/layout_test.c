/* The same numbers under every layout: 20 steps in double with dropout on, both models, against one rank. */
#include "train/layouts.h"

static void compare(ModelName model, const char *word)
{
    const char *data = scratch_path("corpus");
    int steps = turns(20, 4);
    char alone[512], folder[512], worst[128] = "";
    Job one = { .config = tiny_config(model, "ref", data), .ranks = 1, .steps = steps, .save = alone };
    snprintf(alone, sizeof alone, "%s/%s-one", scratch_folder(), word);
    one.config.eval_iters = 2;
    job_run(&one);
    if (steps == 20) assert_true(one.loss[19] < one.loss[0] - 0.2);     /* it learns */
    assert_true(one.valid < one.first_valid);
    printf("%s, one rank: loss %.6f -> %.6f, valid %.6f -> %.6f\n", word, one.loss[0], one.loss[steps - 1], one.first_valid, one.valid);
    for (int i = 0; i < LAYOUTS; i++) {
        Job job = { .config = tiny_config(model, "ref", data), .ranks = layouts[i].ranks, .steps = steps, .save = folder };
        snprintf(folder, sizeof folder, "%s/%s-%d", scratch_folder(), word, i);
        config_set_layout(&job.config, &layouts[i]);
        job.config.eval_iters = 2;
        job_run(&job);
        double most = fabs(job.valid - one.valid);
        for (int s = 0; s < steps; s++) most = fmax(most, fabs(job.loss[s] - one.loss[s]));
        for (int s = 0; s < steps; s++) if (!(fabs(job.norm[s] - one.norm[s]) <= 1e-11)) fail_msg("%s %s: gradient norm of step %d differs by %g", word, layouts[i].name, s + 1, job.norm[s] - one.norm[s]);
        double weights = checkpoints_differ(alone, folder, steps, false, worst);
        printf("%-6s %-26s losses off by %.1e, weights by %.1e (%s)\n", word, layouts[i].name, most, weights, worst);
        if (!(most <= 1e-12)) fail_msg("%s %s: losses differ by %g", word, layouts[i].name, most);
        if (!(weights <= 1e-11)) fail_msg("%s %s: %s differs by %g", word, layouts[i].name, worst, weights);
    }
}

static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT,   "gpt"); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA, "llama"); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
