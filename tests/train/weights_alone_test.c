/* A checkpoint with weights alone, in every type, opens under any layout, precision and optimizer, and trains as
 * the run that has these weights from its beginning. Weights, optimizer states and position are three facts: each
 * of the last two may be left out where a checkpoint is saved or loaded. */
#include "train/step.h"
#include "train/trainer_checkpoint.h"
#include "train/compare.h"
#include "store/checkpoint_writer.h"

static const Layout into[] = {
    { "one rank",              1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 pp2 dp2 zero1",     8, 2, 1, 2, 1, 1, false, SCHEDULE_1F1B },
    { "dp4 zero3",             4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "cp2 tp2 seq",           4, 2, 2, 1, 1, 0, true,  SCHEDULE_1F1B },
};
enum { INTO = sizeof into / sizeof *into, STEPS = 4 };

static Job job_of(ModelName model, const char *device, const Layout *layout, int steps, const char *save, const char *load)
{
    Job job = { .config = tiny_config(model, device, scratch_path("corpus")), .ranks = layout->ranks, .steps = steps, .save = save, .load = load };
    config_set_layout(&job.config, layout);
    return job;
}

/* The weights of the checkpoint `from` at a step, in `dtype`, as a converter writes them: by windows. */
static void weights_copy(const char *from, int64_t step, const char *to, const ModelConfig *model, Dtype dtype)
{
    enum { WINDOW = 100 };
    CheckpointFile *files;
    CheckpointWriter *writer;
    CheckpointState state = { .lacks = CHECKPOINT_STATES | CHECKPOINT_POSITION, .options = "{}" };
    int count = checkpoint_weight_files(&files, model, dtype, false);
    assert_int_equal(checkpoint_writer_open(&writer, "--output", to, &state, files, count), OK);
    for (int f = 0; f < count; f++) {
        char path[1024];
        SafeFile file;
        snprintf(path, sizeof path, "%s/step_%08lld/%s", from, (long long)step, files[f].name);
        assert_int_equal(safetensors_open(&file, path), OK);
        for (int i = 0; i < files[f].tensors; i++) {
            const SafeTensor *t = safetensors_find(&file, files[f].tensor[i].name);
            assert_non_null(t);
            int64_t all = (int64_t)(t->bytes / dtype_width(t->dtype));
            for (int64_t at = 0, n; at < all; at += n) {
                double window[WINDOW];
                n = all - at < WINDOW ? all - at : WINDOW;
                dtype_convert(window, dtype, file.map.data + t->at + (size_t)at * dtype_width(t->dtype), t->dtype, n);
                assert_int_equal(checkpoint_writer_put(writer, t->name, n, window), OK);
            }
        }
        safetensors_close(&file);
    }
    assert_int_equal(checkpoint_writer_finish(writer), OK);
    checkpoint_writer_close(writer);
    checkpoint_files_free(files, count);
}

static void assert_losses(const Job *a, const Job *b, double within, const char *what)
{
    for (int s = 0; s < STEPS; s++)
        if (!(fabs(a->loss[s] - b->loss[s]) <= within))
            fail_msg("%s: step %d: loss %.15f, wanted %.15f", what, s + 1, b->loss[s], a->loss[s]);
}

/* After loading, in double: z of a schedule-free optimizer begins as the weights. */
static void z_is_weights(Trainer *t, void *context)
{
    (void)context;
    for (int i = 0; i < t->update.optimizer.pieces; i++) {
        const OptimizerPiece *p = &t->update.optimizer.piece[i];
        assert_memory_equal(p->state[0].data, p->w.data, (size_t)p->count * sizeof(double));
    }
}

/* Initial weights in F64 are those of the run itself, so that the losses are those of one without --load. With another seed they are not, and states
 * that begin as weights show which ones. */
static void like_new(ModelName model, const char *optimizer)
{
    char whole[512], alone[512];
    snprintf(whole, sizeof whole, "%s/new-%d-%s", scratch_folder(), model, optimizer);
    snprintf(alone, sizeof alone, "%s/alone-%d-%s", scratch_folder(), model, optimizer);
    Job save = job_of(model, "ref", &into[0], 0, whole, NULL), begun = job_of(model, "ref", &into[0], STEPS, NULL, NULL);
    begun.config.optimizer = optimizer_named(optimizer);
    job_run(&save);
    job_run(&begun);
    weights_copy(whole, 0, alone, &save.config.model, F64);
    for (int i = 0; i < INTO; i++) {
        Job job = job_of(model, "ref", &into[i], STEPS, NULL, alone);
        job.config.seed  = begun.config.seed;
        job.config.optimizer = optimizer_named(optimizer);
        job_run(&job);
        assert_losses(&begun, &job, i == 0 ? 0 : 1e-12, into[i].name);
        if (!optimizer_averages(job.config.optimizer)) continue;
        job.config.seed++, job.steps = 0, job.look = z_is_weights;
        job_run(&job);
    }
}

static void any_layout_and_optimizer(void **state)
{
    (void)state;
    like_new(MODEL_GPT, "adam");
    like_new(MODEL_LLAMA, "muon");
    like_new(MODEL_GPT, "sgd");
    like_new(MODEL_LLAMA, "adamwschedulefree");
    like_new(MODEL_GPT, "adafactor");
    like_new(MODEL_LLAMA, "adam8bit");
}

/* Weights of 16 bits, in runs of 16 and 32 bits: the first loss is that of the rounded weights. */
static void any_type(void **state)
{
    (void)state;
    static const Dtype types[] = { F32, BF16, F16 };
    static const MixedPrecision mixed[] = { MIXED_NONE, MIXED_BF16, MIXED_F16 };
    char whole[512], alone[512];
    snprintf(whole, sizeof whole, "%s/typed", scratch_folder());
    Job save = job_of(MODEL_LLAMA, "cpu", &into[0], 2, whole, NULL);
    job_run(&save);
    for (int i = 0; i < 3; i++) {
        snprintf(alone, sizeof alone, "%s/typed-%d", scratch_folder(), i);
        weights_copy(whole, 2, alone, &save.config.model, types[i]);
        for (int m = 0; m < 3; m++) {
            double first = 0;
            for (int l = 0; l < INTO; l++) {
                Job job = job_of(MODEL_LLAMA, "cpu", &into[l], STEPS, NULL, alone);
                job.config.precision.mixed = mixed[m];
                if (mixed[m] == MIXED_F16) job.config.loss_scale = 128;
                job_run(&job);
                if (l == 0) first = job.loss[0];
                assert_true(fabs(job.loss[0] - first) <= (m ? 1e-2 : 1e-5));
                assert_true(fabs(job.loss[STEPS - 1] - first) <= 0.5);
            }
        }
    }
}

static int64_t seen_step, seen_updates;
static void look(Trainer *t, void *context)
{
    (void)context;
    if (t->mesh.rank == 0) seen_step = t->run.step, seen_updates = t->step_state.updates;
}

/* Loading leaves out states, or all but weights; saving leaves out states. */
static void three_facts(void **state)
{
    (void)state;
    char whole[512], bare[512], again[600], worst[128];
    snprintf(whole, sizeof whole, "%s/facts", scratch_folder());
    snprintf(bare, sizeof bare, "%s/facts-bare", scratch_folder());
    Job save = job_of(MODEL_GPT, "ref", &into[1], 3, whole, NULL), none = job_of(MODEL_GPT, "ref", &into[1], 3, bare, NULL);
    none.config.no_save_states = true;
    job_run(&save);
    job_run(&none);
    CheckpointState facts;
    snprintf(again, sizeof again, "%s/step_00000003", bare);
    assert_int_equal(checkpoint_state(again, &facts), OK);
    assert_true(facts.lacks == CHECKPOINT_STATES && facts.step == 3);
    const struct { const char *load; unsigned leave; const char *optimizer; int64_t step, updates; } row[] = {
        { whole, 0, "adam", 3, 3 },                            { whole, CHECKPOINT_STATES, "adam", 3, 0 },
        { bare, 0, "adam", 3, 0 },                             { whole, CHECKPOINT_STATES, "muon", 3, 0 },
        { whole, CHECKPOINT_STATES | CHECKPOINT_POSITION, "sgd", 0, 0 },
        { bare, CHECKPOINT_STATES | CHECKPOINT_POSITION, "adam", 0, 0 },
    };
    Job first[sizeof row / sizeof *row];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int l = 0; l < INTO; l++) {
            snprintf(again, sizeof again, "%s/facts-%zu-%d", scratch_folder(), i, l);
            Job copy = job_of(MODEL_GPT, "ref", &into[l], 0, again, row[i].load);
            Job job = job_of(MODEL_GPT, "ref", &into[l], STEPS, NULL, row[i].load);
            copy.config.leave = job.config.leave = row[i].leave;
            copy.config.optimizer = job.config.optimizer = optimizer_named(row[i].optimizer);
            copy.look = look;
            job_run(&copy);
            assert_true(seen_step == row[i].step && seen_updates == row[i].updates);
            if (row[i].step == 3 && !strcmp(row[i].optimizer, "adam") && i == 0)
                assert_true(checkpoints_differ(whole, again, 3, true, worst) == 0);
            job_run(&job);
            if (l == 0) first[i] = job;
            assert_losses(&first[i], &job, 1e-12, into[l].name);
        }
    assert_losses(&first[1], &first[2], 0, "states left out by saving or by loading");
    assert_losses(&first[4], &first[4], 0, "weights alone");
    assert_true(first[0].loss[0] == first[1].loss[0] && first[0].loss[2] != first[1].loss[2]);
    assert_true(first[0].loss[0] != first[5].loss[0]);                  /* other samples: those of step 1 */
}

