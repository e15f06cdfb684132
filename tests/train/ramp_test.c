/* Runs whose batch size changes with the samples consumed: under every layout the losses of one rank, and resumed after any step
 * the same bits, whichever schedule of the pipeline and order of the data they have. */
#include "train/step.h"
#include "train/layouts.h"

enum { RAMP_STEPS = 6 };

/* Steps of 4, 4, 8, 12, 12, 12 samples; of 12, 4, 4, 8, 8, 8. */
static const BatchStep rising[] = { { 0, 4 }, { 5, 8 }, { 14, 12 } }, falling[] = { { 0, 12 }, { 12, 4 }, { 20, 8 } };
static const int64_t sizes[2][RAMP_STEPS] = { { 4, 4, 8, 12, 12, 12 }, { 12, 4, 4, 8, 8, 8 } };

static const char *const names[] = { "dp4 zero1", "dp4 zero3", "tp2 sequence", "pp2 1f1b", "pp4 zb-h1", "pp2 interleaved", "pp2 zb-v",
    "pp4 gpipe", "pp3 1f1b extra uneven", "tp2 seq pp2 dp2 zero1", "cp2", "pp2 zb-h1 dp2 zero3 cp2" };
enum { NAMES = sizeof names / sizeof *names };

static TrainConfig config_of(int row, OrderKind order)
{
    TrainConfig config = tiny_config(MODEL_GPT, "ref", scratch_path("corpus"));
    config.batch  = (BatchSchedule){ row ? falling : rising, 3 };
    config.global = row ? 8 : 12;
    config.steps  = RAMP_STEPS;
    config.datasets.order = order;
    config.datasets.final_epoch_cut = 0.8;
    config.weight_decay = (WeightDecaySchedule){ WEIGHT_DECAY_LINEAR, 0, 0.5, 40 };
    config.lr = (LrSchedule){ .style = LR_WSD, .peak = 1e-3, .low = 1e-4, .init = 1e-4, .warmup = 6.5, .decay = 40, .wsd_decay = 20 };
    return config;
}

static const Layout *layout_named(const char *name)
{
    for (int i = 0; i < LAYOUTS; i++)
        if (!strcmp(layouts[i].name, name)) return &layouts[i];
    fail_msg("no layout %s", name);
    return NULL;
}

/* The position after the steps of the job. */
static void see_position(Trainer *t, void *context)
{
    const int *row = context;
    int64_t samples = 0;
    for (int i = 0; i < t->run.step; i++) samples += sizes[*row][i];
    assert_int_equal(t->run.samples, samples);
    assert_int_equal(t->run.updated_samples, samples);
    assert_int_equal(t->run.steps, RAMP_STEPS);
    /* of the last step, by the samples before it */
    int64_t before = samples - sizes[*row][t->run.step - 1];
    assert_true(t->step_state.lr == lr_at(&t->config->lr, before));
    assert_true(t->step_state.weight_decay == weight_decay_at(&t->config->weight_decay, before));
    assert_int_equal(trainer_samples_at_end(t), *row ? 44 : 52);
}

static Job job_make(TrainConfig config, const Layout *layout, int *row)
{
    Job job = { .config = config, .ranks = layout ? layout->ranks : 1, .steps = RAMP_STEPS, .look = see_position, .context = row };
    if (layout) config_set_layout(&job.config, layout);
    return job;
}

static void compare_losses(const char *name, const Job *job, int first, const Job *with, double within)
{
    for (int i = first; i < RAMP_STEPS; i++)
        if (!(fabs(job->loss[i - first] - with->loss[i]) <= within))
            fail_msg("%s: loss %.17g of step %d, not %.17g", name, job->loss[i - first], i + 1, with->loss[i]);
}

/* Stopped after step k and resumed, to the bit. */
static void resume_at(const char *name, const Job *whole, int k)
{
    char folder[512], end[512], worst[128] = "";
    snprintf(folder, sizeof folder, "%s/first", scratch_folder());
    snprintf(end, sizeof end, "%s/rest", scratch_folder());
    Job first = *whole, rest = *whole;
    first.steps = k, first.save = folder;
    rest.steps = RAMP_STEPS - k, rest.load = folder, rest.save = end;
    job_run(&first);
    job_run(&rest);
    compare_losses(name, &rest, k, whole, 0);
    double off = checkpoints_differ(end, whole->save, RAMP_STEPS, true, worst);
    if (off != 0) fail_msg("%s, resumed after step %d: %s differs by %g", name, k, worst, off);
    char command[1200];
    snprintf(command, sizeof command, "rm -rf %s %s", folder, end);
    assert_int_equal(system(command), 0);
}

