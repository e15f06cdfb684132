/* Attention of families of models against Hugging Face transformers in double (tests/oracles/transformers_attention.py
 * made tests/golden/transformers/attention_*): from the output of the norm before it to the output projection, and
 * the gradients of input and weights. To 1e-10 of each tensor's norm on `ref`, to 1e-5 in float32 on `cpu`. */
#include "model/model_internal.h"
#include "train/formula.h"

enum { SAMPLES_HERE = 2, ROWS = SAMPLES_HERE * SEQUENCE, HIDDEN = 12, CASES_MOST = 16 };

typedef struct { const char *name; ModelConfig is; } Family;

#define PLAIN { .base = 100 }
/* What differs from a Llama of two layers, four heads and two key-value heads of 6 channels. */
static const Family families[] = {
    { "qwen2",         { .head_dim = 6,  .rope = PLAIN, .qkv_bias = true } },
    { "llama31",       { .head_dim = 6,  .rope = { .base = 100, .scaling = ROPE_LLAMA3, .factor = 8, .low = 1, .high = 4,
                                                   .original = 64 } } },
    { "llama_linear",  { .head_dim = 6,  .rope = { .base = 100, .interpolation = 4 } } },
    { "qwen3_yarn",    { .head_dim = 12, .rope = { .base = 100, .scaling = ROPE_YARN, .factor = 4, .original = 16, .fast = 2,
                                                   .slow = 0.25, .mscale = 1, .rounded = true }, .qk_norm = QK_NORM_HEAD } },
    { "qwen3",         { .head_dim = 6,  .rope = PLAIN, .qk_norm = QK_NORM_HEAD } },
    { "olmo2",         { .head_dim = 6,  .rope = PLAIN, .qk_norm = QK_NORM_ALL } },
    { "glm",           { .head_dim = 8,  .rope = { .base = 100, .channels = 4, .interleaved = true }, .qkv_bias = true } },
    { "gemma2_local",  { .head_dim = 6,  .rope = PLAIN, .window = 3, .softcap = 2, .softmax_scale = 0.31622776601683794 } },
    { "gemma2_global", { .head_dim = 6,  .rope = PLAIN, .softcap = 2, .softmax_scale = 0.31622776601683794 } },
    { "gemma3_local",  { .head_dim = 6,  .rope = { .base = 1000, .local_base = 10, .interpolation = 8 }, .window = 3,
                         .qk_norm = QK_NORM_HEAD, .softmax_scale = 0.31622776601683794 } },
    { "gemma3_global", { .head_dim = 6,  .rope = { .base = 1000, .local_base = 10, .interpolation = 8 },
                         .qk_norm = QK_NORM_HEAD, .softmax_scale = 0.31622776601683794 } },
    { "deepseek_v3",   { .head_dim = 10, .groups = 4, .epsilon = 1e-6, .rope = { .base = 100, .interleaved = true },
                         .latent = { .query_rank = 7, .kv_rank = 10, .rope_dim = 4, .value_dim = 5 } } },
    { "deepseek_yarn", { .head_dim = 10, .groups = 4, .epsilon = 1e-6,
                         .rope = { .base = 100, .scaling = ROPE_YARN, .factor = 4, .original = 16, .fast = 2, .slow = 0.25,
                                   .mscale = 0.7, .mscale_all = 1.3, .rounded = true, .interleaved = true },
                         .latent = { .kv_rank = 10, .rope_dim = 4, .value_dim = 5 } } },
};

static TrainConfig config_of(const Family *f, const char *device)
{
    TrainConfig config = formula_config(MODEL_LLAMA, device, scratch_path("formula"));
    ModelConfig *m = &config.model;
    m->head_dim = f->is.head_dim, m->rope = f->is.rope, m->qkv_bias = f->is.qkv_bias, m->qk_norm = f->is.qk_norm;
    m->latent = f->is.latent;
    if (f->is.groups) m->groups = f->is.groups, m->epsilon = f->is.epsilon;
    m->window = f->is.window, m->softcap = f->is.softcap, m->softmax_scale = f->is.softmax_scale;
    return config;
}

typedef struct { const Family *family; const char *device; double within; SafeFile file; int compared; } Comparison;

