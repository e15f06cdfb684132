/* The table of docs/memory.md against the dry run, to the byte: what a layer keeps for backward, term by term
 * (after Korthikanti et al. 2022, arXiv 2205.05198, table 2), with and without recomputation, under tensor and
 * sequence parallelism, pipeline schedules and deferred weight gradients. Every term is one allocation, so it
 * is rounded up to the arena's alignment. */
#include "train/measure.h"
#include "train/layouts.h"

/* G key-value heads of a rank, one where there are more ranks. T tokens of a micro-batch held by the tensor-parallel group; t of them outside of regions; e bytes of an
 * element, s of one of a statistic. Of one layer: */
typedef struct {
    int64_t x, x2;                     /* inputs of the norms: t C */
    int64_t embedding_norm;            /* of the embedding: input t C, statistics, gain C */
    int64_t n1, n2;                    /* their outputs, which the matrices read: t C */
    int64_t statistics;                /* rstd of both norms, and mean of LayerNorm: t each */
    int64_t after;                     /* of norms after both branches: inputs 2 t C, statistics */
    int64_t dafter;                    /* gradients of their outputs, which deferred weight gradients read: 2 t C */
    int64_t qkv, lse, out;             /* T (H + 2 G) D, with copies of key heads under Ulysses; T H; T H D */
    int64_t h, g;                      /* T W, T F */
    int64_t qk;                        /* QK norm: T (H + G) D before it, and its statistics: T (H + G), or 2 T */
    int64_t latent;                    /* of latent attention: T P, T of both ranks, two statistics of T */
    int64_t dmore;                     /* gradients of both: of gains; T P, T H (N + E), T of both ranks */
    int64_t scales;                    /* of 8-bit inputs with current scaling: three for each of four maps */
    int64_t dy, dh, dqkv, dn;          /* gradients that deferred weight gradients read: of the branches' outputs
                                        * 2 T C, T W, T (H + 2 G) D, of the norms' outputs 2 t C */
} Terms;

