/* The gradients of the whole model against its losses: `ref`, dropout on, two micro-batches. For each
 * parameter tensor, 20 random directions d of length 1: the derivative of the loss along d, by central
 * differences of fourth order, against g . d.
 *
 * error = |difference - g . d| / max(|g . d|, |g| / (10 sqrt n))
 *
 * of n elements: along most directions |g . d| is about |g| / sqrt n. So that no wrong gradient hides behind
 * the measure, each tensor's gradient is also scaled by 1 + 1e-6, and changed in one element by 1e-6 of its
 * norm: both must be seen.   */
#include "train/step.h"
#include "train/step_sums.h"
#include "train/whole.h"

#ifdef JOTUN_DEBUG
enum { DIRECTIONS = 4 };                    /* builds under sanitizers are slow, and look for other things */
#else
enum { DIRECTIONS = 20 };
#endif
static const double tolerance = 1e-7, planted = 1e-6, step = 2.5e-4;

enum { QKV = 1, OUT_MLP = 2, ALL = QKV | OUT_MLP };

typedef struct {
    const char    *name;
    NormKind       norm;
    PositionKind   position;
    ActivationKind activation;
    int            groups;
    unsigned       bias;                  /* QKV | OUT_MLP */
    bool           tied, reset;
    NormPlacement  placement;
    bool           zero_centred;
    double         factor, softcap;       /* of embeddings, of logits */
    QkNorm         qk_norm;
    LatentConfig   latent;
    bool           embedding_norm;
} Variant;
static const Variant variants[] = {
    { "gpt, documents apart",     NORM_LAYER, POSITION_LEARNED, ACT_GELU_TANH,    2, ALL,  true,  true  },
    { "gpt",                      NORM_LAYER, POSITION_LEARNED, ACT_GELU_TANH,    2, ALL,  true,  false },
    { "gpt, untied, erf",         NORM_LAYER, POSITION_LEARNED, ACT_GELU_ERF,     2, ALL,  false, true  },
    { "gpt, squared ReLU",        NORM_LAYER, POSITION_LEARNED, ACT_SQUARED_RELU, 4, ALL,  true,  false },
    { "llama",                    NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       1, 0,   false, false },
    { "llama, documents apart",   NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       1, 0,   false, true  },
    { "llama, biases of QKV",     NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       2, QKV, false, false },
    { "llama, QK norm",           NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       2, 0,   false, false, .qk_norm = QK_NORM_HEAD, .zero_centred = true },
    { "llama, QK norm of all",    NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       1, QKV, false, true,  .qk_norm = QK_NORM_ALL },
    { "llama, latents",           NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       4, 0,   false, false, .latent = { 3, 4, 2, 3 } },
    { "llama, latent keys",       NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       4, 0,   true,  true,  .latent = { 0, 4, 2, 5 } },
    { "llama, biases, tied",      NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       1, ALL,  true,  false },
    { "RMSNorm, learned",         NORM_RMS,   POSITION_LEARNED, ACT_SILU,         2, 0,   true,  true  },
    { "LayerNorm, rope",          NORM_LAYER, POSITION_ROPE,    ACT_GELU_TANH,    1, ALL,  false, true  },
    { "LayerNorm, no positions",  NORM_LAYER, POSITION_NONE,    ACT_SWIGLU,       2, ALL,  true,  false },
    { "sinusoidal, erf",          NORM_LAYER, POSITION_SINUSOIDAL, ACT_GELU_ERF,  2, ALL,  true,  false, .factor = 4 },
    { "BLOOM",                    NORM_LAYER, POSITION_ALIBI,   ACT_GELU_TANH,    4, ALL,  true,  false, .embedding_norm = true },
    { "learned, norm 1p before",  NORM_RMS,   POSITION_LEARNED, ACT_GELU_TANH,    4, 0,   false, true, .embedding_norm = true, .zero_centred = true },
    { "OLMo 2",                   NORM_RMS,   POSITION_ROPE,    ACT_SWIGLU,       2, 0,   false, false, .placement = NORM_AFTER },
    { "Gemma",                    NORM_RMS,   POSITION_ROPE,    ACT_GEGLU_TANH,   1, 0,   true,  true, .zero_centred = true,
      .factor = 2.5 },
    { "Gemma 2",                  NORM_RMS,   POSITION_ROPE,    ACT_GEGLU_TANH,   2, 0,   true,  false, NORM_BEFORE_AND_AFTER, true,
      1.5, 2 },
    { "Gemma 3",                  NORM_RMS,   POSITION_ROPE,    ACT_GEGLU_TANH,   2, 0,   true,  false, NORM_BEFORE_AND_AFTER, true,
      2.5, .qk_norm = QK_NORM_HEAD },
    { "LayerNorm 1p, after",      NORM_LAYER, POSITION_LEARNED, ACT_QUICK_GEGLU,  2, ALL, true,  false, NORM_AFTER, true, 0, 0 },
    { "LayerNorm 1p, both",       NORM_LAYER, POSITION_LEARNED, ACT_GEGLU_ERF,    2, ALL, false, true, NORM_BEFORE_AND_AFTER, true, 0, 0 },
};

