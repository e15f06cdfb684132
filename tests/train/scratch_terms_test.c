/* The table "Scratch of a unit" of docs/memory.md against the dry run, to the byte: the peak of the arena
 * scratch of every rank, under the layouts of layouts.h, with and without recomputation and overlap. Left out
 * are experts and FP8 inputs. Every term is one allocation, rounded up to the arena's alignment. */
#include "train/measure.h"
#include "train/layouts.h"

/* What a run computes in; bytes of an element and of a statistic. */
typedef struct { const char *name, *device; MixedPrecision mixed; int64_t e, f; } Numbers;

/* Bytes. T tokens of a micro-batch on this rank's tensor-parallel group, t of them outside of regions. */
typedef struct {
    bool    sequence, tp, gated;       /* tokens sharded outside of regions; more ranks than one; SwiGLU */
    bool    defers, beside;            /* weight gradients run later; while input gradients are summed */
    unsigned modules;                  /* that are computed again */
    int64_t x, whole;                  /* t C; T C */
    int64_t norm;                      /* output and statistics of a norm */
    bool    before, after, embedding_norm;     /* norms in front of branches, after them, of the embedding */
    int64_t qkv, out, lse, h, g;       /* T (H + 2 G) D, T H D, T H, T W, T F */
    int64_t window;                    /* of a sum over tp */
    int64_t core, core_back;           /* what attention over cp ranks releases at its end, both ways */
    int64_t own, enter;                /* Ulysses: query, key and value of own tokens; their exchange */
    int64_t heads, heads_back;         /* Ulysses: what stays of the heads that it receives, both ways */
    int64_t logits, loss;              /* of the head's chunk, with gradient and statistics; of all T */
} Terms;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t bytes_of(int64_t elements, int64_t width)
{
    return (elements * width + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* 2 n rows of what a rank gets of the sum; here n is at most 8, one group, and 4 MiB are not reached. */
static int64_t window_of(int64_t n, int64_t elements, int64_t width)
{
    return n > 1 ? bytes_of(2 * n * ((elements + n - 1) / n), width) : 0;
}

/* Attention over a ring or a gathering of r ranks: T tokens, h query and g key-value heads. copies: gradients
 * of keys and values have the type of statistics already. */
static void ring_terms(Terms *k, const TrainConfig *c, const Numbers *n, int64_t r, int64_t T, int64_t h,
                       int64_t g, bool copies)
{
    int64_t D = c->model.head_dim, e = n->e, f = n->f, pairs = 2 * T * g * D;
    bool narrow = e < f;
    if (r == 1) return;
    if (c->gather) {
        k->core = 2 * bytes_of(r * pairs, e) + bytes_of(pairs, e);
        k->core_back = bytes_of(r * pairs, f) + bytes_of(pairs, f)
                     + most(k->core, bytes_of(r * pairs, f) + window_of(r, r * pairs, f));
        return;
    }
    k->core = 2 * bytes_of(pairs, e) + narrow * bytes_of(T * h * D, f) + bytes_of(T / 2 * h * D, f)
            + bytes_of(T / 2 * h, f);
    k->core_back = 2 * bytes_of(pairs, e) + 2 * bytes_of(pairs, f) + narrow * bytes_of(T * h * D, f)
                 + (narrow && !copies) * bytes_of(pairs, f);
}

/* Around ring or gathering the exchanges of Ulysses with u ranks ("Attention over context-parallel ranks"),
 * whose buffers stay until the layer is done. */
static void attention_terms(Terms *k, const TrainConfig *c, const Numbers *n, int64_t T, int64_t H, int64_t G)
{
    int64_t D = c->model.head_dim, u = c->ulysses > 1 ? c->ulysses : 1, h = H / u, g = u > 1 ? h : G;
    for (int64_t shared = 1; shared <= h && u > 1; shared++)
        if (h % shared == 0 && H / G % shared == 0) g = h / shared;
    bool copies = u * g != G;
    ring_terms(k, c, n, c->cp / u, u * T, h, g, copies);
    if (u == 1) return;
    int64_t heads = bytes_of(u * T * h * D, n->e), keys = bytes_of(2 * u * T * g * D, copies ? n->f : n->e);
    int64_t sum = copies && n->e < n->f ? bytes_of(2 * T * G * D, n->f) : 0;
    k->own   = k->qkv;
    k->enter = 2 * bytes_of(u * T * (h + 2 * g) * D, n->e);
    k->heads = heads;
    k->core  = most(k->core, 2 * heads);
    k->heads_back = 2 * heads + bytes_of(u * T * h, n->f) + keys + sum;
    k->core_back  = most(k->core_back - sum, 2 * most(heads, keys));
}

static void head_terms(Terms *k, const TrainConfig *c, const Numbers *n, int64_t T)
{
    int64_t V = (c->model.vocabulary + c->tp - 1) / c->tp, N = c->head_chunk < T ? c->head_chunk : T;
    k->logits = bytes_of(N * V, n->f) + (n->e < n->f ? bytes_of(N * V, n->e) : 0) + bytes_of(3 * N, n->f)
              + k->tp * bytes_of(3 * N * c->tp, n->f);
    k->loss = 2 * bytes_of(T, n->f);
}

static Terms terms_of(const TrainConfig *c, const Numbers *n)
{
    const ModelConfig *m = &c->model;
    int64_t T = c->micro * m->sequence / c->cp, t = c->sequence_parallel ? T / c->tp : T, C = m->hidden;
    int64_t H = m->heads / c->tp, G = m->groups < c->tp ? 1 : m->groups / c->tp, F = m->ffn / c->tp;
    bool gated = ACT_GATED(m->activation), defers = schedule_defers(c->schedule);
    Terms k = {
        .sequence = c->sequence_parallel, .tp = c->tp > 1, .gated = gated, .defers = defers,
        .beside = c->tp > 1 && !defers && !c->no_overlap, .modules = c->recompute.modules,
        .x = bytes_of(t * C, n->e), .whole = bytes_of(T * C, n->e),
        .embedding_norm = m->embedding_norm, .before = m->norm_placement != NORM_AFTER, .after = m->norm_placement != NORM_BEFORE,
        .norm = bytes_of(t * C, n->e) + (m->norm == NORM_LAYER ? 2 : 1) * bytes_of(t, n->f),
        .qkv = bytes_of(T * (H + 2 * G) * m->head_dim, n->e), .out = bytes_of(T * H * m->head_dim, n->e),
        .lse = bytes_of(T * H, n->f), .h = bytes_of(T * F * (gated ? 2 : 1), n->e),
        .g = bytes_of(T * F, n->e), .window = window_of(c->tp, T * C, n->e) };
    attention_terms(&k, c, n, T, H, G);
    head_terms(&k, c, n, T);
    return k;
}

/* ---- rows of the table: the most that a unit takes ---- */

static int64_t embed_bytes(const Terms *k)
{
    int64_t norm     = k->embedding_norm * k->x;                /* its output; the gradient of its input */
    int64_t forward  = k->whole + k->sequence * k->x + most(k->window, norm);
    int64_t backward = !k->defers * k->x + norm + k->sequence * k->whole;
    return most(forward, backward);
}

/* Twice: a region is entered, its modules' saves are made, and it is left by way of a sum. What leaving takes
 * stays, but where a norm follows, whose output comes next, it is released. */
static int64_t layer_forward(const Terms *k)
{
    int64_t norm  = k->before && k->modules & RECOMPUTE_LAYERNORM ? k->norm : 0, enter = k->sequence * k->whole;
    int64_t core  = k->modules & RECOMPUTE_CORE_ATTN ? k->out + k->lse : 0;
    int64_t mlp   = (k->modules & RECOMPUTE_MLP ? k->h : 0)
                  + (k->modules & (RECOMPUTE_MLP | RECOMPUTE_MLP_ACT) ? k->g : 0);
    int64_t leave = k->tp * k->whole + k->sequence * k->x;
    int64_t before = norm + enter + k->own, attention = before + core + k->heads;
    int64_t end = attention + leave + norm + enter + mlp + leave + k->window;
    if (k->after) end = attention + norm + enter + mlp + most(leave + k->window, k->x);
    return most(before + k->enter, most(attention + k->core, end));
}

/* What the modules compute again, core attention last. Deferred weight gradients keep in the slot what they
 * read of it. */
static int64_t again_bytes(const Terms *k)
{
    int64_t norms = k->before && k->modules & RECOMPUTE_LAYERNORM ? 2 * k->norm : 0, g = 0, h = 0;
    int64_t out   = k->modules & RECOMPUTE_CORE_ATTN ? k->out : 0;
    int64_t lse   = k->modules & RECOMPUTE_CORE_ATTN ? k->lse : 0;
    if (k->modules & (RECOMPUTE_MLP | RECOMPUTE_MLP_ACT)) g = k->g;
    if (k->modules & RECOMPUTE_MLP) h = k->sequence * k->whole + k->h;
    if (k->modules & RECOMPUTE_CORE_ATTN) lse += k->heads;
    return h + lse + !k->defers * (norms + g + out);
}

/* recomputed: the layer's forward is repeated as a whole. */
static int64_t layer_backward(const Terms *k, bool recomputed)
{
    bool kept = !k->defers, region = kept || k->sequence;
    /* the gradient of a branch's output, and gathered; of its input, and this rank's rows of their sum */
    int64_t branch = kept * k->after * k->x + region * (k->x + k->whole) + kept * k->sequence * (k->whole + k->x);
    int64_t dh   = kept || !(recomputed || k->modules & RECOMPUTE_MLP) ? k->h : 0;
    int64_t dqkv = kept || !recomputed ? k->qkv : 0;
    int64_t mlp  = again_bytes(k) + branch + dh + k->gated * k->g;
    int64_t gathered = 2 * k->sequence * k->whole;       /* both regions are entered again for the weights */
    int64_t all  = mlp + k->x + branch + k->out + dqkv + k->lse + k->heads_back;
    /* core attention runs before the attention input's gradient is there */
    int64_t later = region * k->whole + kept * k->sequence * k->x;
    int64_t beside = k->beside * (k->window + k->sequence * k->whole);
    int64_t core = all - later + beside + k->core_back;
    int64_t end  = k->beside ? 2 * k->window + gathered : most(k->window, kept * gathered);
    int64_t again = k->modules & RECOMPUTE_CORE_ATTN ? again_bytes(k) + k->core : 0;
    return most(most(core, again), most(all + end, k->defers * gathered));
}

static int64_t head_bytes(const Terms *k)
{
    return k->norm + k->sequence * k->whole + k->whole + k->logits + k->loss + k->sequence * k->x
         + k->window;
}

/* ---- the dry run ---- */

static int64_t stage_bytes(const Terms *k, const TrainConfig *c, const Stage *stage)
{
    int64_t unit = 0;
    for (int i = 0; i < c->chunks; i++) {
        bool first = stage_is_first(stage, i), last = stage_is_last(stage, i);
        int64_t layers = stage->count[i] - first - last, again = 0;
        if (c->recompute.method == RECOMPUTE_UNIFORM) again = layers;
        if (c->recompute.method == RECOMPUTE_BLOCK)
            again = layers < c->recompute.layers ? layers : c->recompute.layers;
        if (layers > 0)     unit = most(unit, layer_forward(k));
        if (again > 0)      unit = most(unit, layer_backward(k, true));
        if (again < layers) unit = most(unit, layer_backward(k, false));
        if (first)          unit = most(unit, embed_bytes(k));
        if (last)           unit = most(unit, head_bytes(k));
    }
    return 2 * k->x + unit;
}

static void compare_rank(const TrainConfig *config, const Layout *layout, int rank, const Numbers *n,
                         const char *mode)
{
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(rank, layout->ranks);
    if (trainer_open(&t, config, transport, NULL) != OK) fail_msg("%s", fail_text());
    trainer_count(&t, &sizes);
    Terms terms = terms_of(config, n);
    int64_t wanted = stage_bytes(&terms, config, &t.stage);
    if ((int64_t)sizes.bytes[ARENA_SCRATCH] != wanted)
        fail_msg("%s, %s, %s, %s%s, rank %d: scratch of %zu bytes, the terms sum up to %lld", n->name,
                 config->model.norm == NORM_LAYER ? "GPT" : "Llama", layout->name, mode,
                 config->no_overlap ? ", no overlap" : "", rank, sizes.bytes[ARENA_SCRATCH],
                 (long long)wanted);
    trainer_close(&t);
    transport->close(transport);
}

static const struct { const char *name; Recompute recompute; } modes[] = {
    { "all is kept",     { 0, RECOMPUTE_NONE, 0 } },
    { "core_attn",       { RECOMPUTE_CORE_ATTN, RECOMPUTE_NONE, 0 } },
    { "layernorm",       { RECOMPUTE_LAYERNORM, RECOMPUTE_NONE, 0 } },
    { "mlp",             { RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
    { "mlp_act",         { RECOMPUTE_MLP_ACT, RECOMPUTE_NONE, 0 } },
    { "all modules",     { RECOMPUTE_CORE_ATTN | RECOMPUTE_LAYERNORM | RECOMPUTE_MLP, RECOMPUTE_NONE, 0 } },
    { "full, uniform 3", { 0, RECOMPUTE_UNIFORM, 3 } },
    { "full, block 2",   { 0, RECOMPUTE_BLOCK, 2 } },
};
enum { MODES = sizeof modes / sizeof *modes };

/* Embedding and head alone on a stage, where no layer hides what they take. */
static const Layout alone[] = {
    { "E|tttt|L",             3, 1, 1, 3, 1, 0, false, SCHEDULE_1F1B,  .layers = "E|tttt|L" },
    { "E|tttt|L tp2",         6, 2, 1, 3, 1, 0, false, SCHEDULE_1F1B,  .layers = "E|tttt|L" },
    { "E|tttt|L tp2 seq",     6, 2, 1, 3, 1, 0, true,  SCHEDULE_1F1B,  .layers = "E|tttt|L" },
    { "E|tttt|L zb-h1",       6, 2, 1, 3, 1, 0, true,  SCHEDULE_ZB_H1, .layers = "E|tttt|L" },
    { "E|tttt|L cp2",         6, 1, 2, 3, 1, 1, false, SCHEDULE_1F1B,  .layers = "E|tttt|L" },
};
enum { ALONE = sizeof alone / sizeof *alone };

/* 96 sequences, so that a unit takes more than the windows of the sums at a step's end, which are not written
 * here. ZeRO 2 and 3 without overlap sum a unit's gradients on top of its scratch. */
static void compare_layout(const Layout *layout, const Numbers *n, ModelName model, NormPlacement placement,
                           int mode, bool blocks, int64_t chunk)
{
    TrainConfig config = tiny_config(model, n->device, "none");
    config.model.norm_placement = placement;
    config.model.embedding_norm = chunk == 64;
    config_set_layout(&config, layout);
    config.model.layers = layout->layers ? 4 : 8;
    config.precision.mixed = n->mixed;
    config.recompute  = modes[mode].recompute;
    config.no_overlap = blocks && config.zero < 2;
    config.head_chunk = chunk;
    config.micro  = 96;
    config.global = 96 * 8 * (layout->ranks / (config.tp * config.cp * config.pp));
    for (int rank = 0; rank < layout->ranks; rank += layout->ranks / layout->pp)
        compare_rank(&config, layout, rank, n, modes[mode].name);
}

static const Numbers numbers[] = { { "fp32", "cpu", MIXED_NONE, 4, 4 }, { "bf16", "cpu", MIXED_BF16, 2, 4 },
                                   { "fp64", "ref", MIXED_NONE, 8, 8 } };
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void test_layers(void **state)
{
    (void)state;
    for (int i = 0; i < LAYOUTS * NUMBERS * 4; i++)
        for (int mode = 0; mode < MODES; mode++)
            compare_layout(&layouts[i / 4 % LAYOUTS], &numbers[i / 4 / LAYOUTS], (ModelName)(i % 2),
                (NormPlacement)((i / 2 + mode) % 3), mode, i / 2 % 2, 5);
}

/* Chunks of 5 tokens, of 64, and one of all. */
static void test_embedding_and_head(void **state)
{
    (void)state;
    static const int64_t chunk[] = { 5, 64, 4096 };
    for (int i = 0; i < ALONE * NUMBERS * 4; i++)
        for (int c = 0; c < 3; c++)
            compare_layout(&alone[i / 4 % ALONE], &numbers[i / 4 / ALONE], (ModelName)(i % 2),
                NORM_BEFORE, 0, i / 2 % 2, chunk[c]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layers),
                                        cmocka_unit_test(test_embedding_and_head) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
