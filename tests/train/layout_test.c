/* The same numbers under every layout: 20 steps in double with dropout on, both models, against one rank. */
#include "train/harness.h"

static const Layout layouts[] = {
    /* name                  ranks tp cp pp chunks zero sequence schedule */
    { "dp2",                     2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero1",               4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp4 zero2",               4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "dp4 zero3",               4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "tp2",                     2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 sequence",            2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "pp2 1f1b",                2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },
    { "pp4 zb-h1",               4, 1, 1, 4, 1, 0, false, SCHEDULE_ZB_H1 },
    { "pp2 interleaved",         2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED },
    { "cp2",                     2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "cp4",                     4, 1, 4, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 dp2 zero1",   8, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },
    { "tp2 cp2 pp2 interleaved", 8, 2, 2, 2, 2, 0, true,  SCHEDULE_INTERLEAVED },
    { "pp2 zb-h1 dp2 zero3 cp2", 8, 1, 2, 2, 1, 3, false, SCHEDULE_ZB_H1 },
    { "tp2 seq cp2 dp2 zero3",   8, 2, 2, 1, 1, 3, true,  SCHEDULE_1F1B },
    { "one rank, two chunks",    1, 1, 1, 1, 2, 0, false, SCHEDULE_INTERLEAVED },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void job_check_memory(const Job *job, const char *name)
{
    for (int r = 0; r < job->ranks; r++)
        if (job->arena_off[r] != 0) fail_msg("%s: rank %d took %lld bytes more or less than its dry run", name, r, (long long)job->arena_off[r]);
}

static void compare(ModelName model, const char *word)
{
    const char *data = scratch_path("corpus");
    char alone[512], folder[512], worst[128] = "";
    Job one = { .recipe = recipe_tiny(model, "ref", data), .ranks = 1, .steps = 20, .save = alone };
    snprintf(alone, sizeof alone, "%s/%s-one", scratch_folder(), word);
    one.recipe.eval_iters = 2;
    job_run(&one);
    assert_true(one.loss[19] < one.loss[0] - 0.2);                      /* it learns */
    assert_true(one.valid < one.first_valid);
    printf("%s, one rank: loss %.6f -> %.6f, valid %.6f -> %.6f\n", word, one.loss[0], one.loss[19], one.first_valid, one.valid);
    for (int i = 0; i < LAYOUTS; i++) {
        Job job = { .recipe = recipe_tiny(model, "ref", data), .ranks = layouts[i].ranks, .steps = 20, .save = folder };
        snprintf(folder, sizeof folder, "%s/%s-%d", scratch_folder(), word, i);
        recipe_lay(&job.recipe, &layouts[i]);
        job.recipe.eval_iters = 2;
        job_run(&job);
        double most = fabs(job.valid - one.valid);
        for (int s = 0; s < 20; s++) most = fmax(most, fabs(job.loss[s] - one.loss[s]));
        double weights = checkpoints_differ(alone, folder, 20, false, worst);
        printf("%-6s %-26s losses off by %.1e, weights by %.1e (%s)\n", word, layouts[i].name, most, weights, worst);
        job_check_memory(&job, layouts[i].name);
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