static TrainConfig config_of(const Variant *v, const char *data)
{
    TrainConfig config = tiny_config(MODEL_GPT, "ref", data);
    config.model = (ModelConfig){ .layers = 2, .hidden = 6, .ffn = 10, .heads = 4, .groups = v->groups, .head_dim = 4,
        .vocabulary = 11, .positions = 6, .sequence = 6, .norm = v->norm, .position = v->position,
        .activation = v->activation, .epsilon = 1e-5, .rope = { .base = 100 },
        .hidden_dropout = 0.1, .attention_dropout = 0.2, .init_std = 0.4, .qkv_bias = v->bias & QKV,
        .out_bias = v->bias & OUT_MLP, .mlp_bias = v->bias & OUT_MLP, .tied = v->tied,
        .norm_placement = v->placement, .gains_zero_centred = v->zero_centred, .embedding_factor = v->factor,
        .logit_softcap = v->softcap, .qk_norm = v->qk_norm,
        .latent = v->latent, .embedding_norm = v->embedding_norm };
    config.reset_attention = config.reset_positions = config.mask_eod = v->reset;
    config.eod = 10;
    config.micro = 2;
    config.global = 4;
    return config;
}

/* Documents of 2 to 6 tokens: most samples hold an end or two */
static void corpus_short(const char *prefix)
{
    TokenFileWriter *writer;
    assert_int_equal(token_file_create(&writer, prefix, 11), OK);
    for (int32_t d = 0; d < 30; d++) {
        int32_t ids[8], n = 2 + d % 5;
        for (int32_t i = 0; i < n; i++) ids[i] = (d * d + 3 * d * i + 2 * i * i) % 10;
        ids[n - 1] = 10;
        assert_int_equal(token_file_add(writer, ids, n), OK);
        assert_int_equal(token_file_end_document(writer), OK);
    }
    assert_int_equal(token_file_finish(writer), OK);
}

static void fill(void *context, Batch *batch, int micro)
{
    Trainer *t = context;
    Status status = loader_fill(&t->input.loader[SPLIT_TRAIN], batch, t->run.samples, micro, t->config->model.vocabulary);
    if (status != OK) fail_msg("%s", fail_text());
}

/* The step's loss, forward alone; trainer_gradients has turned dropout on */
static double loss_sum(Trainer *t)
{
    fill_zero(&t->queue, (FillZero){ .y = t->sums.own_S });
    pipeline_run(&t->train.pipeline, &t->valid.schedule, (PipelineCalls){ .context = t, .fill = fill });
    return ((double *)t->sums.own_S.data)[SUM_LOSS];
}

typedef struct { Trainer *trainer; double *weight, *gradient, *start, *direction; int64_t count; } Line;

static double loss_at(const Line *l, double at)
{
    for (int64_t i = 0; i < l->count; i++) l->weight[i] = l->start[i] + at * l->direction[i];
    return loss_sum(l->trainer);
}

