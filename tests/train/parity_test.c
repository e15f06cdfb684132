/* Against PyTorch in float64 (tests/oracles/parity.py made tests/golden/parity): loss, the gradient of every
 * tensor, 20 steps of AdamW with warm-up, decay and clipping in `ref`; then `cpu` against `ref`. Weights and
 * tokens come from formulas which both sides have. A step takes all samples there are, so the loader's order
 * does not matter.   */
#include "train/formula.h"

enum { STEPS = 20 };

/* Of those with a window a query sees 3 positions, its own among them, but in every second layer all. */
typedef struct { const char *name; ModelName model; ActivationKind activation; bool tied, reset, window; } Case;
static const Case cases[] = {
    { "gpt",              MODEL_GPT,   ACT_GELU_TANH,    true,  false, false },
    { "gpt_reset",        MODEL_GPT,   ACT_GELU_TANH,    true,  true,  false },
    { "gpt_untied_erf",   MODEL_GPT,   ACT_GELU_ERF,     false, false, false },
    { "llama",            MODEL_LLAMA, ACT_SWIGLU,       false, false, false },
    { "llama_reset",      MODEL_LLAMA, ACT_SWIGLU,       false, true,  false },
    { "llama_tied_relu2", MODEL_LLAMA, ACT_SQUARED_RELU, true,  false, false },
    { "llama_reset_window", MODEL_LLAMA, ACT_SWIGLU,     false, true,  true },
};
enum { CASES = sizeof cases / sizeof *cases };

static TrainConfig config_of(const Case *c, const char *device, const char *data)
{
    TrainConfig config = formula_config(c->model, device, data);
    config.model.activation = c->activation;  config.model.tied = c->tied;
    if (c->window) config.model.window = 3, config.model.window_skip = 2;
    config.reset_attention = config.reset_positions = config.mask_eod = c->reset;
    config.lr = (LrSchedule){ LR_COSINE, 1e-2, 1e-3, 3, STEPS };
    return config;
}

/* ---- our side ---- */

typedef struct { Gradients *gradients; double loss[STEPS], norm[STEPS]; } Course;

static void run_course(Trainer *t, void *context)
{
    Course *course = context;
    formula_weights(t);
    gradients_take(t, course->gradients);
    for (int i = 0; i < STEPS; i++) {
        StepReport r = trainer_step(t);
        course->loss[i] = r.loss;
        course->norm[i] = r.norm;
    }
}

static Course course_of(const Case *c, const char *device, const char *data)
{
    Session session = { .config = config_of(c, device, data), .ranks = 1, .body = run_course };
    Course course = { .gradients = gradients_new(&session.config.model) };
    session.context = &course;
    session_run(&session);
    return course;
}

/* ---- the other ---- */

static Course golden_of(const Case *c, const ModelConfig *shape)
{
    SafeFile file;
    char path[512];
    snprintf(path, sizeof path, "%s/golden/parity/%s.safetensors", TESTS_DIR, c->name);
    if (safetensors_open(&file, path) != OK) fail_msg("%s", fail_text());
    Course course = { .gradients = gradients_new(shape) };
    for (int i = 0; i < course.gradients->count; i++) {
        Whole *w = &course.gradients->of[i];
        golden_read(w->value, &file, w->name, w->count);
    }
    assert_int_equal(file.tensors, course.gradients->count + 3);               /* none that we do not have */
    golden_read(&course.gradients->loss, &file, "loss", 1);
    golden_read(course.loss, &file, "losses", STEPS);
    golden_read(course.norm, &file, "norms", STEPS);
    safetensors_close(&file);
    return course;
}

static double relative(double x, double truth) { return fabs(x - truth) / fabs(truth); }

static double most_relative(const double *x, const double *truth)
{
    double most = 0;
    for (int i = 0; i < STEPS; i++) most = relative(x[i], truth[i]) <= most ? most : relative(x[i], truth[i]);
    return most;
}

static void check(const Case *c, const char *what, double error, double tolerance)
{
    if (!(error <= tolerance)) fail_msg("%s: %s is off by %.1e, above %.0e", c->name, what, error, tolerance);
}

static void compare(const Case *c, const char *data)
{
    ModelConfig shape = config_of(c, "ref", data).model;
    Course golden = golden_of(c, &shape), ref = course_of(c, "ref", data), cpu = course_of(c, "cpu", data);
    const char *worst = "", *worst32 = "";
    double loss   = relative(ref.gradients->loss, golden.gradients->loss);
    double loss32 = relative(cpu.gradients->loss, ref.gradients->loss);
    double grads   = gradients_differ(ref.gradients, golden.gradients, &shape, &worst);
    double grads32 = gradients_differ(cpu.gradients, ref.gradients, &shape, &worst32);
    double losses = most_relative(ref.loss, golden.loss), norms = most_relative(ref.norm, golden.norm);
    printf("%-16s ref: loss %.1e, gradients %.1e (%s), 20 losses %.1e, norms %.1e\n", c->name, loss, grads,
           worst, losses, norms);
    printf("%-16s cpu: loss %.1e, gradients %.1e (%s)\n", "", loss32, grads32, worst32);
    assert_true(golden.norm[0] > 1 && golden.norm[STEPS - 1] < 1);   /* clipping acts on some steps only */
    check(c, "the loss", loss, 1e-12);
    check(c, worst, grads, 1e-10);
    check(c, "a loss of 20 steps", losses, 1e-10);
    check(c, "a norm of 20 steps", norms, 1e-10);
    check(c, "the loss on cpu", loss32, 1e-6);
    check(c, worst32, grads32, 5e-6);
    gradients_free(golden.gradients);
    gradients_free(ref.gradients);
    gradients_free(cpu.gradients);
}

static void test_cases(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("formula"));
    formula_corpus(data);
    for (int i = 0; i < CASES; i++) compare(&cases[i], data);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
