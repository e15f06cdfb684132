/* The same numbers under every layout in single precision: loss and gradients of the first step on `cpu`, dropout on, against one
 * rank. Loss: absolute, of about 4. Gradients: the distance of each tensor in norms of that tensor.                              */
#include "train/layouts.h"
#include "train/whole.h"

static const double loss_within = 2e-6, gradients_within = 1e-5;

static Gradients *gradients_under(ModelName model, const Layout *layout, const char *data)
{
    Session session = { .recipe = recipe_tiny(model, "cpu", data), .ranks = layout ? layout->ranks : 1, .body = gradients_take };
    if (layout) recipe_lay(&session.recipe, layout);
    session.context = gradients_new(&session.recipe.shape);
    session_run(&session);
    return session.context;
}

static void compare(ModelName model, const char *word)
{
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    Shape shape = recipe_tiny(model, "cpu", data).shape;
    Gradients *one = gradients_under(model, NULL, data);
    printf("%s, one rank: loss %.6f, gradient norm %.6f\n", word, one->loss, one->norm);
    for (int i = 0; i < LAYOUTS; i++) {
        const char *worst = "";
        Gradients *many = gradients_under(model, &layouts[i], data);
        double loss = fabs(many->loss - one->loss), norm = fabs(many->norm - one->norm) / one->norm;
        double grads = gradients_differ(many, one, &shape, &worst);
        printf("%-6s %-26s loss off by %.1e, norm by %.1e, gradients by %.1e (%s)\n", word, layouts[i].name, loss, norm, grads, worst);
        if (!(loss <= loss_within)) fail_msg("%s %s: losses differ by %g", word, layouts[i].name, loss);
        if (!(norm <= gradients_within)) fail_msg("%s %s: gradient norms differ by %g", word, layouts[i].name, norm);
        if (!(grads <= gradients_within)) fail_msg("%s %s: %s differs by %g of its norm", word, layouts[i].name, worst, grads);
        gradients_free(many);
    }
    gradients_free(one);
}

static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT,   "gpt"); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA, "llama"); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