static void ramp_layouts(void **state)
{
    (void)state;
    char whole[512];
    for (int row = 0; row < 2; row++) {
        Job one = job_make(config_of(row, ORDER_JOTUN), NULL, &row);
        job_run(&one);
        for (int n = 0; n < turns(NAMES, 3); n++) {
            const Layout *layout = layout_named(names[n]);
            Job job = job_make(config_of(row, ORDER_JOTUN), layout, &row);
            snprintf(whole, sizeof whole, "%s/whole-%d-%d", scratch_folder(), row, n);
            job.save = whole;
            job_run(&job);
            compare_losses(layout->name, &job, 0, &one, 1e-12);
            for (int k = 1 + n % 2; k < RAMP_STEPS; k += 2) resume_at(layout->name, &job, k);
        }
    }
}

/* After every step, in Megatron-LM's orders as well. */
static void ramp_orders(void **state)
{
    (void)state;
    char whole[512];
    for (OrderKind order = ORDER_JOTUN; order <= ORDER_FORKS; order++) {
        int row = order == ORDER_FORKS;
        Job job = job_make(config_of(row, order), layout_named("pp2 1f1b"), &row), one = job_make(config_of(row, order), NULL, &row);
        snprintf(whole, sizeof whole, "%s/order-%d", scratch_folder(), (int)order);
        job.save = whole;
        job_run(&one);
        job_run(&job);
        compare_losses("pp2", &job, 0, &one, 1e-12);
        for (int k = 1; k < RAMP_STEPS; k++) resume_at("pp2", &job, k);
    }
}

/* --train-samples: the run ends before the step that would exceed them. */
static void see_end(Trainer *t, void *context)
{
    int64_t *end = context;
    if (t->mesh.rank == 0) end[0] = t->run.step, end[1] = t->run.steps;
}

static void ends_by_samples(void **state)
{
    (void)state;
    int64_t end[2];
    TrainConfig config = config_of(0, ORDER_JOTUN);
    config.samples = 39;                         /* 4 + 4 + 8 + 12 = 28, and 12 more do not fit */
    Job job = { .config = config, .ranks = 1, .steps = 1, .look = see_end, .context = end };
    job_run(&job);
    assert_int_equal(end[1], 4);
    job.config.samples = 40;
    job_run(&job);
    assert_int_equal(end[1], 5);
}

/* The first steps overflow and are skipped: they consume samples and advance neither schedule; a checkpoint keeps the difference. */
static void see_skips(Trainer *t, void *context)
{
    int64_t *steps = context, skipped = t->run.step - t->step_state.updates, updated = 0;
    for (int64_t i = skipped; i < t->run.step; i++) updated += sizes[0][i];
    assert_int_equal(t->run.step, *steps);
    assert_true(skipped > 0 && skipped < 4);
    assert_int_equal(t->run.updated_samples, updated);
    if (t->step_state.lr > 0) assert_true(t->step_state.lr == lr_at(&t->config->lr, updated - sizes[0][t->run.step - 1]));
}

static void skipped_steps(void **state)
{
    (void)state;
    int64_t steps = 5;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/skips", scratch_folder());
    TrainConfig config = config_of(0, ORDER_JOTUN);
    config.device = "cpu", config.precision.mixed = MIXED_F16;
    config.scaling = (LossScaling){ true, 1, 100, 1 }, config.loss_scale = 0x1p21;
    Job first = { .config = config, .ranks = 1, .steps = 5, .look = see_skips, .context = &steps, .save = folder };
    job_run(&first);
    Job rest = first;
    rest.steps = 0, rest.save = NULL, rest.load = folder;
    job_run(&rest);
    rest.steps = 1, steps = 6;
    job_run(&rest);
}

/* A step that is left out consumes its samples, and the next one is as large as if it had been done. */
static void see_left_out(Trainer *t, void *context)
{
    double lr = t->step_state.lr;
    (void)context;
    assert_int_equal(t->run.samples, 4);
    trainer_leave_out(t);
    assert_int_equal(t->run.step, 2);
    assert_int_equal(t->run.samples, 8);
    assert_int_equal(t->run.updated_samples, 4);
    StepReport r = trainer_step(t);
    assert_int_equal(r.samples, 8);
    assert_int_equal(t->run.samples, 16);
    assert_true(r.lr > lr && r.lr == lr_at(&t->config->lr, 4));
}

static void left_out(void **state)
{
    (void)state;
    Job job = { .config = config_of(0, ORDER_JOTUN), .ranks = 4, .steps = 1, .look = see_left_out };
    config_set_layout(&job.config, layout_named("dp4 zero1"));
    job_run(&job);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(ramp_layouts), cmocka_unit_test(ramp_orders), cmocka_unit_test(ends_by_samples), cmocka_unit_test(skipped_steps), cmocka_unit_test(left_out) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
