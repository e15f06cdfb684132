/* Mixtures of experts against Hugging Face transformers in float32 (tests/oracles/transformers_moe.py made
 * tests/golden/transformers): a whole tiny Mixtral, Mixtral's sparse block and DeepSeek-V3's (sigmoids, groups of
 * experts, biases, a shared expert) alone. In double on `ref` and in float32 on `cpu`, to 1e-5 of each tensor's
 * norm. */
#include "model/model_internal.h"
#include "train/formula.h"

static const double within = 1e-5;
enum { BLOCK_TOKENS = 2 * SEQUENCE, BLOCK_HIDDEN = 12 };

static TrainConfig mixtral(const char *device)
{
    TrainConfig config = formula_config(MODEL_LLAMA, device, scratch_path("formula"));
    config.model.experts = 4;  config.model.expert_ffn = 10;
    config.model.moe = (MoeConfig){ .topk = 2, .rule = { .score = ROUTE_SOFTMAX, .scale = 1 } };
    return config;
}

static TrainConfig deepseek(const char *device)
{
    TrainConfig config = mixtral(device);
    config.model.experts = 8;
    config.model.moe = (MoeConfig){ .topk = 4, .shared_ffn = 10, .bias = true,
        .rule = { .score = ROUTE_SIGMOID, .groups = 4, .group_topk = 2, .scale = 2.5 } };
    return config;
}

static TrainConfig qwen2(const char *device)
{
    TrainConfig config = mixtral(device);
    config.model.moe.shared_ffn = 14;
    config.model.moe.shared_gate = true;
    config.model.moe.rule.pre_softmax = true;
    return config;
}

static void golden_open(SafeFile *file, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/transformers/%s.safetensors", TESTS_DIR, name);
    if (safetensors_open(file, path) != OK) fail_msg("%s", fail_text());
}

/* ---- a whole model ---- */

static void take(Trainer *t, void *context)
{
    formula_weights(t);
    gradients_take(t, context);
}

static void test_mixtral(void **state)
{
    (void)state;
    const char *devices[] = { "ref", "cpu" };
    for (int d = 0; d < 2; d++) {
        Session session = { .config = mixtral(devices[d]), .ranks = 1, .body = take };
        Gradients *ours = gradients_new(&session.config.model), *theirs = gradients_new(&session.config.model);
        const char *worst = "";
        SafeFile file;
        golden_open(&file, "mixtral");
        assert_int_equal(file.tensors, theirs->count + 1);                     /* none that we do not have */
        for (int i = 0; i < theirs->count; i++)
            golden_read(theirs->of[i].value, &file, theirs->of[i].name, theirs->of[i].count);
        golden_read(&theirs->loss, &file, "loss", 1);
        safetensors_close(&file);
        session.context = ours;
        session_run(&session);
        double loss = fabs(ours->loss - theirs->loss) / theirs->loss;
        double gradients = gradients_differ(ours, theirs, &session.config.model, &worst);
        printf("mixtral on %s: loss off by %.1e, gradients by %.1e (%s)\n", devices[d], loss, gradients, worst);
        assert_true(loss <= within && gradients <= within);
        gradients_free(ours);
        gradients_free(theirs);
    }
}

/* ---- a block alone: y and dx of x and dy, the weight gradients ---- */

typedef struct { const char *golden, *device; } Block;

static void tensor_check(const Block *b, const SafeFile *file, const char *name, Tensor x)
{
    int64_t count = tensor_count(x);
    double *golden = malloc((size_t)count * sizeof *golden), off = 0, size = 0;
    golden_read(golden, file, name, count);
    for (int64_t i = 0; i < count; i++) {
        off  += pow(real_get(x, i) - golden[i], 2);
        size += pow(golden[i], 2);
    }
    free(golden);
    printf("%s on %s: %-30s off by %.1e\n", b->golden, b->device, name, sqrt(off / size));
    if (!(sqrt(off / size) <= within)) fail_msg("%s: %s is off by %g", b->golden, name, sqrt(off / size));
}

static Tensor formula_tensor(Arena *arena, Dtype type, const char *name)
{
    Tensor x = tensor_new(arena, name, type, BLOCK_TOKENS, BLOCK_HIDDEN);
    for (int64_t i = 0; i < tensor_count(x); i++) real_set(x, i, formula_weight(name, i));
    return x;
}

static void block_run(Trainer *t, void *context)
{
    const Block *b = context;
    BlockSave save = { 0 };
    SafeFile file;
    Arena arena;
    UnitParam w = zero_unshard(&t->buckets, 1), dw = zero_unshard_grads(&t->buckets, 1);
    ExecContext ctx = t->train.executor.ctx;
    formula_weights(t);
    for (int64_t e = 0; t->config->model.moe.bias && e < t->config->model.experts; e++)
        real_set(t->moe.bias_nE, e, formula_weight("blocks.0.router.expert_bias", e));
    for (int i = 0; i < UNIT_BLOCKS; i++) if (dw.block[i]) fill_zero(&t->queue, (FillZero){ .y = dw.flat[i] });

    assert_int_equal(arena_open(&arena, "block", 1 << 20), OK);
    ctx.activations = ctx.activations_wgrad = ctx.wgrad_saved = ctx.scratch = ctx.tp.scratch = &arena;
    Tensor dy_TC = formula_tensor(&arena, ctx.precision.activation, "block.dy");
    save.n2_tC   = formula_tensor(&arena, ctx.precision.activation, "block.x");
    Tensor y_TC  = moe_forward(&ctx, 0, &w, &save, save.n2_tC, &arena);
    Tensor dx_TC = moe_backward_input(&ctx, 0, &w, &dw, &save, dy_TC);
    moe_backward_weight(&ctx, &dw, &save);
    queue_wait(&t->queue);

    golden_open(&file, b->golden);
    int compared = 2;
    tensor_check(b, &file, "y", y_TC);
    tensor_check(b, &file, "dx", dx_TC);
    for (int i = 0; i < UNIT_BLOCKS; i++)
        for (int p = 0; dw.block[i] && p < dw.block[i]->params; p++) {
            const Param *param = &dw.block[i]->param[p];
            if (!safetensors_find(&file, param->name)) continue;
            tensor_check(b, &file, param->name, tensor_flat(dw.flat[i], param->at, param_logical_elements(param)));
            compared++;
        }
    assert_int_equal(compared, file.tensors);
    safetensors_close(&file);
    arena_close(&arena);
}

static void test_block(const char *golden, TrainConfig config_of(const char *device))
{
    const char *devices[] = { "ref", "cpu" };
    for (int d = 0; d < 2; d++) {
        Block block = { golden, devices[d] };
        Session session = { .config = config_of(devices[d]), .ranks = 1, .body = block_run, .context = &block };
        session_run(&session);
    }
}

static void test_mixtral_block (void **state) { (void)state; test_block("mixtral_block", mixtral); }
static void test_deepseek_block(void **state) { (void)state; test_block("deepseek_block", deepseek); }

static void test_qwen2_block   (void **state) { (void)state; test_block("qwen2_block", qwen2); }

int main(void)
{
    formula_corpus(scratch_path("formula"));
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_mixtral), cmocka_unit_test(test_mixtral_block),
                                        cmocka_unit_test(test_deepseek_block), cmocka_unit_test(test_qwen2_block) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
