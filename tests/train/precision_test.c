/* The same numbers under every layout in fp32, bf16 and fp16: loss and gradients of the first step on `cpu`,
 * dropout on, against one rank, and that one against `ref`. Losses: absolute, of about 4. Gradients: the
 * distance of each tensor in norms of that tensor.                                                        */
#include "train/layouts.h"
#include "train/whole.h"

typedef struct { double loss, gradients; } Within;
typedef struct { const char *name; PrecisionChoice choice; Within layouts, ref; } Types;
static const Types types[] = {
    { "fp32", { .mixed = MIXED_NONE },                       { 2e-6, 1e-5 }, { 1e-6, 5e-6 } },
    { "bf16", { .mixed = MIXED_BF16 },                       { 1e-3, 3e-2 }, { 1e-3, 3e-2 } },
    { "bf16 messages", { .mixed = MIXED_BF16, .message_bf16 = true, .state_bf16 = { true, true } },
      { 1e-3, 3e-2 }, { 1e-3, 3e-2 } },
    { "fp16", { .mixed = MIXED_F16 },                        { 2e-4, 4e-3 }, { 2e-4, 4e-3 } },
    { "fp8 delayed", { .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 4 } },
      { 2e-3, 0.25 }, { 3e-3, 0.25 } },
    { "fp8 current", { .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_CURRENT, .hybrid = true } },
      { 2e-3, 0.25 }, { 3e-3, 0.25 } },
};
static const Layout alone = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

/* Of the second step, after one that changes no weights: delayed scaling has taken its scales from it. */
static void gradients_take_later(Trainer *t, void *context)
{
    trainer_step(t);
    gradients_take(t, context);
}

/* t NULL: double */
static Gradients *gradients_under(ModelName model, const Types *t, const Layout *layout, const char *data)
{
    Session session = { .config = tiny_config(model, t ? "cpu" : "ref", data), .ranks = layout->ranks };
    if (t) session.config.precision = t->choice;
    session.body = gradients_take_later;
    session.config.lr = (LrSchedule){ LR_CONSTANT, 0, 0, 0, 20 };
    config_set_layout(&session.config, layout);
    session.context = gradients_new(&session.config.model);
    session_run(&session);
    return session.context;
}

static void check(Gradients *mine, Gradients *truth, Within within, ModelName model, const char *name)
{
    ModelConfig shape = tiny_config(model, "cpu", "").model;
    const char *worst = "", *word = model == MODEL_GPT ? "gpt" : "llama";
    double loss = fabs(mine->loss - truth->loss), norm = fabs(mine->norm - truth->norm) / truth->norm;
    double grads = gradients_differ(mine, truth, &shape, &worst);
    printf("%-6s %-26s loss off by %.1e, norm by %.1e, gradients by %.1e (%s)\n", word, name, loss, norm,
           grads, worst);
    if (!(loss <= within.loss)) fail_msg("%s %s: losses differ by %g", word, name, loss);
    if (!(norm <= within.gradients)) fail_msg("%s %s: gradient norms differ by %g", word, name, norm);
    if (!(grads <= within.gradients)) fail_msg("%s %s: %s is off by %g norms", word, name, worst, grads);
}

static void compare(ModelName model, const Types *t)
{
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    Gradients *ref = gradients_under(model, NULL, &alone, data);
    Gradients *one = gradients_under(model, t, &alone, data);
    printf("one rank in double: loss %.6f, gradient norm %.6f; %s:\n", ref->loss, ref->norm, t->name);
    check(one, ref, t->ref, model, "against ref");
    for (int i = 0; i < LAYOUTS; i++) {
        Gradients *many = gradients_under(model, t, &layouts[i], data);
        check(many, one, t->layouts, model, layouts[i].name);
        gradients_free(many);
    }
    gradients_free(one);
    gradients_free(ref);
}

static void compare_all(ModelName model)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) compare(model, &types[i]);
}

static void test_gpt  (void **state) { (void)state; compare_all(MODEL_GPT); }
static void test_llama(void **state) { (void)state; compare_all(MODEL_LLAMA); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
