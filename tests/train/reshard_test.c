/* Saved under one layout, opened under another: tensors and states to the bit, and the losses go on as if
 * nothing had happened. */
#include "train/step.h"
#include "train/compare.h"

static const Layout usual  = { "tp2 pp2 dp2 zero1", 8, 2, 1, 2, 1, 1, false, SCHEDULE_1F1B };
static const Layout hybrid = { "tp2 dp4 zero2 hybrid2", 8, 2, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 2 };
static const Layout copies = { "tp4 seq dp2 zero1", 8, 4, 1, 1, 1, 1, true, SCHEDULE_1F1B };   /* llama has two key-value heads */
static PrecisionChoice choice;                             /* of the test that runs */
static const char *optimizer = "adam";
static const Layout into[] = {
    { "dp4 zero3",          4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "cp2",                2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "one rank",           1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 zb-h1",  4, 2, 1, 2, 1, 0, true,  SCHEDULE_ZB_H1 },
    { "dp2 zero2 pp2 interleaved", 4, 1, 1, 2, 2, 2, false, SCHEDULE_INTERLEAVED },
    { "dp4 zero3 hybrid2",  4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "tp4 pp2 zero3 in order tp-pp-dp", 8, 4, 1, 2, 1, 3, false, SCHEDULE_1F1B, .order = MESH_TP_PP_DP },
};

/* The loss scale begins so high that the first steps overflow, and grows again within the run. */
static const LossScaling scaling = { true, 1, 3, 1 };

static Job job_of(ModelName model, const char *device, const Layout *layout, int steps, const char *save, const char *load)
{
    Job job = { .config = tiny_config(model, device, scratch_path("corpus")), .ranks = layout->ranks, .steps = steps, .save = save, .load = load };
    config_set_layout(&job.config, layout);
    job.config.precision = choice;
    job.config.optimizer = optimizer_named(optimizer);
    if (choice.mixed == MIXED_F16) job.config.scaling = scaling, job.config.loss_scale = 0x1p24;
    job.config.settings.stochastic = choice.state_bf16[0];
    return job;
}

static Setup setup_of(ModelName model, const char *device, const Layout *layout)
{
    return (Setup){ layout->name, job_of(model, device, layout, 0, NULL, NULL).config, layout->ranks };
}

static void compare_from(const Layout *from, ModelName model, const char *device, double losses_within)
{
    enum { INTO = sizeof into / sizeof *into };
    char word[128];
    Setup start = setup_of(model, device, from), next[INTO];
    snprintf(word, sizeof word, "%s-%s%d-%s-%s", device, model == MODEL_GPT ? "gpt" : "llama", choice.mixed,
             optimizer, from->name);
    /* Types and states of other optimizers are opened as Adam's in double, and weights of Llama as GPT's, so that the quick part does it under every
     * third layout. */
    int count = 0, stride = getenv("JOTUN_FULL") || (strcmp(device, "cpu") != 0 && !strcmp(optimizer, "adam") && model == MODEL_GPT) ? 1 : 3;
    for (int i = 0; i < INTO; i += stride) next[count++] = setup_of(model, device, &into[i]);
    resume_compare(word, &start, next, count, turns(10, 2), losses_within, INFINITY);
}

static void compare(ModelName model, const char *device, double losses_within)
{
    compare_from(&usual, model, device, losses_within);
}

static void test_hybrid(void **state) { (void)state; compare_from(&hybrid, MODEL_GPT,   "ref", 1e-12); }
static void test_copies(void **state) { (void)state; compare_from(&copies, MODEL_LLAMA, "ref", 1e-12); }
static void test_gpt  (void **state) { (void)state; compare(MODEL_GPT,   "ref", 1e-12); }
static void test_llama(void **state) { (void)state; compare(MODEL_LLAMA, "ref", 1e-12); }
static void test_cpu  (void **state) { (void)state; compare(MODEL_LLAMA, "cpu", 2e-4); }      /* float sums in another order, 10 steps on */

static void test_bf16(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_BF16, .message_bf16 = true, .state_bf16 = { true, true } };
    compare(MODEL_LLAMA, "cpu", 2e-2);
}
static void test_fp16(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_F16 };
    compare(MODEL_GPT, "cpu", 2e-3);
}

