/* --load hf:FOLDER: what a rank reads is its box, or its range of elements of one, of the whole tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail                      /* cmocka's; base/status.h has another */
#include "base/seam.h"
#include "comm/broadcast.h"
#include "convert/weights/foreign_weights.h"
#include "store/safetensors.h"

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

/* As a rank does it that has read index and headers itself. */
static Status load(const char *from, const ModelConfig *model, const TensorShard *shard)
{
    char  *table = NULL;
    size_t bytes = 0;
    Status status = foreign_weights_table(&table, &bytes, from);
    if (status == OK) status = foreign_weights_load(table, bytes, model, shard, 1, false, 0, 1);
    free(table);
    return status;
}

static void shards_are_parts(void **state)
{
    (void)state;
    float whole[COUNT], part[COUNT];
    TensorShard all = shard_of(whole, 0, 0, ROWS, COLUMNS, 0, COUNT);
    assert_int_equal(load(folder, &llama, &all), OK);
    for (int row = 0; row < ROWS; row += 13)
        for (int column = 0; column < COLUMNS; column += 5) {
            int rows = ROWS - row, columns = COLUMNS - column, n = rows * columns, first = n / 3;
            TensorShard shard = shard_of(part, row, column, rows, columns, first, n - first);
            assert_int_equal(load(folder, &llama, &shard), OK);
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
    assert_int_equal(load(folder, &wider, &shard), BAD_SHAPE);
    snprintf(shard.name, sizeof shard.name, "blocks.1.mlp.up.bias");
    assert_int_equal(load(folder, &llama, &shard), BAD_SHAPE);
    assert_non_null(strstr(fail_text(), "blocks.1.mlp.up.bias"));
    assert_int_equal(load("/nowhere", &llama, &shard), BAD_FILE);
    assert_null(foreign_weights_folder("hfx:a"));
    assert_string_equal(foreign_weights_folder("hf:a"), "a");
}

/* ---- which files ranks open ---- */

enum { RANKS = 5 };
static char split[64];                   /* a folder with a file for each tensor */

/* A file of one tensor, and its line of the index. */
static void split_one(const SafeFile *whole, int t, FILE *index)
{
    SafeTensor one = whole->tensor[t];
    char path[1024], name[64], *header;
    size_t header_bytes, bytes;
    assert_int_equal(safetensors_header(&one, 1, &header, &header_bytes, &bytes), OK);
    snprintf(name, sizeof name, "model-%05d.safetensors", t);
    assert_int_equal(path_join(path, split, name), OK);
    FILE *out = fopen(path, "wb");
    assert_true(out && fwrite(header, 1, header_bytes, out) == header_bytes);
    assert_true(fwrite(whole->map.data + whole->tensor[t].at, 1, one.bytes, out) == one.bytes);
    assert_int_equal(fclose(out), 0);
    fprintf(index, "%s\"%s\":\"%s\"", t ? "," : "", one.name, name);
    free(header);
}

static void split_make(void)
{
    SafeFile whole;
    char     path[1024];
    FileMap  config;
    snprintf(split, sizeof split, "/tmp/jotun-test-split-%d", (int)getpid());
    assert_int_equal(folder_make(split), OK);
    path_join(path, folder, "config.json");
    assert_int_equal(file_map(&config, path), OK);
    path_join(path, split, "config.json");
    assert_int_equal(file_write_whole(path, config.data, config.size), OK);
    file_unmap(&config);
    path_join(path, folder, "model.safetensors");
    assert_int_equal(safetensors_open(&whole, path), OK);
    path_join(path, split, "model.safetensors.index.json");
    FILE *index = fopen(path, "w");
    assert_non_null(index);
    fprintf(index, "{\"weight_map\":{");
    for (int t = 0; t < whole.tensors; t++) split_one(&whole, t, index);
    fprintf(index, "}}");
    fclose(index);
    safetensors_close(&whole);
}

/* Opens of each rank, and which other file it opened last. Ranks are threads, and each has its own line. */
static struct { int shards, others; char last[64]; } opened[RANKS];

static int open_counted(const char *path, int flags, mode_t mode)
{
    int rank = thread_context()->rank;
    bool shard = strstr(path, "/model-") != NULL;
    if (!strncmp(path, split, strlen(split)) && rank >= 0 && rank < RANKS) {
        if (shard) opened[rank].shards++;
        else opened[rank].others++;
        if (shard) snprintf(opened[rank].last, sizeof opened[rank].last, "%s", strstr(path, "model-"));
    }
    return seam_system.open(path, flags, mode);
}

/* Rank r holds one row of the up-projection of layer r % 2. */
static Status load_on_rank(Transport *transport, void *missing)
{
    char  *table = NULL;
    size_t bytes = 0;
    float  row[COLUMNS];
    thread_context()->rank = transport->rank;
    TensorShard shard = shard_of(row, transport->rank, 0, 1, COLUMNS, 0, COLUMNS);
    snprintf(shard.name, sizeof shard.name, "blocks.%d.mlp.up.weight", transport->rank % 2);
    Comm  *world  = comm_world(transport);
    Status status = OK;
    if (transport->rank == 0) status = foreign_weights_table(&table, &bytes, missing ? missing : split);
    status = broadcast_bytes(world, status, &table, &bytes);
    if (status == OK) status = agree(world, foreign_weights_load(table, bytes, &llama, &shard, 1, false, 0, 1));
    bool told = !missing || strstr(fail_text(), "/nowhere");
    free(table);
    comm_close(world);
    return told ? status : fail(NO_MEMORY, "rank %d: the message is \"%s\"", transport->rank, fail_text());
}

static void one_rank_reads_the_headers(void **state)
{
    (void)state;
    split_make();
    seam.open = open_counted;
    assert_int_equal(transport_threads_run(RANKS, load_on_rank, NULL), OK);
    int tensors = 0;
    SafeFile whole;
    char path[1024];
    path_join(path, folder, "model.safetensors");
    assert_int_equal(safetensors_open(&whole, path), OK);
    tensors = whole.tensors;
    safetensors_close(&whole);
    assert_int_equal(opened[0].others, 2);                           /* config.json and the index */
    assert_int_equal(opened[0].shards, tensors + 1);
    for (int r = 1; r < RANKS; r++) {
        assert_int_equal(opened[r].others, 0);
        assert_int_equal(opened[r].shards, 1);
        assert_string_equal(opened[r].last, opened[r % 2].last);
    }
    assert_string_not_equal(opened[0].last, opened[1].last);
    assert_int_equal(transport_threads_run(RANKS, load_on_rank, "/nowhere"), BAD_FILE);
    /* A file that is not as it was listed: rank 1's, and so all ranks fail. */
    path_join(path, split, opened[1].last);
    char *table;
    size_t bytes;
    float row[COLUMNS];
    TensorShard shard = shard_of(row, 0, 0, 1, COLUMNS, 0, COLUMNS);
    assert_int_equal(foreign_weights_table(&table, &bytes, split), OK);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(foreign_weights_load(table, bytes, &llama, &shard, 1, false, 0, 1), BAD_FILE);
    assert_non_null(strstr(fail_text(), "has 100 bytes here"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(foreign_weights_load(table, bytes, &llama, &shard, 1, false, 0, 1), BAD_FILE);
    assert_non_null(strstr(fail_text(), opened[1].last));
    free(table);
    seam = seam_system;
    assert_int_equal(folder_remove(split), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards_are_parts),
                                       cmocka_unit_test(other_models_are_refused),
                                       cmocka_unit_test(one_rank_reads_the_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
