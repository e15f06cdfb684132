/* Mixture of experts: the same numbers under every layout, in double with dropout on, against one rank. */
#include "train/moe_layouts.h"

static void compare(ModelName model, const char *word)
{
    TrainConfig config = moe_config(model, "ref", scratch_path("corpus"));
    config.model.moe.shared_gate = model == MODEL_LLAMA;
    int steps = turns(10, 3);
    char alone[512];
    Job one = one_run(config, word, steps, steps == 10 ? 0.02 : -1, alone);
    for (int i = 0; i < MOE_LAYOUTS; i++) {
        Setup setup = moe_setup(config, &moe_layouts[i]);
        one_compare(&one, &setup, word);
    }
}

static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT,   "gpt"); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA, "llama"); }

static void test_span(void **state)
{
    (void)state;
    Job one;
    char alone[512];
    for (int i = 0; i < MOE_SPAN; i++) {
        const MoeSpan *s = &moe_span[i];
        TrainConfig config = moe_config(MODEL_GPT, "ref", scratch_path("corpus"));
        config.model.experts  = s->experts;
        config.model.moe.topk = s->topk;
        config.model.moe.rule.pre_softmax = s->topk == 1;       /* else its weight is 1 and the router learns nothing */
        if (i == 0 || s->experts != s[-1].experts || s->topk != s[-1].topk)
            one = one_run(config, "span", turns(4, 2), -1, alone);
        Setup setup = moe_setup(config, &s->at);
        one_compare(&one, &setup, "span");
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama), cmocka_unit_test(test_span) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