/* What a schedule-free optimizer evaluates is what it saves: weights that another run evaluates too, without its states. */
static void averages_are_evaluated(void **state)
{
    (void)state;
    static const struct { const char *device; MixedPrecision mixed; double within; } type[] = {
        { "ref", MIXED_NONE, 1e-12 }, { "cpu", MIXED_NONE, 1e-5 }, { "cpu", MIXED_BF16, 1e-2 } };
    char whole[512];
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < INTO; l++) {
            snprintf(whole, sizeof whole, "%s/average-%d-%d", scratch_folder(), k, l);
            Job job = job_of(MODEL_LLAMA, type[k].device, &into[l], STEPS, whole, NULL), other;
            job.config.lr = (LrSchedule){ .style = LR_CONSTANT, .peak = 1e-2 };
            job.config.optimizer = optimizer_named("adamwschedulefree");
            job.config.precision.mixed = type[k].mixed;
            job.config.eval_iters = 1;
            other = job;
            job_run(&job);
            other.config.optimizer = optimizer_named("adam");
            other.config.leave = CHECKPOINT_STATES | CHECKPOINT_POSITION;
            other.steps = 0, other.save = NULL, other.load = whole;
            job_run(&other);
            double off = fabs(job.valid - other.valid);
            assert_true(fabs(job.valid - job.first_valid) > 1e-3);
            if (!(off <= (l == 0 ? 0 : type[k].within))) fail_msg("%s: evaluated %.15f, saved %.15f", into[l].name, job.valid, other.valid);
        }
}

