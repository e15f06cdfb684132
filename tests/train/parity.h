#ifndef TESTS_TRAIN_PARITY_H
#define TESTS_TRAIN_PARITY_H
/* Small models against PyTorch in float64 (tests/oracles/parity.py and moe.py): loss, the gradient of every
 * tensor, 20 steps of AdamW with warm-up, decay and clipping. Weights and tokens come from formulas which both
 * sides have (train/formula.h). A step takes all samples there are, so the loader's order does not matter. */
#include "train/step.h"
#include "train/formula.h"

enum { STEPS = 20 };

static inline TrainConfig parity_config(ModelName model, const char *data)
{
    TrainConfig config = formula_config(model, "ref", data);
    config.lr = (LrSchedule){ .style = LR_COSINE, .peak = 1e-2, .low = 1e-3, .warmup = (double)(3 * config.global), .decay = STEPS * config.global };
    return config;
}

/* ---- our side ---- */

/* mtp: losses of multi-token prediction in the first step */
typedef struct { Gradients *gradients; double loss[STEPS], norm[STEPS], mtp[MTP_MOST]; } Course;

static inline void run_course(Trainer *t, void *context)
{
    Course *course = context;
    formula_weights(t);
    gradients_take(t, course->gradients);
    for (int i = 0; i < STEPS; i++) {
        StepReport r = trainer_step(t);
        course->loss[i] = r.loss;
        if (i == 0) memcpy(course->mtp, r.mtp, sizeof course->mtp);
        course->norm[i] = r.norm;
    }
}

static inline Course course_run(TrainConfig config)
{
    Session session = { .config = config, .ranks = 1, .body = run_course };
    Course course = { .gradients = gradients_new(&session.config.model) };
    session.context = &course;
    session_run(&session);
    return course;
}

/* ---- the other ---- */

/* folder: below tests/golden */
static inline Course golden_of(const char *folder, const char *name, const ModelConfig *shape)
{
    SafeFile file;
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s/%s.safetensors", TESTS_DIR, folder, name);
    if (safetensors_open(&file, path) != OK) fail_msg("%s", fail_text());
    Course course = { .gradients = gradients_new(shape) };
    for (int i = 0; i < course.gradients->count; i++) {
        Whole *w = &course.gradients->of[i];
        golden_read(w->value, &file, w->name, w->count);
    }
    assert_int_equal(file.tensors, course.gradients->count + 3 + (shape->mtp > 0));      /* none that we do not have */
    if (shape->mtp > 0) golden_read(course.mtp, &file, "mtp", shape->mtp);
    golden_read(&course.gradients->loss, &file, "loss", 1);
    golden_read(course.loss, &file, "losses", STEPS);
    golden_read(course.norm, &file, "norms", STEPS);
    safetensors_close(&file);
    return course;
}

static inline double relative(double x, double truth) { return fabs(x - truth) / fabs(truth); }

static inline double most_relative(const double *x, const double *truth)
{
    double most = 0;
    for (int i = 0; i < STEPS; i++) most = relative(x[i], truth[i]) <= most ? most : relative(x[i], truth[i]);
    return most;
}

static inline void parity_check(const char *name, const char *what, double error, double tolerance)
{
    if (!(error <= tolerance)) fail_msg("%s: %s is off by %.1e, above %.0e", name, what, error, tolerance);
}

/* The case on `ref` against its golden, and on `cpu` against `ref`. */
static inline void parity_compare(const char *folder, const char *name, TrainConfig config)
{
    const ModelConfig shape = config.model;
    Course golden = golden_of(folder, name, &shape), ref = course_run(config);
    config.device = "cpu";
    Course cpu = course_run(config);
    const char *worst = "", *worst32 = "";
    for (int64_t k = 0; k < shape.mtp; k++) parity_check(name, "a loss of mtp", relative(ref.mtp[k], golden.mtp[k]), 1e-12);
    double loss   = relative(ref.gradients->loss, golden.gradients->loss);
    double loss32 = relative(cpu.gradients->loss, ref.gradients->loss);
    double grads   = gradients_differ(ref.gradients, golden.gradients, &shape, &worst);
    double grads32 = gradients_differ(cpu.gradients, ref.gradients, &shape, &worst32);
    double losses = most_relative(ref.loss, golden.loss), norms = most_relative(ref.norm, golden.norm);
    printf("%-16s ref: loss %.1e, gradients %.1e (%s), 20 losses %.1e, norms %.1e\n", name, loss, grads,
           worst, losses, norms);
    printf("%-16s cpu: loss %.1e, gradients %.1e (%s)\n", "", loss32, grads32, worst32);
    assert_true(golden.norm[0] > 1 && golden.norm[STEPS - 1] < 1);   /* clipping acts on some steps only */
    parity_check(name, "the loss", loss, 1e-12);
    parity_check(name, worst, grads, 1e-10);
    parity_check(name, "a loss of 20 steps", losses, 1e-10);
    parity_check(name, "a norm of 20 steps", norms, 1e-10);
    parity_check(name, "the loss on cpu", loss32, 1e-6);
    parity_check(name, worst32, grads32, 5e-6);
    gradients_free(golden.gradients);
    gradients_free(ref.gradients);
    gradients_free(cpu.gradients);
}
#endif
