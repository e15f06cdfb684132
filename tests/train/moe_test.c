/* Mixture of experts: the same numbers under every layout, 10 steps in double with dropout on, against one rank. */
#include "train/moe_layouts.h"

static void compare(ModelName model, const char *word)
{
    const char *data = scratch_path("corpus");
    int steps = turns(10, 3);
    char alone[512], folder[512], worst[128] = "";
    Job one = { .config = moe_config(model, "ref", data), .ranks = 1, .steps = steps, .save = alone };
    snprintf(alone, sizeof alone, "%s/%s-one", scratch_folder(), word);
    one.config.eval_iters = 2;
    job_run(&one);
    if (steps == 10) assert_true(one.loss[9] < one.loss[0] - 0.02);     /* it learns */
    printf("%s, one rank: loss %.6f -> %.6f, valid %.6f -> %.6f\n", word, one.loss[0], one.loss[steps - 1],
           one.first_valid, one.valid);
    for (int i = 0; i < MOE_LAYOUTS; i++) {
        const char *name = moe_layouts[i].layout.name;
        Job job = { .config = moe_config(model, "ref", data), .ranks = moe_layouts[i].layout.ranks, .steps = steps,
                    .save = folder };
        snprintf(folder, sizeof folder, "%s/%s-%d", scratch_folder(), word, i);
        moe_set_layout(&job.config, &moe_layouts[i]);
        job.config.eval_iters = 2;
        job_run(&job);
        double most = fabs(job.valid - one.valid), norms = 0;
        for (int s = 0; s < steps; s++) most  = fmax(most, fabs(job.loss[s] - one.loss[s]));
        for (int s = 0; s < steps; s++) norms = fmax(norms, fabs(job.norm[s] - one.norm[s]));
        double weights = checkpoints_differ(alone, folder, steps, false, worst);
        printf("%-6s %-26s losses off by %.1e, norms by %.1e, weights by %.1e (%s)\n", word, name, most, norms, weights,
               worst);
        if (!(most <= 1e-12)) fail_msg("%s %s: losses differ by %g", word, name, most);
        if (!(norms <= 1e-11)) fail_msg("%s %s: gradient norms differ by %g", word, name, norms);
        if (!(weights <= 1e-11)) fail_msg("%s %s: %s differs by %g", word, name, worst, weights);
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