static int64_t bytes_of(int64_t elements, int64_t width)
{
    return (elements * width + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* s: bytes of a statistic */
static Terms terms_of(const TrainConfig *c, int64_t e, int64_t s)
{
    const ModelConfig *m = &c->model;
    int64_t T = c->micro * m->sequence / c->cp, t = c->sequence_parallel ? T / c->tp : T, C = m->hidden;
    int64_t G = m->groups < c->tp ? 1 : m->groups / c->tp, Q = (m->heads / c->tp + 2 * G) * m->head_dim, H = m->heads / c->tp, F = m->ffn / c->tp;
    /* after the exchange of Ulysses, of u ranks: u T rows with H / u query heads and the key heads they read */
    int64_t u = c->ulysses > 1 ? c->ulysses : 1, Hu = H / u, keys = Hu;
    for (int64_t shared = Hu; shared > 1; shared--)
        if (Hu % shared == 0 && H / G % shared == 0) { keys = Hu / shared; break; }
    int64_t exchanged = u > 1 ? u * (Hu + 2 * keys) * m->head_dim : Q;
    int64_t W = ACT_GATED(m->activation) ? 2 * F : F, norm = m->norm == NORM_LAYER ? 2 : 1;
    bool before = m->norm_placement != NORM_AFTER, after = m->norm_placement != NORM_BEFORE;
    int64_t D = m->head_dim, more[3] = { 0 };
    const LatentConfig *l = &m->latent;
    if (m->qk_norm != QK_NORM_NONE) {
        bool all = m->qk_norm == QK_NORM_ALL;
        more[0] = bytes_of(T * (H + G) * D, e) + bytes_of(T * (all ? 1 : H), s) + bytes_of(T * (all ? 1 : G), s);
        more[2] = bytes_of(all ? H * D : D, s) + bytes_of(all ? G * D : D, s);
    }
    if (l->kv_rank > 0) {
        int64_t P = (l->query_rank ? l->query_rank : H * D) + l->kv_rank + l->rope_dim;
        int64_t latents = bytes_of(T * l->kv_rank, e) + bytes_of(T * l->query_rank, e);
        more[1] = bytes_of(T * P, e) + latents + (l->query_rank ? 2 : 1) * bytes_of(T, s);
        more[2] = bytes_of(T * P, e) + latents + bytes_of(T * H * (D - l->rope_dim + l->value_dim), e);
        Q = exchanged = H * (2 * D + l->value_dim);
    }
    return (Terms){
        .embedding_norm = m->embedding_norm * (bytes_of(t * C, e) + norm * bytes_of(t, s) + bytes_of(C, e)),
        .qk = more[0], .latent = more[1], .dmore = more[2],
        .x = bytes_of(t * C, e), .x2 = bytes_of(t * C, e), .n1 = before * bytes_of(t * C, e),
        .n2 = before * bytes_of(t * C, e), .statistics = before * 2 * norm * bytes_of(t, s),
        .after = after * 2 * (bytes_of(t * C, e) + norm * bytes_of(t, s)), .dafter = after * 2 * bytes_of(t * C, e), .qkv = bytes_of(T * exchanged, e), .lse = bytes_of(T * H, s),
        .out = bytes_of(T * H * model_value_dim(m), e), .h = bytes_of(T * W, e), .g = bytes_of(T * F, e),
        .dy = 2 * bytes_of(T * C, e), .dh = bytes_of(T * W, e), .dqkv = bytes_of(T * Q, e),
        .dn = 2 * bytes_of(t * C, e),
        .scales = c->precision.fp8.recipe == FP8_CURRENT ? bytes_of(4 * 3, 4) : 0 };
}

/* What is kept until backward_weight, and what backward_input alone reads. */
static int64_t kept_for_weights(const Terms *k) 
{
    return k->x2 + k->n1 + k->n2 + k->statistics + k->after + k->out + k->g + k->scales + k->latent;
}
static int64_t kept_for_input  (const Terms *k) { return k->qkv + k->lse + k->h + k->qk; }

/* Without what the modules compute again, which deferred weight gradients keep from then on. */
static int64_t freed(const Terms *k, unsigned modules, bool defer)
{
    int64_t norms = modules & RECOMPUTE_LAYERNORM ? k->n1 + k->n2 + k->statistics : 0;
    int64_t g     = modules & (RECOMPUTE_MLP | RECOMPUTE_MLP_ACT) ? k->g : 0;
    int64_t out   = modules & RECOMPUTE_CORE_ATTN ? k->out : 0;
    int64_t input = (modules & RECOMPUTE_MLP ? k->h : 0) + (modules & RECOMPUTE_CORE_ATTN ? k->lse : 0);
    return input + (defer ? 0 : norms + g + out);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Bytes of a slot for a chunk of `layers` layers, whose first input and last output it has too, and of the
 * recomputed arena. */
static int64_t slot_of(const TrainConfig *c, const Terms *k, int64_t layers, bool embeds, int64_t *recomputed)
{
    const Recompute *r = &c->recompute;
    bool    defer   = schedule_defers(c->schedule), uniform = r->method == RECOMPUTE_UNIFORM;
    int64_t again   = uniform ? layers : r->method == RECOMPUTE_BLOCK ? least(layers, r->layers) : 0;
    int64_t group   = uniform ? least(layers, r->layers) : least(again, 1);
    int64_t groups  = uniform ? (layers + r->layers - 1) / r->layers : again;
    int64_t inner   = again - groups;              /* outputs within groups */
    int64_t kept    = kept_for_weights(k) + kept_for_input(k) - freed(k, r->modules, defer);
    int64_t slot    = embeds * k->embedding_norm + k->x + (layers - inner) * k->x + (layers - again) * kept;
    int64_t later   = layers * (k->dy + k->dn + k->dafter + k->dmore) + embeds * k->x;
    /* dqkv and dh take the memory of qkv and h where those are in the slot */
    later += again * k->dqkv + (r->modules & RECOMPUTE_MLP ? layers : again) * k->dh;
    later += again * kept_for_weights(k) + inner * k->x;
    /* in forward all of them, also where backward leaves some in the slot */
    *recomputed = group ? group * (kept_for_input(k) + kept_for_weights(k)) + (group - 1) * k->x : 0;
    return slot + (defer ? later : 0);
}

/* What a run computes in, and the bytes of an element and of a statistic. */
typedef struct { const char *name, *device; MixedPrecision mixed; int64_t element, statistic; Fp8Recipe fp8; } Numbers;

static void compare_rank(const TrainConfig *config, const Layout *layout, int rank, const Numbers *n,
                         const char *mode)
{
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(rank, layout->ranks);
    if (trainer_open(&t, config, transport, NULL) != OK) fail_msg("%s", fail_text());
    trainer_count(&t, &sizes);
    Terms terms = terms_of(config, n->element, n->statistic);
    int64_t slot = 0, recomputed = 0, buffers = 0;
    ScheduleShape whole = train_config_schedule(config, t.train.micros);
    for (int c = 0; c < config->chunks; c++) {
        bool first = stage_is_first(&t.stage, c), last = stage_is_last(&t.stage, c);
        int64_t again, bytes = slot_of(config, &terms, t.stage.count[c] - first - last, first, &again);
        if (bytes > slot) slot = bytes;
        if (again > recomputed) recomputed = again;
        int next = schedule_after(&t.train.schedule->shape, t.stage.stage, c);
        bool receives = next >= 0 && next != t.stage.stage;    /* gradients, and sends or hands over */
        buffers += schedule_buffers(&whole) * (!first + receives) * terms.x;
    }
    if ((int64_t)sizes.slot != slot || (int64_t)sizes.bytes[ARENA_RECOMPUTED] != recomputed)
        fail_msg("%s, %s, %s, rank %d: a slot of %zu and %zu recomputed, the terms sum up to %lld and %lld", n->name,
                 layout->name, mode, rank, sizes.slot, sizes.bytes[ARENA_RECOMPUTED], (long long)slot, (long long)recomputed);
    int64_t slots = t.train.executor.slots * bytes_of(slot, 1);
    assert_int_equal(sizes.bytes[ARENA_ACTIVATIONS], slots + buffers);
    trainer_close(&t);
    transport->close(transport);
}

static const struct { const char *name; Recompute recompute; } modes[] = {
    { "all is kept",       { 0, RECOMPUTE_NONE, 0 } },
    { "core_attn",         { RECOMPUTE_CORE_ATTN, RECOMPUTE_NONE, 0 } },
    { "layernorm",         { RECOMPUTE_LAYERNORM, RECOMPUTE_NONE, 0 } },
    { "mlp",               { RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
    { "mlp_act",           { RECOMPUTE_MLP_ACT, RECOMPUTE_NONE, 0 } },
    { "layernorm mlp",     { RECOMPUTE_LAYERNORM | RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
    { "full, uniform 1",   { 0, RECOMPUTE_UNIFORM, 1 } },
    { "full, uniform 3",   { 0, RECOMPUTE_UNIFORM, 3 } },
    { "full, block 2",     { 0, RECOMPUTE_BLOCK, 2 } },
};

/* Models with other attention than the two of tiny_config, or another embedding: what is added to a Llama, and its name */
static const struct { const char *name; QkNorm qk_norm; LatentConfig latent; bool embedding_norm; } attentions[] = {
    { "llama",             QK_NORM_NONE, { 0 }, false },
    { "embedding norm",    QK_NORM_NONE, { 0 }, true },
    { "QK norm of a head", QK_NORM_HEAD, { 0 }, false },
    { "QK norm of all",    QK_NORM_ALL,  { 0 }, false },
    { "latents",           QK_NORM_NONE, { 7, 9, 4, 5 }, false },
    { "latent keys",       QK_NORM_NONE, { 0, 9, 4, 5 }, false },
};

static void test_attentions(void **state)
{
    (void)state;
    static const Numbers numbers[] = { { "bf16", "cpu", MIXED_BF16, 2, 4, FP8_NONE }, { "fp64", "ref", MIXED_NONE, 8, 8, FP8_NONE } };
    for (const Numbers *n = numbers; n < numbers + sizeof numbers / sizeof *numbers; n++)
        for (size_t a = 0; a < sizeof attentions / sizeof *attentions; a++)
            for (int i = 0; i < LAYOUTS; i++) {
                TrainConfig config = tiny_config(MODEL_LLAMA, n->device, "none");
                bool latent = attentions[a].latent.kv_rank > 0;
                if (layouts[i].layers) continue;
                config.precision.mixed = n->mixed;
                config_set_layout(&config, &layouts[i]);
                config.model.layers = 8;
                config.model.qk_norm = attentions[a].qk_norm, config.model.latent = attentions[a].latent;
                config.model.embedding_norm = attentions[a].embedding_norm;
                if (latent) config.model.groups = config.model.heads;
                config.micro = 3;
                config.global = 3 * 8 * (layouts[i].ranks / (config.tp * config.cp * config.pp));
                for (int rank = 0; rank < layouts[i].ranks; rank += layouts[i].ranks / layouts[i].pp)
                    compare_rank(&config, &layouts[i], rank, n, attentions[a].name);
            }
}

static void test_terms(void **state)
{
    (void)state;
    static const Numbers numbers[] = {
        { "fp32", "cpu", MIXED_NONE, 4, 4, FP8_NONE }, { "bf16", "cpu", MIXED_BF16, 2, 4, FP8_NONE },
        { "fp16", "cpu", MIXED_F16, 2, 4, FP8_NONE },  { "fp64", "ref", MIXED_NONE, 8, 8, FP8_NONE },
        { "fp8", "cpu", MIXED_BF16, 2, 4, FP8_CURRENT } };
    for (const Numbers *n = numbers; n < numbers + sizeof numbers / sizeof *numbers; n++)
        for (int model = 0; model < 2 * 3; model++)
            for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
                for (int i = 0; i < LAYOUTS; i++) {
                    TrainConfig config = tiny_config(model % 2 ? MODEL_LLAMA : MODEL_GPT, n->device, "none");
                    if (layouts[i].layers) continue;           /* for another number of layers */
                    config.precision.mixed = n->mixed;
                    config_set_layout(&config, &layouts[i]);
                    config.model.layers = 8;
                    config.model.norm_placement = (NormPlacement)(model / 2);
                    config.recompute = modes[m].recompute;
                    config.precision.fp8.recipe = n->fp8;
                    config.micro = 3;
                    config.global = 3 * 8 * (layouts[i].ranks / (config.tp * config.cp * config.pp));
                    for (int rank = 0; rank < layouts[i].ranks; rank += layouts[i].ranks / layouts[i].pp)
                        compare_rank(&config, &layouts[i], rank, n, modes[m].name);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_terms), cmocka_unit_test(test_attentions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
