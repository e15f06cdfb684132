/* The same numbers under every layout in fp32, bf16, fp16 and with 8-bit inputs: loss and gradients of the second
 * step on `cpu`, after one with a learning rate of 0, dropout on, against one rank, and that one against `ref`.
 * Losses: absolute, of about 4. Gradients: the distance of each tensor in norms of that tensor. */
#include "train/step.h"
#include "train/layouts.h"
#include "train/whole.h"

typedef struct { double loss, gradients; } Within;
typedef struct { const char *name; PrecisionChoice choice; Within layouts, ref; int mtp; } Types;
static const Types types[] = {
    { "fp32", { .mixed = MIXED_NONE },                       { 2e-6, 1e-5 }, { 1e-6, 5e-6 } },
    { "bf16", { .mixed = MIXED_BF16 },                       { 1e-3, 3e-2 }, { 1e-3, 3e-2 } },
    { "bf16 messages", { .mixed = MIXED_BF16, .message_bf16 = true, .state_bf16 = { true, true } },
      { 1e-3, 3e-2 }, { 1e-3, 3e-2 } },
    { "fp16", { .mixed = MIXED_F16 },                        { 2e-4, 4e-3 }, { 2e-4, 4e-3 } },
    { "fp8 delayed", { .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 4 } },
      { 2e-3, 0.25 }, { 3e-3, 0.25 } },
    { "fp8 current", { .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_CURRENT } },
      { 2e-3, 0.25 }, { 3e-3, 0.25 } },
    { "fp8 delayed, mtp", { .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 4,
                                                         .bf16_first_layers = 1, .bf16_last_layers = 1 } },
      { 2e-3, 0.25 }, { 3e-3, 0.25 }, .mtp = 1 },
};
static const Layout alone = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

/* Gradients of the second step, after one that changes no weights, from which delayed scaling has taken its
 * scales. */
enum { LAYERS = 4 };
typedef struct { Gradients *gradients; float scale[LAYERS + MTP_MOST][FP8_TENSORS]; int layers; } Taken;

static void take(Trainer *t, void *context)
{
    Taken *taken = context;
    trainer_step(t);
    Fp8Recipe recipe = t->config->precision.fp8.recipe;
    /* current scaling: those of the last micro-batch, where they are easily found */
    const UnitSave *save = recipe == FP8_CURRENT && t->train.executor.slots == 1 ? t->train.executor.slot[0].save : NULL;
    bool writes = t->mesh.at.tp == 0 && comm_rank(t->comms.dp_cp) == 0 && recipe != FP8_NONE;
    for (int l = 0; l < taken->layers && writes; l++) {
        const float *scale = save && l < LAYERS ? save[l + 1].block.fp8.scale.data : NULL;
        if (t->fp8.row && t->fp8.row[l] >= 0)
            scale = (float *)t->fp8.scale.data + t->fp8.row[l] * FP8_TENSORS;
        if (scale) memcpy(taken->scale[l], scale, sizeof taken->scale[l]);
    }
    gradients_take(t, taken->gradients);
}

/* t NULL: double, with so many depths of multi-token prediction */
static Taken taken_under(ModelName model, const Types *t, int mtp, const Layout *layout, const char *data)
{
    Taken taken = { 0 };
    Session session = { .config = tiny_config(model, t ? "cpu" : "ref", data), .ranks = layout->ranks };
    if (t) session.config.precision = t->choice;
    session.body = take;
    session.config.model.mtp = mtp;
    session.config.model.mtp_factor = 0.5;
    taken.layers = (int)model_layers(&session.config.model);
    session.config.lr = (LrSchedule){ .style = LR_CONSTANT, .peak = 0, .low = 0, .warmup = 0, .decay = 20 };
    config_set_layout(&session.config, layout);
    assert_int_equal(session.config.model.layers, LAYERS);
    taken.gradients = gradients_new(&session.config.model);
    session.context = &taken;
    session_run(&session);
    return taken;
}

/* A tensor has one scale, whatever ranks hold it: of weights the same bits, and of activations where no sum has
 * another order; elsewhere as near as 8-bit inputs leave them, and half as near where ranks have copies of a
 * key-value head, each with the gradient of its own queries. With current scaling only those of weights are
 * of the same tensor in all micro-batches. */
