/* --load hf:FOLDER: what a rank reads is its box, or its range of elements of one, of the whole tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#undef fail                      /* cmocka's; base/status.h has another */
#include "convert/foreign_weights.h"

enum { ROWS = 40, COLUMNS = 16, COUNT = ROWS * COLUMNS };
static const ModelConfig llama = { .layers = 2, .hidden = COLUMNS, .ffn = ROWS, .heads = 4, .groups = 4,
    .head_dim = 4, .vocabulary = 257, .sequence = 64, .norm = NORM_RMS, .position = POSITION_ROPE,
    .activation = ACT_SWIGLU };
static const char folder[] = TESTS_DIR "/golden/hf/llama";

/* Elements [first, first + count) of a box of the up-projection of layer 1. */
static TensorShard shard_of(float *to, int row, int column, int rows, int columns, int64_t first,
                            int64_t count)
{
    TensorShard shard = { .name = "blocks.1.mlp.up.weight", .dims = 2, .global = { ROWS, COLUMNS, 1, 1 },
        .offset = { row, column }, .box = { rows, columns, 1, 1 }, .first = first, .count = count };
    shard.local = tensor_at(to, F32, &count, 1);
    return shard;
}

static void shards_are_parts(void **state)
{
    (void)state;
    float whole[COUNT], part[COUNT];
    TensorShard all = shard_of(whole, 0, 0, ROWS, COLUMNS, 0, COUNT);
    assert_int_equal(foreign_weights_load(folder, &llama, &all, 1, 0, 1), OK);
    for (int row = 0; row < ROWS; row += 13)
        for (int column = 0; column < COLUMNS; column += 5) {
            int rows = ROWS - row, columns = COLUMNS - column, n = rows * columns, first = n / 3;
            TensorShard shard = shard_of(part, row, column, rows, columns, first, n - first);
            assert_int_equal(foreign_weights_load(folder, &llama, &shard, 1, 0, 1), OK);
            for (int i = first; i < n; i++)
                assert_true(part[i - first] == whole[(row + i / columns) * COLUMNS + column + i % columns]);
        }
}

static void other_models_are_refused(void **state)
{
    (void)state;
    float part[COUNT];
    ModelConfig wider = llama;
    TensorShard shard = shard_of(part, 0, 0, ROWS, COLUMNS, 0, COUNT);
    wider.ffn = 48;
    assert_int_equal(foreign_weights_load(folder, &wider, &shard, 1, 0, 1), BAD_SHAPE);
    snprintf(shard.name, sizeof shard.name, "blocks.1.mlp.up.bias");
    assert_int_equal(foreign_weights_load(folder, &llama, &shard, 1, 0, 1), BAD_SHAPE);
    assert_non_null(strstr(fail_text(), "blocks.1.mlp.up.bias"));
    assert_int_equal(foreign_weights_load("/nowhere", &llama, &shard, 1, 0, 1), BAD_FILE);
    assert_null(foreign_weights_folder("hfx:a"));
    assert_string_equal(foreign_weights_folder("hf:a"), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards_are_parts),
                                       cmocka_unit_test(other_models_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
