/* The logical tensors: published parameter counts, that tp and data shards hold each element exactly once, and that a unit is
 * given the parameter it asks for, whatever the names are. */
#include "base/testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "model/unit.h"
#include "tensor/queue.h"

static ModelConfig gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t words, int64_t positions)
{
    return (ModelConfig){ .layers = layers, .hidden = hidden, .ffn = 4 * hidden, .heads = heads, .groups = heads, .head_dim = hidden / heads,
        .vocabulary = words, .positions = positions, .sequence = positions, .activation = ACT_GELU_TANH, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .tied = true };
}

static ModelConfig llama(int64_t layers, int64_t hidden, int64_t ffn, int64_t heads, int64_t groups, int64_t words)
{
    return (ModelConfig){ .layers = layers, .hidden = hidden, .ffn = ffn, .heads = heads, .groups = groups, .head_dim = hidden / heads,
        .vocabulary = words, .sequence = 4096, .norm = NORM_RMS, .position = POSITION_ROPE, .activation = ACT_SWIGLU };
}

static void test_counts(void **state)
{
    (void)state;
    ModelConfig gpt2 = gpt(12, 768, 12, 50257, 1024), xl = gpt(48, 1600, 25, 50257, 1024), llama2 = llama(32, 4096, 11008, 32, 32, 32000),
          llama3 = llama(32, 4096, 14336, 32, 8, 128256), tiny = llama(22, 2048, 5632, 32, 4, 32000);
    assert_int_equal(model_parameters(&gpt2),   124439808);
    assert_int_equal(model_parameters(&xl),     1557611200);
    assert_int_equal(model_parameters(&llama2), 6738415616);
    assert_int_equal(model_parameters(&llama3), 8030261248);
    assert_int_equal(model_parameters(&tiny),   1100048384);
}

/* One of the ranks that split parameters. */
static ParamRanks rank_of(int tp, int tp_rank, int etp, int etp_rank, int ep, int ep_rank)
{
    return (ParamRanks){ .size = { .tp = tp, .etp = etp, .ep = ep }, .at = { .tp = tp_rank, .etp = etp_rank, .ep = ep_rank } };
}

/* counts each element of the logical tensors of one block that `rank` saves, of d data shards */
static void seen_add(uint8_t *seen, const ParamBlock *whole, const ModelConfig *config, ParamRanks rank, int d)
{
    ParamBlock block;
    params_block(&block, config, whole->family, whole->index, &rank);
    int64_t shard_size = (block.count + d - 1) / d;
    for (int s = 0; s < d; s++)
        for (int p = 0; p < block.params; p++) {
            TensorShard shard = params_tensor_shard(&block, p, s * shard_size, shard_size);
            TensorShardRun run;
            for (int64_t cursor = 0; block.param[p].saves && shard.count > 0 && tensor_shard_next_run(&shard, &cursor, &run);)
                for (int64_t i = 0; i < run.count; i++) seen[whole->param[p].at + run.global + i]++;
        }
}

static void cover(const ModelConfig *config, ParamFamily family, int64_t index, int tp, int ep, int d)
{
    ParamBlock whole;
    params_block(&whole, config, family, index, NULL);
    uint8_t *seen = calloc((size_t)whole.count + 1, 1);
    for (int r = 0; r < tp; r++)
        for (int e = 0; e < ep; e++)
            seen_add(seen, &whole, config, family == PARAMS_EXPERTS ? rank_of(1, 0, tp, r, ep, e) : rank_of(tp, r, 1, 0, 1, 0), d);
    for (int p = 0; p < whole.params; p++)
        for (int64_t i = 0; i < param_elements(&whole.param[p]); i++)
            if (seen[whole.param[p].at + i] != 1)
                fail_msg("%s, tp %d, ep %d, %d shards: element %d is held %d times", whole.param[p].name, tp, ep, d, (int)i, seen[whole.param[p].at + i]);
    free(seen);
}

