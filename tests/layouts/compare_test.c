/* The comparison of checkpoints sees each difference, wherever it stands. */
#include "layouts/compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/testing.h"
#include "store/safetensors.h"

#define assert_ok(status) do { if ((status) != OK) fail_msg("%s", fail_text()); } while (0)

enum { WIDTH = 4 };
static char folder[2][64];

/* A file with tensors of WIDTH zeros each, but `value` at element `at` of the first. */
static void put(int side, const char *name, int tensors, const char *const names[], int at, double value)
{
    SafeTensor tensor[3] = { 0 };
    char *header, path[1024];
    uint8_t data[2048] = { 0 };
    size_t header_bytes, file_bytes;
    for (int t = 0; t < tensors; t++) {
        tensor[t] = (SafeTensor){ .dtype = F64, .dims = 1, .dim = { WIDTH } };
        snprintf(tensor[t].name, sizeof tensor[t].name, "%s", names[t]);
    }
    assert_ok(safetensors_header(tensor, tensors, &header, &header_bytes, &file_bytes));
    assert_true(file_bytes <= sizeof data);
    memcpy(data, header, header_bytes);
    memcpy(data + tensor[0].at + (size_t)at * sizeof value, &value, sizeof value);
    free(header);
    assert_ok(path_join(path, folder[side], name));
    assert_ok(file_write_whole(path, data, file_bytes));
}

static const char *const two[] = { "a.weight", "b.bias" }, *const state[] = { "a.weight", "b.bias", "a.weight.exp_avg" };

/* Both sides alike, of two files. */
static void put_alike(void)
{
    for (int side = 0; side < 2; side++) {
        assert_ok(folder_remove(folder[side]));
        assert_ok(folder_make(folder[side]));
        put(side, "block_0000.safetensors", 2, two, 0, 0);
        put(side, "block_0001.safetensors", 2, two, 0, 0);
    }
}

static Difference differ(bool states)
{
    Difference d = { 0 };
    assert_ok(weight_files_compare(&d, folder[0], folder[1], states));
    return d;
}

static void refused(bool states, const char *why)
{
    Difference d = { 0 };
    assert_int_not_equal(weight_files_compare(&d, folder[0], folder[1], states), OK);
    assert_contains(fail_text(), why);
}

static void the_largest_is_found(void **unused)
{
    (void)unused;
    put_alike();
    assert_true(differ(true).off == 0);
    for (int side = 0; side < 2; side++) {
        put_alike();
        put(side, "block_0000.safetensors", 2, two, 2, 3);
        put(side, "block_0001.safetensors", 2, two, 1, -2);
        Difference d = differ(false);
        assert_true(d.off == 3);
        assert_string_equal(d.worst, "a.weight[2]");
    }
}

/* Not a number is more than any difference that follows it, or that came before it. */
static void a_nan_stays(void **unused)
{
    (void)unused;
    static const double bad[] = { NAN, INFINITY };
    for (int i = 0; i < 2; i++)
        for (int block = 0; block < 2; block++) {
            put_alike();
            for (int side = 0; side < 2; side++)
                if (side == 0 || isinf(bad[i])) put(side, block ? "block_0001.safetensors" : "block_0000.safetensors", 2, two, 1, bad[i]);
            put(1, block ? "block_0000.safetensors" : "block_0001.safetensors", 2, two, 3, 5);
            Difference d = differ(false);
            assert_true(isnan(d.off));
            assert_string_equal(d.worst, "a.weight[1]");
        }
}

static void what_one_side_lacks(void **unused)
{
    (void)unused;
    for (int side = 0; side < 2; side++) {
        put_alike();
        put(side, "block_0002.safetensors", 2, two, 0, 0);
        refused(false, "block_0002.safetensors is not in");
        put_alike();
        put(side, "block_0001.safetensors", 1, two, 0, 0);
        refused(false, "b.bias of");
        put_alike();
        put(side, "block_0001.safetensors", 3, state, 0, 0);
        assert_true(differ(false).off == 0);                         /* a state that nobody asks for */
        refused(true, "a.weight.exp_avg of");
    }
    assert_ok(folder_remove(folder[0]));
    assert_ok(folder_make(folder[0]));
    refused(false, "block_0000.safetensors is not in");
    assert_ok(folder_remove(folder[1]));
    assert_ok(folder_make(folder[1]));
    refused(false, "has no files");
}

int main(void)
{
    char scratch[] = "/tmp/jotun-compare-XXXXXX";
    if (!mkdtemp(scratch)) return 1;
    for (int side = 0; side < 2; side++) snprintf(folder[side], sizeof folder[side], "%s/%d", scratch, side);
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_largest_is_found), cmocka_unit_test(a_nan_stays),
                                        cmocka_unit_test(what_one_side_lacks) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (folder_remove(scratch) != OK) return 1;
    return failed;
}
