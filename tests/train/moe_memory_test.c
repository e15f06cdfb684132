/* What a layer of experts keeps for backward, of the dry run against the formulas of docs/memory.md, to the byte; and
 * that neither a slot nor scratch grows with the parts that experts are divided into. */
#include "train/measure.h"
#include "train/moe_layouts.h"

enum { RANKS = 8, MOST_LAYERS = 4 };

static int64_t bytes_of(int64_t elements, int64_t width)
{
    return (elements * width + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The experts' part of a slot, of one layer: e bytes of an activation, s of a statistic; without sequence
 * parallelism, where tp ranks share the sending, `most` of t tokens. */
static int64_t layer_bytes(const TrainConfig *c, int64_t e, int64_t s)
{
    const MoeConfig *moe = &c->model.moe;
    int64_t t = c->micro * c->model.sequence / c->cp / (c->sequence_parallel ? c->tp : 1);
    int64_t most = c->sequence_parallel ? t : divide_up(t, c->tp);
    int64_t J = c->etp, R = c->etp * c->ep, E = c->model.experts, X = E / c->ep, K = moe->topk, C = c->model.hidden;
    int64_t F = c->model.expert_ffn / J, W = ACT_GATED(c->model.activation) ? 2 * F : F;
    int64_t Q = divide_up(R * least(K, X), J * K), each = divide_up(most, Q), N = J * K * most, M = R * most * least(K, X);
    bool chunked = Q > 1 && moe->capacity_factor == 0;
    Q = divide_up(most, each);
    if (moe->capacity_factor > 0) {
        int64_t capacity = (int64_t)ceil(moe->capacity_factor * (double)(K * most) / (double)E);
        Q = 1, M = least(M, R * X * capacity), N = least(N, J * E * capacity);
    }
    int64_t router = bytes_of(t * E, s) + bytes_of(t * K, s) + bytes_of(t * K, 4);
    int64_t order = bytes_of(most * K * J, 4) + bytes_of(N, 4) + bytes_of(Q * R * X, 4) * (R > 1 ? 2 : 1);
    int64_t experts = chunked ? 0 : bytes_of(M * C, e) + bytes_of(M * W, e) + bytes_of(M * F, e);
    return router + order + experts + bytes_of(N * C, e);
}

static ArenaSizes sizes_of(const TrainConfig *config)
{
    ArenaSizes sizes;
    if (trainer_measure(&sizes, config, 0, RANKS) != OK) fail_msg("%s", fail_text());
    return sizes;
}

/* Layers have experts, and none: the difference is the experts' and the dense MLP's part. */
static int64_t experts_part(TrainConfig config, int64_t e)
{
    TrainConfig dense = config;
    int64_t t = config.micro * config.model.sequence / config.cp, F = config.model.ffn / config.tp;
    int64_t W = ACT_GATED(config.model.activation) ? 2 * F : F;
    dense.model.experts = 0, dense.ep = 1, dense.etp = 1;
    int64_t off = (int64_t)sizes_of(&config).slot - (int64_t)sizes_of(&dense).slot;
    return off / config.model.layers + bytes_of(t * W, e) + bytes_of(t * F, e);
}

static TrainConfig config_of(ModelName model, const char *device, MixedPrecision mixed)
{
    TrainConfig config = moe_config(model, device, "none");
    config.precision.mixed = mixed;
    config.model.layers = MOST_LAYERS;
    config.model.experts = 8;
    config.model.moe.dense_layers[0] = 0;
    config.model.moe.shared_ffn = 0;
    config.micro = 3, config.global = 24;
    config.etp = config.ep = 1;
    return config;
}

static void test_terms(void **state)
{
    (void)state;
    static const struct { int tp, cp, etp, ep; bool sequence; double capacity; } rows[] = {
        { 1, 1, 1, 1, false, 0 }, { 1, 1, 1, 2, false, 0 }, { 1, 1, 1, 4, false, 0 }, { 1, 1, 1, 8, false, 0 },
        { 2, 1, 1, 1, false, 0 }, { 2, 1, 2, 2, false, 0 }, { 4, 1, 1, 8, false, 0 }, { 2, 1, 2, 1, true, 0 },
        { 2, 1, 2, 4, true, 0 },  { 2, 2, 1, 8, true, 0 },  { 1, 1, 1, 4, false, 1.25 }, { 2, 1, 2, 4, true, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int n = 0; n < 3; n++) {
            TrainConfig config = config_of(n ? MODEL_LLAMA : MODEL_GPT, n == 2 ? "ref" : "cpu", n == 1 ? MIXED_BF16 : MIXED_NONE);
            int64_t e = n == 0 ? 4 : n == 1 ? 2 : 8, s = n == 2 ? 8 : 4;
            config.tp = rows[i].tp, config.cp = rows[i].cp, config.etp = rows[i].etp, config.ep = rows[i].ep;
            config.sequence_parallel = rows[i].sequence;
            config.model.moe.capacity_factor = rows[i].capacity;
            int64_t is = experts_part(config, e), want = layer_bytes(&config, e, s);
            if (is != want)
                fail_msg("tp %d cp %d etp %d ep %d, numbers %d: a layer of experts keeps %lld bytes, by the formula %lld",
                         config.tp, config.cp, config.etp, config.ep, n, (long long)is, (long long)want);
        }
}

/* Rows of 16 tokens of 2 or 4 experts each, a row of 128 bytes or more: numbers of rows, the one term that grows, are
 * below 1% of them. */
static void test_parts(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        TrainConfig config = config_of(n ? MODEL_LLAMA : MODEL_GPT, "cpu", MIXED_NONE);
        ArenaSizes before = { 0 };
        config.model.sequence = config.model.positions = 256;
        for (int ep = 1; ep <= RANKS; ep *= 2) {
            config.ep = ep;
            ArenaSizes now = sizes_of(&config);
            printf("%s, ep %d: a slot of %zu bytes, scratch %zu\n", n ? "llama" : "gpt", ep, now.slot, now.bytes[ARENA_SCRATCH]);
            if (ep > 1) assert_true((double)now.slot <= 1.01 * (double)before.slot);
            if (ep > 2) assert_true((double)now.bytes[ARENA_SCRATCH] <= 1.01 * (double)before.bytes[ARENA_SCRATCH]);
            before = now;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_terms), cmocka_unit_test(test_parts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