static void test_cover(void **state)
{
    (void)state;
    ModelConfig shapes[] = { gpt(2, 24, 12, 61, 9), llama(2, 24, 36, 12, 12, 5), llama(2, 24, 36, 12, 3, 61) };   /* 61 and 5 words: padding, ranks without a word; 3 heads: copies */
    shapes[2].experts = 8, shapes[2].expert_ffn = 12;
    for (int m = 0; m < 3; m++)
        for (int64_t b = 0; b < params_blocks(&shapes[m]); b++)
            for (int tp = 1; tp <= 12; tp++)
                for (int d = 1; d <= 5; d++) {
                    bool heads = shapes[m].groups % tp == 0 || tp % shapes[m].groups == 0;
                    if (12 % tp == 0 && heads) cover(&shapes[m], PARAMS_DENSE, b, tp, 1, d);
                    for (int ep = 1; ep <= 8 && 12 % tp == 0; ep *= 2) cover(&shapes[m], PARAMS_EXPERTS, b, tp, ep, d);
                }
}

/* With more ranks than key-value heads each rank has one, ranks that follow each other the same; their gradients are summed over
 * these ranks, and the first of them saves. */
static void test_heads_in_copies(void **state)
{
    (void)state;
    ModelConfig config = llama(2, 64, 36, 16, 4, 61);
    for (int r = 0; r < 8; r++) {
        ParamBlock block;
        ParamRanks rank = rank_of(8, r, 1, 0, 1, 0);
        params_block(&block, &config, PARAMS_DENSE, 2, &rank);
        const Param *key = &block.param[block.index_of[PARAM_ATTENTION_KEY_WEIGHT]], *query = &block.param[block.index_of[PARAM_ATTENTION_QUERY_WEIGHT]];
        assert_int_equal(key->local[0], 4);
        assert_int_equal(key->offset[0], r / 2 * 4);
        assert_int_equal(key->part, r / 2);
        assert_int_equal(key->parts, 4);
        assert_int_equal(key->sum, GRADIENT_OVER_KV);
        assert_int_equal(key->saves, r % 2 == 0);
        assert_int_equal(query->part, r);
        assert_int_equal(query->sum, GRADIENT_COMPLETE);
        assert_true(query->saves);
        /* queries of this rank are of the key-value head of this rank: 16 / 8 heads each, 16 / 4 to a group */
        assert_int_equal(query->offset[0] / 4 / 4, key->offset[0] / 4);
    }
}

/* Gradients of replicated parameters are summed over tp under sequence parallelism alone, and tp rank 0 saves them. */
static void test_replicated(void **state)
{
    (void)state;
    ModelConfig config = gpt(2, 24, 12, 61, 9);
    for (int r = 0; r < 2; r++)
        for (int sequence = 0; sequence < 2; sequence++) {
            ParamBlock block;
            ParamRanks rank = rank_of(2, r, 1, 0, 1, 0);
            rank.sequence_parallel = sequence;
            params_block(&block, &config, PARAMS_DENSE, 2, &rank);
            for (int p = 0; p < block.params; p++) {
                bool replicated = block.param[p].parts == 1;
                assert_int_equal(block.param[p].sum, replicated && sequence ? GRADIENT_OVER_TP : GRADIENT_COMPLETE);
                assert_int_equal(block.param[p].saves, !replicated || r == 0);
            }
            assert_int_equal(block.param[block.index_of[PARAM_NORM1_GAIN]].parts, 1);
            assert_int_equal(block.param[block.index_of[PARAM_MLP_UP_WEIGHT]].split[0], AXIS_TP);
        }
}

/* Every matrix begins at a multiple of 256 bytes in 16 bits, and what one matmul reads has no holes. */
static void test_alignment(void **state)
{
    (void)state;
    ModelConfig shapes[] = { gpt(2, 24, 12, 61, 9), llama(2, 24, 36, 12, 3, 61) };
    for (int m = 0; m < 2; m++)
        for (int64_t b = 0; b < params_blocks(&shapes[m]); b++) {
            ParamBlock block;
            params_block(&block, &shapes[m], PARAMS_DENSE, b, NULL);
            assert_int_equal(block.count % 128, 0);
            for (int p = 0; p < block.params; p++) {
                ParamId id = block.param[p].id;
                bool joined = id == PARAM_ATTENTION_KEY_WEIGHT || id == PARAM_ATTENTION_VALUE_WEIGHT || id == PARAM_ATTENTION_KEY_BIAS || id == PARAM_ATTENTION_VALUE_BIAS
                           || (m == 1 && id == PARAM_MLP_UP_WEIGHT);
                int64_t before = p > 0 ? block.param[p - 1].at + param_elements(&block.param[p - 1]) : 0;
                if (joined) assert_int_equal(block.param[p].at, before);
                else        assert_true(block.param[p].at % 128 == 0 && block.param[p].at - before < 128 && block.param[p].at >= before);
            }
        }
}

