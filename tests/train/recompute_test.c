/* Recomputation changes no bit: losses, gradient norms, and after the last step gradients, weights and moments
 * are those of a run that keeps every activation, under each layout, on `cpu`, GPT in fp32 and Llama in bf16,
 * with 8-bit inputs under two layouts of three, dropout on, an evaluation before and after. Every arena takes the bytes that its dry run counted (job_run). */
#include "train/layouts.h"
#include "train/moe_layouts.h"

typedef struct { const char *name; Recompute recompute; } Mode;
static const Mode modes[] = {
    { "full, uniform 1",   { 0, RECOMPUTE_UNIFORM, 1 } },
    { "full, uniform 2",   { 0, RECOMPUTE_UNIFORM, 2 } },
    { "full, uniform 3",   { 0, RECOMPUTE_UNIFORM, 3 } },
    { "full, block 1",     { 0, RECOMPUTE_BLOCK, 1 } },
    { "core_attn",         { RECOMPUTE_CORE_ATTN, RECOMPUTE_NONE, 0 } },
    { "layernorm",         { RECOMPUTE_LAYERNORM, RECOMPUTE_NONE, 0 } },
    { "mlp",               { RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
    { "mlp_act",           { RECOMPUTE_MLP_ACT, RECOMPUTE_NONE, 0 } },
    { "all four",          { RECOMPUTE_CORE_ATTN | RECOMPUTE_LAYERNORM | RECOMPUTE_MLP | RECOMPUTE_MLP_ACT,
                             RECOMPUTE_NONE, 0 } },
};
static const Mode moe_modes[] = {
    { "full, uniform 2",   { 0, RECOMPUTE_UNIFORM, 2 } },
    { "moe",               { RECOMPUTE_MOE, RECOMPUTE_NONE, 0 } },
    { "moe_act",           { RECOMPUTE_MOE_ACT, RECOMPUTE_NONE, 0 } },
    { "shared_experts",    { RECOMPUTE_SHARED_EXPERTS, RECOMPUTE_NONE, 0 } },
    { "moe layernorm mlp", { RECOMPUTE_MOE | RECOMPUTE_LAYERNORM | RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
};
enum { MODES = sizeof modes / sizeof *modes, MOE_MODES = sizeof moe_modes / sizeof *moe_modes, STEPS = 2 };
static const Layout alone = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

static const Fp8Choice fp8[] = { { .recipe = FP8_CURRENT, .hybrid = true }, { .recipe = FP8_NONE },
                                 { .recipe = FP8_DELAYED, .hybrid = true, .history = 2, .bf16_first_layers = 1 } };

/* Of all gradients, weights, moments and scales of a rank; bytes of its activations. */
typedef struct { uint64_t hash; size_t bytes; } Looked;

static uint64_t hashed(uint64_t hash, Tensor x)
{
    const uint16_t *half = x.data;
    for (size_t i = 0; i < tensor_bytes(x) / sizeof *half; i++) hash = random_mix(hash, half[i]);
    return hash;
}

static void look(Trainer *t, void *context)
{
    Looked *looked = (Looked *)context + t->mesh.rank;
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        looked->hash = hashed(hashed(looked->hash, k->grads), k->weights);
        if (tensor_present(k->master)) looked->hash = hashed(looked->hash, k->master);
    }
    for (int i = 0; i < t->update.optimizer.pieces; i++)
        for (int s = 0; s < t->update.optimizer.piece[i].rule->states; s++)
            looked->hash = hashed(looked->hash, t->update.optimizer.piece[i].state[s]);
    if (t->fp8.rows > 0) looked->hash = hashed(hashed(looked->hash, t->fp8.scale), t->fp8.history);
    looked->bytes = t->arena[ARENA_ACTIVATIONS].peak;
}

static Setup setup_of(ModelName model, const Layout *layout, int turn)
{
    Setup setup = { layout->name, tiny_config(model, "cpu", scratch_path("corpus")), layout->ranks };
    config_set_layout(&setup.config, layout);
    if (model == MODEL_LLAMA)
        setup.config.precision.mixed = MIXED_BF16, setup.config.precision.fp8 = fp8[turn % 3];
    return setup;
}

static void run(Job *job, Looked *looked, const Setup *setup, const Recompute *recompute)
{
    memset(looked, 0, RANKS_MAX * sizeof *looked);
    *job = setup_job(setup, STEPS, NULL, NULL);
    job->look = look, job->context = looked;
    job->config.eval_iters = 1;
    job->config.recompute  = *recompute;
    job_run(job);
}

/* Of a mode a slot is smaller, where `saves` says so. */
static void mode_compare(const char *word, const Setup *setup, const Mode *mode, const Job *one, const Looked *kept,
                         bool saves)
{
    Looked again[RANKS_MAX];
    Job job;
    run(&job, again, setup, &mode->recompute);
    for (int s = 0; s < STEPS; s++)
        if (job.loss[s] != one->loss[s] || job.norm[s] != one->norm[s])
            fail_msg("%s, %s, %s, step %d: loss %.17g norm %.17g; kept %.17g and %.17g", word, setup->name, mode->name,
                     s + 1, job.loss[s], job.norm[s], one->loss[s], one->norm[s]);
    if (job.valid != one->valid || job.first_valid != one->first_valid)
        fail_msg("%s, %s, %s: the evaluation differs", word, setup->name, mode->name);
    for (int r = 0; r < job.ranks; r++) {
        if (again[r].hash != kept[r].hash) fail_msg("%s, %s, %s: other bits on rank %d", word, setup->name, mode->name, r);
        if (saves && again[r].bytes >= kept[r].bytes)
            fail_msg("%s, %s, %s: rank %d keeps %zu bytes of activations, without recomputation %zu", word, setup->name,
                     mode->name, r, again[r].bytes, kept[r].bytes);
    }
}

/* Of every three modes one, unless all are asked for. */
static void compare(ModelName model, const Layout *layout, int turn, bool all)
{
    const char *word = model == MODEL_GPT ? "gpt" : "llama";
    Setup setup = setup_of(model, layout, turn);
    Looked kept[RANKS_MAX];
    Job one;
    run(&one, kept, &setup, &(Recompute){ 0 });
    for (int m = 0; m < MODES; m++) {
        if (!all && m % 3 != turn % 3) continue;
        bool deferred = schedule_defers(layout->schedule) && modes[m].recompute.method == RECOMPUTE_NONE;
        bool none = layout->layers != NULL;                           /* by hand: some ranks have no layer */
        mode_compare(word, &setup, &modes[m], &one, kept, !deferred && !none);
    }
}

/* Experts in one chunk of tokens and in several, which saves no activations of experts anyway. */
static const MoeLayout moe_ones[] = {
    { { "one rank",            1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },  1, 1 },
    { { "tp2 sequence, etp2",  2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },  2, 1 },
    { { "pp2 zb-h1 dp2 zero3", 4, 1, 1, 2, 1, 3, false, SCHEDULE_ZB_H1 }, 1, 1 },
    { { "tp2 dp2 zero2, ep4",  4, 2, 1, 1, 1, 2, false, SCHEDULE_1F1B },  1, 4 },
    { { "pp2 zb-h1, ep2",      4, 1, 1, 2, 1, 0, false, SCHEDULE_ZB_H1 }, 1, 2 },
};

static void test_experts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof moe_ones / sizeof *moe_ones; i++) {
        Setup setup = moe_setup(moe_config(MODEL_LLAMA, "cpu", scratch_path("corpus")), &moe_ones[i]);
        Looked kept[RANKS_MAX];
        Job one;
        setup.config.precision.mixed = i % 2 ? MIXED_BF16 : MIXED_NONE;
        run(&one, kept, &setup, &(Recompute){ 0 });
        for (int m = 0; m < MOE_MODES; m++) {
            bool act = moe_modes[m].recompute.modules == RECOMPUTE_MOE_ACT;
            bool deferred = setup.config.schedule == SCHEDULE_ZB_H1 && m > 0;
            mode_compare("experts", &setup, &moe_modes[m], &one, kept, !deferred && !(act && i > 2));
        }
    }
}

static void test_bits(void **state)
{
    (void)state;
    /* builds under sanitizers are slow: one layout with interleaved chunks, one with deferred weight gradients,
     * and a third of the modes */
    int first = turns(0, LAYOUTS - 3), end = turns(LAYOUTS, LAYOUTS - 1);
    for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        compare(model, &alone, 0, turns(1, 0));
        for (int i = first; i < end; i++)
            compare(model, &layouts[i], i, turns(layouts[i].schedule == SCHEDULE_ZB_H1, 0));
    }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits), cmocka_unit_test(test_experts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
