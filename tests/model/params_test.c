/* The logical tensors: published parameter counts, and that tp and data shards hold each element exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "model/params.h"
#include <cmocka.h>

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
                if (block.param[p].cut == TP_REPLICATED && r > 0) continue;      /* replicated: rank 0's stands for all */
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_cover) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
