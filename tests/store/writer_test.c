/* A checkpoint that is written from logical tensors in windows, without a trainer. */
#include "store/fixture.h"
#include "store/checkpoint_writer.h"

static const CheckpointState weights_alone = { .lacks = CHECKPOINT_STATES | CHECKPOINT_POSITION, .seed = 3,
                                               .options = "{\"num-layers\":1}" };

/* Puts a whole tensor in windows of `window` elements, which each begin anew in memory. */
static Status put(CheckpointWriter *writer, const LogicalTensor *t, int64_t window, int64_t leave)
{
    TensorShard whole = { .dims = t->dims, .count = 1 };
    strcpy(whole.name, t->name);
    memcpy(whole.global, t->dim, sizeof whole.global);
    memcpy(whole.box, t->dim, sizeof whole.box);
    for (int d = 0; d < t->dims; d++) whole.count *= t->dim[d];
    size_t width = dtype_width(t->dtype);
    char *data = calloc((size_t)whole.count + 1, width);
    whole.local = tensor_at(data, t->dtype, &whole.count, 1);
    piece_fill(&whole, 9);
    Status status = OK;
    for (int64_t at = 0; status == OK && at < whole.count - leave; at += window) {
        int64_t n = whole.count - leave - at < window ? whole.count - leave - at : window;
        status = checkpoint_writer_put(writer, t->name, n, data + (size_t)at * width);
    }
    free(data);
    return status;
}

static void windows_are_a_checkpoint(void **unused)
{
    (void)unused;
    char dir[64], path[1024];
    bool found;
    folder_fresh(dir, "writer");
    for (int64_t window = 1; window < 200; window = 3 * window + 1) {
        CheckpointWriter *writer;
        assert_int_equal(folder_remove(dir), OK);
        assert_int_equal(checkpoint_writer_open(&writer, "--output", dir, &weights_alone, files, FILES), OK);
        for (int f = FILES - 1; f >= 0; f--)
            for (int t = 0; t < files[f].tensors; t++)
                assert_int_equal(put(writer, &files[f].tensor[t], window, 0), OK);
        assert_int_equal(checkpoint_writer_finish(writer), OK);
        checkpoint_writer_close(writer);
        assert_int_equal(checkpoint_find(dir, path, &found), OK);
        assert_true(found);
        assert_int_equal(checkpoint_verify(path, false), OK);
        assert_true(loads_equal(path, 3, 5, 9));
        CheckpointState state;
        assert_int_equal(checkpoint_state(path, &state), OK);
        assert_true(state.lacks == weights_alone.lacks && state.step == 0 && state.seed == 3);
    }
    assert_int_equal(folder_remove(dir), OK);
}

static void assert_fails(Status status, Status wanted, const char *says)
{
    if (!strstr(fail_text(), says)) print_error("\"%s\" lacks \"%s\"\n", fail_text(), says);
    assert_true(status == wanted && strstr(fail_text(), says));
}

/* What is not whole is no checkpoint, and nothing remains of it. */
static void parts_are_none(void **unused)
{
    (void)unused;
    char dir[64], path[1024];
    bool found;
    CheckpointWriter *writer;
    folder_fresh(dir, "parts");
    assert_int_equal(checkpoint_writer_open(&writer, "--output", dir, &weights_alone, files, FILES), OK);
    for (int f = 0; f < FILES; f++)
        for (int t = 0; t < files[f].tensors; t++)
            assert_int_equal(put(writer, &files[f].tensor[t], 7, f == 2), OK);
    float one = 1;
    assert_fails(checkpoint_writer_put(writer, "embed.weight", 1, &one), BAD_SHAPE, "1 more than that");
    assert_fails(checkpoint_writer_put(writer, "embed.wait", 1, &one), BAD_SHAPE, "'embed.wait' is in no file");
    assert_fails(checkpoint_writer_finish(writer), BAD_SHAPE, "'head.gain' has 5 elements, and 4 of them");
    assert_int_equal(checkpoint_writer_put(writer, "head.gain", 1, &one), OK);
    assert_int_equal(checkpoint_writer_finish(writer), OK);
    checkpoint_writer_close(writer);
    assert_fails(checkpoint_writer_open(&writer, "--output", dir, &weights_alone, files, FILES), BAD_OPTION, "another run");
    assert_null(writer);
    assert_int_equal(folder_remove(dir), OK);
    assert_int_equal(checkpoint_writer_open(&writer, "--output", dir, &weights_alone, files, FILES), OK);
    checkpoint_writer_close(writer);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_false(found);
    snprintf(path, sizeof path, "%s/.step_00000000.part", dir);
    assert_false(file_exists(path));
    assert_int_equal(folder_remove(dir), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(windows_are_a_checkpoint), cmocka_unit_test(parts_are_none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