static void tensor_check(Comparison *c, const char *name, Tensor x)
{
    int64_t count = tensor_count(x);
    double *golden = malloc((size_t)count * sizeof *golden), off = 0, size = 0;
    golden_read(golden, &c->file, name, count);
    for (int64_t i = 0; i < count; i++) {
        off  += pow(real_get(x, i) - golden[i], 2);
        size += pow(golden[i], 2);
    }
    free(golden);
    c->compared++;
    if (!(sqrt(off / size) <= c->within))
        fail_msg("%s on %s: %s is off by %.1e", c->family->name, c->device, name, sqrt(off / size));
}

static Tensor formula_rows(Arena *arena, Dtype type, const char *name)
{
    Tensor x = tensor_new(arena, name, type, ROWS, HIDDEN);
    for (int64_t i = 0; i < tensor_count(x); i++) real_set(x, i, formula_weight(name, i));
    return x;
}

/* Of all samples attention sees the same: positions from 0 on. */
static const Batch *filled(Trainer *t)
{
    Batch *batch = &t->train.executor.slot[0].batch;
    Status status = loader_fill(&t->input.loader[SPLIT_TRAIN], batch, 0, 0, VOCABULARY);
    if (status != OK) fail_msg("%s", fail_text());
    return batch;
}

/* y = attention(x),   dx and gradients from dy. A key's bias has a gradient under RoPE alone, as here. */
static void attention_run(Trainer *t, void *context)
{
    Comparison *c = context;
    BlockSave save = { 0 };
    Arena arena;
    char path[512];
    UnitParam w = zero_unshard(&t->buckets, 1), dw = zero_unshard_grads(&t->buckets, 1);
    ExecContext ctx = t->train.executor.ctx;
    formula_weights(t);
    ctx.batch = filled(t);
    for (int i = 0; i < UNIT_BLOCKS; i++) if (dw.block[i]) fill_zero(&t->queue, (FillZero){ .y = dw.flat[i] });

    assert_int_equal(arena_open(&arena, "attention", 1 << 20), OK);
    ctx.activations = ctx.activations_wgrad = ctx.wgrad_saved = ctx.scratch = ctx.tp.scratch = &arena;
    save.n1_tC = formula_rows(&arena, ctx.precision.activation, "attention.x");
    Tensor dy_TC = formula_rows(&arena, ctx.precision.activation, "attention.dy");
    Tensor y_TC  = tensor_new(&arena, "y", ctx.precision.activation, ROWS, HIDDEN);
    attend_forward(&ctx, 0, &w, &save, save.n1_tC);
    linear_forward(&ctx, &save, LINEAR_OUT, y_TC, save.core.out_TO, unit_param(&w, PARAM_ATTENTION_OUT_WEIGHT),
                   tensor_none());
    Tensor dx_TC = attend_backward_input(&ctx, 0, &w, &save, dy_TC);
    attend_backward_weight(&ctx, &dw, &save);
    queue_wait(&t->queue);

    snprintf(path, sizeof path, "%s/golden/transformers/attention_%s.safetensors", TESTS_DIR, c->family->name);
    if (safetensors_open(&c->file, path) != OK) fail_msg("%s", fail_text());
    tensor_check(c, "y", y_TC);
    tensor_check(c, "dx", dx_TC);
    for (int i = 0; i < UNIT_BLOCKS; i++)
        for (int p = 0; dw.block[i] && p < dw.block[i]->params; p++) {
            const Param *param = &dw.block[i]->param[p];
            if (strstr(param->name, "attention."))
                tensor_check(c, param->name, tensor_flat(dw.flat[i], param->at, param_logical_elements(param)));
        }
    assert_int_equal(c->compared, c->file.tensors);
    safetensors_close(&c->file);
    arena_close(&arena);
}

static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int cpu = 0; cpu < 2; cpu++) {
            Comparison c = { .family = &families[i], .device = cpu ? "cpu" : "ref", .within = cpu ? 1e-5 : 1e-10 };
            Session session = { .config = config_of(c.family, c.device), .ranks = 1, .body = attention_run, .context = &c };
            session_run(&session);
        }
}

int main(void)
{
    formula_corpus(scratch_path("formula"));
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_families) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
