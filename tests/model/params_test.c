/* The logical tensors: published parameter counts, that tp and data shards hold each element exactly once, and that a unit is
 * given the parameter it asks for, whatever the names are. */
#include "base/testing.h"
#include <stdio.h>
#include <stdlib.h>
#include "model/unit.h"

static ModelConfig gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t words, int64_t positions)
{
    return (ModelConfig){ .layers = layers, .hidden = hidden, .ffn = 4 * hidden, .heads = heads, .groups = heads, .head_dim = hidden / heads,
        .vocabulary = words, .positions = positions, .sequence = positions, .activation = ACT_GELU_TANH, .bias = true, .tied = true };
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

/* counts each element of the logical tensors of one block over all tp ranks and d data shards */
static void cover(const ModelConfig *config, int64_t index, int tp, int d)
{
    ParamBlock whole;
    params_block(&whole, config, index, 1, 0);
    uint8_t *seen = calloc((size_t)whole.count + 1, 1);
    for (int r = 0; r < tp; r++) {
        ParamBlock block;
        params_block(&block, config, index, tp, r);
        int64_t shard_size = (block.count + d - 1) / d;
        for (int s = 0; s < d; s++)
            for (int p = 0; p < block.params; p++) {
                TensorShard shard = params_tensor_shard(&block, p, s * shard_size, shard_size);
                TensorShardRun run;
                if (block.param[p].sharding == TP_REPLICATED && r > 0) continue;      /* replicated: counted on rank 0 alone */
                for (int64_t cursor = 0; shard.count > 0 && tensor_shard_next_run(&shard, &cursor, &run);)
                    for (int64_t i = 0; i < run.count; i++) seen[whole.param[p].at + run.global + i]++;
            }
    }
    for (int64_t i = 0; i < whole.count; i++)
        if (seen[i] != 1) fail_msg("block %d, tp %d, %d shards: element %d is held %d times", (int)index, tp, d, (int)i, seen[i]);
    free(seen);
}

static void test_cover(void **state)
{
    (void)state;
    ModelConfig shapes[] = { gpt(2, 24, 12, 61, 9), llama(2, 24, 36, 12, 12, 5) };                /* 61 and 5 words: padding, ranks without a word */
    for (int m = 0; m < 2; m++)
        for (int64_t b = 0; b < params_blocks(&shapes[m]); b++)
            for (int tp = 1; tp <= 12; tp++)
                for (int d = 1; d <= 5; d++)
                    if (12 % tp == 0) cover(&shapes[m], b, tp, d);
}

typedef struct { ParamBlock embedding, own; double *data; UnitParam w; } Unit;

/* The views of one unit on one rank: the embedding block's elements first, then its own */
static Unit unit_open(const ModelConfig *config, int64_t unit)
{
    Unit u;
    params_block(&u.embedding, config, 0, 1, 0);
    params_block(&u.own, config, unit + 1, 1, 0);
    u.data = calloc((size_t)(u.embedding.count + u.own.count), sizeof *u.data);
    u.w = (UnitParam){ .flat_embedding = tensor_at(u.data, F64, &u.embedding.count, 1), .flat_own = tensor_at(u.data + u.embedding.count, F64, &u.own.count, 1) };
    return u;
}

static Tensor ask(Unit *u, ParamId id)
{
    u->w.own  = &u->own;
    u->w.embedding = &u->embedding;
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
    config.activation = ACT_SWIGLU;                                           /* with biases: the most a block has */
    config.tied = false;
    int seen[PARAM_IDS] = { 0 };
    for (int64_t b = 0; b < params_blocks(&config); b++) {
        ParamBlock block;
        params_block(&block, &config, b, 1, 0);
        for (int p = 0; p < block.params; p++) {
            assert_int_equal(block.index_of[block.param[p].id], p);
            seen[block.param[p].id]++;
        }
    }
    for (int id = 0; id < PARAM_IDS; id++) assert_in_range(seen[id], 1, 2);  /* two layers */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_cover), cmocka_unit_test(test_by_id),
        cmocka_unit_test(test_no_suffix), cmocka_unit_test(test_absent), cmocka_unit_test(test_capacity) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
