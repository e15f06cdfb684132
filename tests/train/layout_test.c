/* The same numbers under every layout: 4 steps in double (JOTUN_FULL: 20) with dropout on, both models, against one
 * rank; 4 steps with multi-token prediction. */
#include "train/compare.h"
#include "train/layouts.h"

static void compare(ModelName model, const char *word)
{
    TrainConfig config = tiny_config(model, "ref", scratch_path("corpus"));
    int steps = getenv("JOTUN_FULL") ? 20 : 4;
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

/* The head is untied, or tied and its units recomputed. Layouts by hand have the depths before L. */
static void compare_mtp(int depths, const char *word)
{
    TrainConfig config = tiny_config(MODEL_LLAMA, "ref", scratch_path("corpus"));
    char alone[512], layers[64];
    config.model.mtp = depths;  config.model.mtp_factor = 0.5;
    if (depths == 1) {
        config.model.tied = config.reset_attention = config.reset_positions = config.mask_eod = true;
        config.recompute = (Recompute){ .method = RECOMPUTE_UNIFORM, .layers = 1 };
    }
    Job one = one_run(config, word, 4, -1, alone);
    for (int i = 0; i < LAYOUTS; i++) {
        Setup setup = { layouts[i].name, config, layouts[i].ranks };
        config_set_layout(&setup.config, &layouts[i]);
        snprintf(layers, sizeof layers, "%.*s%sL", layouts[i].layers ? (int)strlen(layouts[i].layers) - 1 : 0,
                 layouts[i].layers ? layouts[i].layers : "", depths == 1 ? "m" : "mm");
        if (layouts[i].layers) setup.config.layer_split.layout = layers;
        one_compare(&one, &setup, word);
    }
}

static void test_mtp     (void **state) { (void)state; compare_mtp(2, "mtp"); }
static void test_mtp_tied(void **state) { (void)state; compare_mtp(1, "mtp-tied"); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama),
                                        cmocka_unit_test(test_mtp), cmocka_unit_test(test_mtp_tied) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