/* Experts [E, rows, columns]: ep splits the experts, etp rows or columns; and the initial values are those of one rank. */
static void test_experts(void **state)
{
    (void)state;
    ModelConfig config = llama(2, 16, 36, 4, 4, 61);
    config.experts = 4, config.expert_ffn = 8, config.init_std = 1;
    Arena arena;
    Queue q;
    arena_open(&arena, "test", 1 << 20);
    assert_int_equal(queue_open(&q, "ref", 1, NULL), OK);
    ParamBlock whole, block;
    params_block(&whole, &config, PARAMS_EXPERTS, 2, NULL);
    assert_int_equal(whole.params, 3);
    Tensor all = tensor_new(&arena, "whole", F64, whole.count), part = tensor_new(&arena, "part", F64, whole.count);
    params_init(&q, &whole, all, 0, 7);
    for (int e = 0; e < 2; e++)
        for (int r = 0; r < 2; r++) {
            ParamRanks rank = rank_of(1, 0, 2, r, 2, e);
            params_block(&block, &config, PARAMS_EXPERTS, 2, &rank);
            const Param *up = &block.param[block.index_of[PARAM_EXPERTS_UP_WEIGHT]], *down = &block.param[block.index_of[PARAM_EXPERTS_DOWN_WEIGHT]];
            assert_true(up->dims == 3 && up->local[0] == 2 && up->local[1] == 4 && up->local[2] == 16);
            assert_true(up->split[0] == AXIS_EP && up->split[1] == AXIS_ETP && up->split[2] == 0);
            assert_true(down->local[0] == 2 && down->local[1] == 16 && down->local[2] == 4 && down->split[2] == AXIS_ETP);
            assert_int_equal(up->parts, 4);
            assert_int_equal(up->part, 2 * e + r);
            /* in two flat ranges, the second of which begins within an expert */
            int64_t first = 2 * 4 * 16 + 37;
            params_init(&q, &block, tensor_flat(part, 0, first), 0, 7);
            params_init(&q, &block, tensor_flat(part, first, block.count - first), first, 7);
            for (int p = 0; p < block.params; p++) {
                TensorShard shard = params_tensor_shard(&block, p, 0, block.count);
                TensorShardRun run;
                for (int64_t cursor = 0; tensor_shard_next_run(&shard, &cursor, &run);)
                    assert_memory_equal((double *)part.data + block.param[p].at + run.local, (double *)all.data + whole.param[p].at + run.global, (size_t)run.count * sizeof(double));
            }
        }
    params_block(&block, &config, PARAMS_EXPERTS, 0, NULL);
    assert_int_equal(block.params, 0);
    params_block(&block, &config, PARAMS_DENSE, 2, NULL);
    assert_int_equal(block.index_of[PARAM_MLP_UP_WEIGHT], PARAM_ABSENT);
    assert_true(block.index_of[PARAM_ROUTER_WEIGHT] >= 0);
    queue_close(&q);
    arena_close(&arena);
}

/* Standard deviation of the initial values of a parameter, and the largest. */
typedef struct { double deviation, largest; } Spread;

static Spread spread_of(const ModelConfig *config, ParamFamily family, int64_t index, ParamId id)
{
    static double value[1 << 21];
    ParamBlock block;
    Queue q;
    params_block(&block, config, family, index, NULL);
    const Param *p = &block.param[block.index_of[id]];
    assert_true(block.count <= 1 << 21);
    Tensor flat = tensor_at(value, F64, &block.count, 1);
    assert_int_equal(queue_open(&q, "ref", 1, NULL), OK);
    params_init(&q, &block, flat, 0, 3);
    double squares = 0, largest = 0;
    for (int64_t i = 0; i < param_elements(p); i++) {
        squares += value[p->at + i] * value[p->at + i];
        largest = fmax(largest, fabs(value[p->at + i]));
    }
    queue_close(&q);
    return (Spread){ sqrt(squares / (double)param_elements(p)), largest };
}

