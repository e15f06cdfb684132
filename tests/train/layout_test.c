/* The same numbers under every layout: 20 steps in double with dropout on, both models, against one rank. */
#include "train/compare.h"
#include "train/layouts.h"

static void compare(ModelName model, const char *word)
{
    TrainConfig config = tiny_config(model, "ref", scratch_path("corpus"));
    int steps = turns(20, 4);
    char alone[512];
    Job one = one_run(config, word, steps, steps == 20 ? 0.2 : -1, alone);
    assert_true(one.valid < one.first_valid);
    for (int i = 0; i < LAYOUTS; i++) {
        Setup setup = { layouts[i].name, config, layouts[i].ranks };
        config_set_layout(&setup.config, &layouts[i]);
        one_compare(&one, &setup, word);
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