/* The scales go on as they were; a loss may differ by what 8-bit inputs make of sums in another order. */
static void test_fp8(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 4 } };
    compare(MODEL_GPT, "cpu", 5e-2);
}

/* What a look at the scales wants: those of a run that begins (1, no history), of the checkpoint, or both. */
static bool scales_begin, history_empty;
/* Of x and w, of dy: what scales are multiplied by against those of the run that took them unchanged; 0: anything */
static float scales_times[2], scales_kept[4 * FP8_TENSORS];
static void look_at_scales(Trainer *t, void *context)
{
    const float *scale = t->fp8.scale.data, *history = t->fp8.history.data;
    bool ones = true, zeros = true;
    (void)context;
    for (int64_t i = 0; i < tensor_count(t->fp8.scale); i++) ones &= scale[i] == 1;
    for (int64_t i = 0; i < tensor_count(t->fp8.history); i++) zeros &= history[i] == 0;
    assert_true(ones == scales_begin && zeros == history_empty);
    for (int64_t i = 0; scales_times[0] > 0 && i < tensor_count(t->fp8.scale); i++) {
        float times = scales_times[i % FP8_KINDS == FP8_DY];
        if (times == 1 && scales_times[0] == scales_times[1]) scales_kept[i] = scale[i];
        assert_true(scale[i] == scales_kept[i] * times);
    }
}

/* A run may begin with 8-bit inputs, end them, take a history of another length, other formats or another
 * margin, where it resumes. */
static void test_fp8_changes(void **state)
{
    (void)state;
    const Layout *layout = &into[2];
    Fp8Choice fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 4 }, longer = fp8, current = fp8, e4m3 = fp8, margin = fp8;
    static const char *with = "with-fp8", *without = "without-fp8";
    char one[512], two[512];
    snprintf(one, sizeof one, "%s/%s", scratch_folder(), with);
    snprintf(two, sizeof two, "%s/%s", scratch_folder(), without);
    longer.history = 7;
    current.recipe = FP8_CURRENT;
    e4m3.hybrid = false;
    margin.margin = 3;
    const struct { Fp8Choice fp8; const char *save, *load; bool scales_begin, history_empty; } row[] = {
        { { .recipe = FP8_NONE }, two, NULL, false, false }, { fp8, one, NULL, false, false },
        { { .recipe = FP8_NONE }, NULL, one, false, false }, { current, NULL, one, false, false },
        { fp8, NULL, one, false, false },                    { longer, NULL, one, false, true },
        { fp8, NULL, two, true, true },                      { e4m3, NULL, one, false, false },
        { margin, NULL, one, false, false },
    };
    static const float times[sizeof row / sizeof *row][2] = { [4] = { 1, 1 }, [7] = { 1, 0x1p-7f }, [8] = { 0x1p-3f, 0x1p-3f } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        choice = (PrecisionChoice){ .mixed = MIXED_BF16, .fp8 = row[i].fp8 };
        Job job = job_of(MODEL_GPT, "cpu", layout, row[i].save ? 2 : 0, row[i].save, row[i].load);
        scales_begin = row[i].scales_begin, history_empty = row[i].history_empty;
        memcpy(scales_times, times[i], sizeof scales_times);
        if (row[i].load && row[i].fp8.recipe == FP8_DELAYED) job.look = look_at_scales;
        job_run(&job);
        job.look  = NULL;
        job.steps = 1;
        job.save  = NULL;
        if (row[i].load) job_run(&job);
    }
}

/* One rank of four has no data: the scales and their history stay, of all ranks; those of a step that counts
 * do not. */