static void spread_check(const ModelConfig *config, ParamFamily family, int64_t index, ParamId id, double std, bool uniform)
{
    Spread s = spread_of(config, family, index, id);
    if (!(fabs(s.deviation / std - 1) < 0.02)) fail_msg("parameter %d: deviation %g, not %g", (int)id, s.deviation, std);
    if (uniform != (s.largest < std * sqrt(3))) fail_msg("parameter %d: largest %g", (int)id, s.largest);
}

/* By --init-method-std, by that of embeddings, and Xavier's: uniform with variance 2 / (inputs + outputs), where query,
 * key and value, and gate and up, are one matrix. */
static void test_initial_deviations(void **state)
{
    (void)state;
    ModelConfig config = llama(2, 64, 160, 4, 2, 997);
    config.init_std = 0.02;
    spread_check(&config, PARAMS_DENSE, 0, PARAM_EMBED_TOKEN_WEIGHT, 0.02, false);
    config.embedding_std = 1;
    spread_check(&config, PARAMS_DENSE, 0, PARAM_EMBED_TOKEN_WEIGHT, 1, false);
    spread_check(&config, PARAMS_DENSE, 2, PARAM_MLP_UP_WEIGHT, 0.02, false);
    spread_check(&config, PARAMS_DENSE, 2, PARAM_MLP_DOWN_WEIGHT, 0.02 / sqrt(4), false);
    config.xavier = true;
    spread_check(&config, PARAMS_DENSE, 0, PARAM_EMBED_TOKEN_WEIGHT, 1, false);
    spread_check(&config, PARAMS_DENSE, 2, PARAM_ATTENTION_KEY_WEIGHT,
        sqrt(2.0 / (double)(64 + (4 + 2 * 2) * config.head_dim)), true);
    spread_check(&config, PARAMS_DENSE, 2, PARAM_MLP_GATE_WEIGHT, sqrt(2.0 / (64 + 2 * 160)), true);
    spread_check(&config, PARAMS_DENSE, 2, PARAM_MLP_DOWN_WEIGHT, sqrt(2.0 / (64 + 160)), true);
    config.experts = 4, config.expert_ffn = 96;
    spread_check(&config, PARAMS_EXPERTS, 2, PARAM_EXPERTS_UP_WEIGHT, sqrt(2.0 / (64 + 2 * 96)), true);
    spread_check(&config, PARAMS_EXPERTS, 2, PARAM_EXPERTS_DOWN_WEIGHT, sqrt(2.0 / (64 + 96)), true);
}

typedef struct { ParamBlock embedding, own; double *data; UnitParam w; } Unit;

/* The views of one unit on one rank: the embedding block's elements first, then its own */
static Unit unit_open(const ModelConfig *config, int64_t unit)
{
    Unit u;
    params_block(&u.embedding, config, PARAMS_DENSE, 0, NULL);
    params_block(&u.own, config, PARAMS_DENSE, unit + 1, NULL);
    u.data = calloc((size_t)(u.embedding.count + u.own.count), sizeof *u.data);
    u.w = (UnitParam){ .flat = { [UNIT_EMBEDDING] = tensor_at(u.data, F64, &u.embedding.count, 1), [UNIT_OWN] = tensor_at(u.data + u.embedding.count, F64, &u.own.count, 1) } };
    return u;
}

static Tensor ask(Unit *u, ParamId id)
{
    u->w.block[UNIT_OWN] = &u->own;
    u->w.block[UNIT_EMBEDDING] = &u->embedding;
    return unit_param(&u->w, id);
}

/* Every parameter of a block is found under its id, in its place and shape */
static void test_by_id(void **state)
{
    (void)state;
    ModelConfig shapes[] = { gpt(2, 24, 12, 61, 9), llama(2, 24, 36, 12, 12, 61) };
    for (int m = 0; m < 2; m++)
        for (int64_t unit = 0; unit < model_units(&shapes[m]); unit++) {
            Unit u = unit_open(&shapes[m], unit);
            for (int p = 0; p < u.own.params; p++) {
                const Param *param = &u.own.param[p];
                Tensor x = ask(&u, param->id);
                assert_ptr_equal(x.data, u.data + u.embedding.count + param->at);
                assert_int_equal(x.dim[0], param->local[0]);
                assert_int_equal(x.dim[1], param->local[1]);
            }
            if (unit == 0) assert_ptr_equal(ask(&u, PARAM_EMBED_TOKEN_WEIGHT).data, u.data);
            free(u.data);
        }
}