static double difference(const Line *l, double h)
{
    return (8 * (loss_at(l, h) - loss_at(l, -h)) - (loss_at(l, 2 * h) - loss_at(l, -2 * h))) / (12 * h);
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static double error_of(double slope, double g_d, double measure)
{
    return fabs(slope - g_d) / fmax(fabs(g_d), measure);
}

/* The worst over directions: of the gradient, of the planted ones */
typedef struct { double right, scaled, changed; } Errors;

static void errors_join(Errors *e, const Line *l, uint64_t key, double measure)
{
    for (int64_t i = 0; i < l->count; i++) l->direction[i] = random_normal(key, (uint64_t)i);
    double length = sqrt(dot(l->direction, l->direction, l->count));
    for (int64_t i = 0; i < l->count; i++) l->direction[i] /= length;
    double g_d = dot(l->gradient, l->direction, l->count), slope = difference(l, step);
    double change = planted * 10 * measure * sqrt((double)l->count) * l->direction[l->count / 2];
    double right = error_of(slope, g_d, measure);
    e->right   = right <= e->right ? e->right : right;                            /* a NaN is the worst */
    e->scaled  = larger(e->scaled,  error_of(slope, g_d * (1 + planted), measure));
    e->changed = larger(e->changed, error_of(slope, g_d + change, measure));
}

static Errors tensor_errors(Trainer *t, Gradients *g, const Bucket *k, const Param *p)
{
    enum { MOST = 256 };
    double start[MOST], direction[MOST];
    Line l = { .trainer = t, .start = start, .direction = direction, .count = p->global[0] * p->global[1],
               .weight = (double *)k->weights.data + p->at, .gradient = (double *)k->grads.data + p->at };
    Errors e = { 0 };
    double tokens = ((double *)t->sums.total_S.data)[SUM_TOKENS];
    double norm = tokens * whole_measure(g, whole_find(g, p->name), &t->config->model);
    assert_true(l.count <= MOST);
    memcpy(start, l.weight, (size_t)l.count * sizeof *start);
    double measure = norm / (10 * sqrt((double)l.count));
    for (int d = 0; d < DIRECTIONS; d++)
        errors_join(&e, &l, random_mix(random_key(5, p->name), (uint64_t)d), measure);
    memcpy(l.weight, start, (size_t)l.count * sizeof *start);
    return e;
}

/* Gains that are not 1 and biases that are not 0, so that an error in them changes the result. */
static void weights_shake(Trainer *t)
{
    for (int i = 0; i < t->buckets.count; i++) {
        Tensor w = t->buckets.bucket[i].weights;
        uint64_t key = random_mix(3, (uint64_t)i);
        double *x = w.data;
        for (int64_t n = 0; n < tensor_count(w); n++) x[n] += 0.3 * random_normal(key, (uint64_t)n);
    }
}

typedef struct { const char *worst; double most, least; } Summary;   /* error; the least of planted ones */

static void check_tensor(Summary *sum, const Variant *v, const Param *p, Errors e)
{
    bool nothing = strstr(p->name, "key.bias") && v->position != POSITION_ROPE;      /* zero times 1 + 1e-6 */
    if (!(e.right <= tolerance)) fail_msg("%s: gradient of %s is off by %.1e", v->name, p->name, e.right);
    if (!(e.scaled > tolerance || nothing)) fail_msg("%s: scaled %s hides: %.1e", v->name, p->name, e.scaled);
    if (!(e.changed > tolerance)) fail_msg("%s: changed %s is unseen: %.1e", v->name, p->name, e.changed);
    if (e.right >= sum->most) *sum = (Summary){ p->name, e.right, sum->least };
    sum->least = fmin(sum->least, fmin(nothing ? INFINITY : e.scaled, e.changed));
}

static void check_all(Trainer *t, void *context)
{
    const Variant *v = context;
    Gradients *g = gradients_new(&t->config->model);
    Summary sum = { "", 0, INFINITY };
    weights_shake(t);
    gradients_take(t, g);
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        for (int p = 0; p < k->block.params; p++) {
            const Param *param = &k->block.param[p];
            check_tensor(&sum, v, param, tensor_errors(t, g, k, param));
        }
    }
    printf("%-24s %2d tensors, loss %.4f: off by %.1e at most (%s), planted seen as %.1e or more\n", v->name,
           g->count, g->loss, sum.most, sum.worst, sum.least);
    gradients_free(g);
}

static void test_variants(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("short"));
    corpus_short(data);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        Session session = { .config = config_of(&variants[i], data), .ranks = 1, .body = check_all };
        session.context = (void *)&variants[i];
        session_run(&session);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_variants) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