static void check_scales(const Taken *mine, const Taken *one, const Layout *layout, bool current, int64_t groups)
{
    bool same_sums = layout->tp == 1 && layout->cp == 1;
    double most = layout->tp > groups ? 2 : 1.4;
    for (int l = 0; l < one->layers; l++)
        for (int i = 0; i < FP8_TENSORS; i++) {
            if (one->scale[l][i] == 0 && mine->scale[l][i] == 0) continue;                     /* in bf16 */
            if (current && (i % FP8_KINDS != FP8_W || mine->scale[l][i] == 0)) continue;
            double ratio = (double)mine->scale[l][i] / (double)one->scale[l][i];
            bool same = same_sums || i % FP8_KINDS == FP8_W;
            if (one->scale[l][i] == 1 || (same ? ratio != 1 : !(ratio > 1 / most && ratio < most)))
                fail_msg("%s: scale %d of layer %d is %g, on one rank %g", layout->name, i, l,
                         (double)mine->scale[l][i], (double)one->scale[l][i]);
        }
}

static void check(Gradients *mine, Gradients *truth, Within within, ModelName model, const char *name)
{
    ModelConfig shape = tiny_config(model, "cpu", "").model;         /* what names mean is the same with mtp */
    const char *worst = "", *word = model == MODEL_GPT ? "gpt" : "llama";
    double loss = fabs(mine->loss - truth->loss), norm = fabs(mine->norm - truth->norm) / truth->norm;
    double grads = gradients_differ(mine, truth, &shape, &worst);
    printf("%-6s %-26s loss off by %.1e, norm by %.1e, gradients by %.1e (%s)\n", word, name, loss, norm,
           grads, worst);
    if (!(loss <= within.loss)) fail_msg("%s %s: losses differ by %g", word, name, loss);
    if (!(norm <= within.gradients)) fail_msg("%s %s: gradient norms differ by %g", word, name, norm);
    if (!(grads <= within.gradients)) fail_msg("%s %s: %s is off by %g norms", word, name, worst, grads);
}

/* ThreadSanitizer looks at the threads of some layouts; the others' numbers are compared without it. */
#ifdef __SANITIZE_THREAD__
enum { LAYOUT_STEP = 5 };
#else
enum { LAYOUT_STEP = 1 };
#endif

static void compare(ModelName model, const Types *t)
{
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    Gradients *ref = taken_under(model, NULL, t->mtp, &alone, data).gradients;
    Taken first = taken_under(model, t, t->mtp, &alone, data);
    Gradients *one = first.gradients;
    printf("one rank in double: loss %.6f, gradient norm %.6f; %s:\n", ref->loss, ref->norm, t->name);
    check(one, ref, t->ref, model, "against ref");
    for (int i = 0; i < LAYOUTS; i += LAYOUT_STEP) {
        if (t->mtp > 0 && layouts[i].layers) continue;     /* a layout by hand has no place for it */
        Taken many = taken_under(model, t, t->mtp, &layouts[i], data);
        check(many.gradients, one, t->layouts, model, layouts[i].name);
        bool current = t->choice.fp8.recipe == FP8_CURRENT;
        if (t->choice.fp8.recipe != FP8_NONE) check_scales(&many, &first, &layouts[i], current, tiny_config(model, "cpu", "").model.groups);
        gradients_free(many.gradients);
    }
    gradients_free(one);
    gradients_free(ref);
}

static void compare_all(ModelName model)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].mtp == 0 || model == MODEL_LLAMA) compare(model, &types[i]);
}

/* One data rank sends no gradients and so rounds none, also where ZeRO 2 adds each micro-batch to its shard. */
static void test_messages_of_one_rank(void **state)
{
    static const Types  narrow = { "bf16 messages", { .mixed = MIXED_NONE, .message_bf16 = true }, { 0, 0 }, { 0, 0 } };
    static const Layout shards = { "one rank, ZeRO 2", 1, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B };
    char data[512];
    (void)state;
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    Gradients *one = taken_under(MODEL_GPT, &types[0], 0, &shards, data).gradients;
    Gradients *two = taken_under(MODEL_GPT, &narrow, 0, &shards, data).gradients;
    check(two, one, narrow.layouts, MODEL_GPT, "bf16 messages of one rank");
    gradients_free(one);
    gradients_free(two);
}

static void test_gpt  (void **state) { (void)state; compare_all(MODEL_GPT); }
static void test_llama(void **state) { (void)state; compare_all(MODEL_LLAMA); }

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_messages_of_one_rank), cmocka_unit_test(test_gpt),
                                        cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