/* A tensor whose name ends as another's whole name is not taken for it, though it is stored first. */
static void test_no_suffix(void **state)
{
    (void)state;
    ModelConfig config = gpt(4, 24, 12, 61, 9);
    Unit u = unit_open(&config, 4);
    double *key = ask(&u, PARAM_ATTENTION_KEY_WEIGHT).data;
    assert_string_equal(u.own.param[1].name, "blocks.3.attention.key.weight");
    snprintf(u.own.param[0].name, sizeof u.own.param[0].name, "blocks.3.cross.attention.key.weight");
    assert_ptr_equal(ask(&u, PARAM_ATTENTION_KEY_WEIGHT).data, key);
    assert_ptr_equal(ask(&u, PARAM_ATTENTION_QUERY_WEIGHT).data, u.data + u.embedding.count);
    free(u.data);
}

static void asks_elsewhere(void *context)
{
    ModelConfig config = gpt(2, 24, 12, 61, 9);
    Unit u = unit_open(&config, 1);
    ask(&u, *(ParamId *)context);
}

/* Only what the model has none of is absent; what another kind of block holds stops. */
static void test_absent(void **state)
{
    (void)state;
    ModelConfig config = llama(2, 24, 36, 12, 12, 61);
    Unit u = unit_open(&config, 1);
    assert_false(tensor_present(ask(&u, PARAM_ATTENTION_QUERY_BIAS)));
    assert_false(tensor_present(ask(&u, PARAM_NORM1_BIAS)));
    assert_true(tensor_present(ask(&u, PARAM_NORM1_GAIN)));
    Tensor gate_up = unit_span(&u.w, PARAM_MLP_GATE_WEIGHT, PARAM_MLP_UP_WEIGHT);
    assert_int_equal(gate_up.dim[0], 2 * 36);
    assert_false(tensor_present(unit_span(&u.w, PARAM_MLP_GATE_BIAS, PARAM_MLP_UP_BIAS)));
    free(u.data);
    ParamId head = PARAM_FINAL_GAIN;
    Ended asked = run_in_child(asks_elsewhere, &head);
    assert_int_equal(asked.exit_code, 3);
    assert_contains(asked.text, "is not in block 2");
}

/* A block has a place for every row of params.def, and no row twice: it cannot overflow. */
static void test_capacity(void **state)
{
    (void)state;
    _Static_assert(sizeof (ParamBlock){ 0 }.param == PARAM_IDS * sizeof(Param), "a place for each row");
    ModelConfig config = gpt(2, 24, 12, 61, 9);
    config.activation = ACT_SWIGLU, config.norm_placement = NORM_BEFORE_AND_AFTER;   /* with biases: the most a block has */
    config.tied = false, config.embedding_norm = true, config.mtp = 1;
    int seen[PARAM_IDS] = { 0 };
    for (int64_t b = 0; b < params_blocks(&config); b++) {
        ParamBlock block;
        params_block(&block, &config, PARAMS_DENSE, b, NULL);
        for (int p = 0; p < block.params; p++) {
            assert_int_equal(block.index_of[block.param[p].id], p);
            seen[block.param[p].id]++;
        }
    }
    for (int id = 0; id < PARAM_IDS; id++) {
        bool experts = id == PARAM_ROUTER_WEIGHT || id == PARAM_SHARED_GATE_WEIGHT || id == PARAM_EXPERTS_GATE_WEIGHT || id == PARAM_EXPERTS_UP_WEIGHT || id == PARAM_EXPERTS_DOWN_WEIGHT;
        bool norm = id >= PARAM_ATTENTION_QUERY_GAINS && id <= PARAM_LATENT_KV_UP;      /* QK norm, latents: where asked for */
        assert_in_range(seen[id], experts || norm ? 0 : 1, experts || norm ? 0 : 3);         /* two layers, and that of a depth */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_cover), cmocka_unit_test(test_heads_in_copies),
        cmocka_unit_test(test_replicated), cmocka_unit_test(test_alignment), cmocka_unit_test(test_experts), cmocka_unit_test(test_initial_deviations), cmocka_unit_test(test_by_id),
        cmocka_unit_test(test_no_suffix), cmocka_unit_test(test_absent), cmocka_unit_test(test_capacity) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