static double back_loss[2];
static void go_back(Trainer *t, void *path)
{
    assert_int_equal(trainer_load(t, path), OK);
    for (int i = 0; i < 2; i++) {
        StepReport done = trainer_step(t);
        if (t->mesh.rank == 0) back_loss[i] = done.loss;
    }
}

/* A rewind to a checkpoint whose states are not loaded: the moments are new ones, and their bias correction begins with them. */
static void a_rewind_begins_with_new_states(void **state)
{
    (void)state;
    char whole[512], at[600];
    snprintf(whole, sizeof whole, "%s/rewound", scratch_folder());
    snprintf(at, sizeof at, "%s/step_00000003", whole);
    Job save = job_of(MODEL_GPT, "ref", &into[0], 3, whole, NULL);
    job_run(&save);
    for (int l = 0; l < INTO; l++) {
        Job job = job_of(MODEL_GPT, "ref", &into[l], STEPS, NULL, whole);
        job.config.leave = CHECKPOINT_STATES;
        job.look = go_back;
        job.context = at;
        job_run(&job);
        for (int i = 0; i < 2; i++)
            if (back_loss[i] != job.loss[i]) fail_msg("%s: loss %.15f, wanted %.15f", into[l].name, back_loss[i], job.loss[i]);
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_layout_and_optimizer), cmocka_unit_test(any_type), cmocka_unit_test(three_facts), cmocka_unit_test(a_rewind_begins_with_new_states), cmocka_unit_test(averages_are_evaluated) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
