/* The same numbers under every layout in single precision: loss and gradients of the first step on `cpu`,
 * dropout on, against one rank, and that one against `ref`. Losses: absolute, of about 4. Gradients: the
 * distance of each tensor in norms of that tensor.                                                        */
#include "train/layouts.h"
#include "train/whole.h"

typedef struct { double loss, gradients; } Within;
static const Within layouts_within = { 2e-6, 1e-5 }, ref_within = { 1e-6, 5e-6 };
static const Layout alone = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

static Gradients *gradients_under(ModelName model, const char *device, const Layout *layout, const char *data)
{
    Session session = { .config = tiny_config(model, device, data), .ranks = layout->ranks };
    session.body = gradients_take;
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

static void compare(ModelName model)
{
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    Gradients *ref = gradients_under(model, "ref", &alone, data);
    Gradients *one = gradients_under(model, "cpu", &alone, data);
    printf("one rank in double: loss %.6f, gradient norm %.6f\n", ref->loss, ref->norm);
    check(one, ref, ref_within, model, "against ref");
    for (int i = 0; i < LAYOUTS; i++) {
        Gradients *many = gradients_under(model, "cpu", &layouts[i], data);
        check(many, one, layouts_within, model, layouts[i].name);
        gradients_free(many);
    }
    gradients_free(one);
    gradients_free(ref);
}

static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