static void step_without_data(Trainer *t, void *context)
{
    float was[64 * FP8_TENSORS];
    size_t scales = tensor_bytes(t->fp8.scale), bytes = scales + tensor_bytes(t->fp8.history);
    (void)context;
    assert_true(bytes <= sizeof was);
    for (int unread = 1; unread >= 0; unread--) {
        memcpy(was, t->fp8.scale.data, scales);
        memcpy((char *)was + scales, t->fp8.history.data, bytes - scales);
        t->input.failed = unread && t->mesh.rank == 2 ? BAD_FILE : OK;
        assert_true(trainer_step(t).skipped == (unread == 1));
        assert_true(!unread == (memcmp(was, t->fp8.scale.data, scales) != 0));
        assert_true(!unread == (memcmp((char *)was + scales, t->fp8.history.data, bytes - scales) != 0));
    }
}

static void test_fp8_without_data(void **state)
{
    (void)state;
    choice = (PrecisionChoice){ .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 3 } };
    Job job = job_of(MODEL_GPT, "cpu", &into[0], 1, NULL, NULL);
    job.look = step_without_data;
    job_run(&job);
}

/* States of two kinds in one bucket, owned in whole matrices by some layouts and in equal parts by others; of whole matrices that tensor
 * parallelism cuts, renewed after the resume. */
static void test_optimizers(void **state)
{
    (void)state;
    static const struct { const char *optimizer; ModelName model; double within; } row[] = {
        { "muon", MODEL_GPT, 1e-12 }, { "lamb", MODEL_LLAMA, 1e-12 }, { "sgd", MODEL_GPT, 1e-12 }, { "adafactor", MODEL_GPT, 1e-12 },
        { "adamwschedulefree", MODEL_LLAMA, 1e-12 }, { "galoreadamw8bit", MODEL_LLAMA, 1e-12 }, { "galoreadamw", MODEL_GPT, 1e-12 },
        { "shampoo", MODEL_GPT, 1e-12 }, { "soap", MODEL_LLAMA, 1e-12 },
    };
    choice = (PrecisionChoice){ .mixed = MIXED_NONE };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        optimizer = row[i].optimizer;
        compare(row[i].model, "ref", row[i].within);
    }
    optimizer = "muon";
    choice = (PrecisionChoice){ .mixed = MIXED_BF16, .state_bf16 = { true, true } };
    compare(MODEL_LLAMA, "cpu", 2e-2);
    optimizer = "adam";
}

/* Signs of two workers, each of two or four ranks: errors of all are saved, and go to the same workers of another layout. With four workers those of
 * workers begin at 0, and the run goes on. */
static void test_workers(void **state)
{
    (void)state;
    static const Layout start = { "tp2 pp2 dp2", 8, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B }, more = { "tp2 dp4", 8, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B };
    static const Layout two[] = { { "dp2", 2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, { "tp2 seq dp2", 4, 2, 1, 1, 1, 0, true, SCHEDULE_1F1B },
                                  { "cp2 dp2", 4, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B } };
    char folder[512];
    optimizer = "ds.onebitlamb";
    choice = (PrecisionChoice){ .mixed = MIXED_NONE };
    Setup from = setup_of(MODEL_LLAMA, "ref", &start), next[3];
    for (int i = 0; i < 3; i++) next[i] = setup_of(MODEL_LLAMA, "ref", &two[i]);
    resume_compare("workers", &from, next, 3, turns(10, 2), 1e-12, INFINITY);
    snprintf(folder, sizeof folder, "%s/workers-middle", scratch_folder());
    Job job = job_of(MODEL_LLAMA, "ref", &more, 3, NULL, folder);
    job_run(&job);
    assert_true(isfinite(job.loss[2]) && job.loss[2] < 7);
    optimizer = "adam";
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpt), cmocka_unit_test(test_llama), cmocka_unit_test(test_cpu),
                                        cmocka_unit_test(test_hybrid), cmocka_unit_test(test_copies),
                                        cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp16),
                                        cmocka_unit_test(test_fp8), cmocka_unit_test(test_fp8_changes), cmocka_unit_test(test_optimizers),
                                        cmocka_unit_test(test_workers),
                                        cmocka_unit_test(test_fp8_without_data) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
