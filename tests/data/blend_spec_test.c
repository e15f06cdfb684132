/* The words of --data-path and ALCF's lists; weights as numpy divides them */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "data/blend_spec.h"
#include <cmocka.h>

static void words_are(const char *const *words, int count, bool weighted, int parts, const char *last, double weight)
{
    BlendSpec list;
    assert_int_equal(blend_spec_words(&list, words, count), OK);
    assert_int_equal(list.weighted, weighted);
    assert_int_equal(list.count, parts);
    assert_string_equal(list.part[parts - 1].prefix, last);
    assert_null(list.part[parts - 1].corpus);
    assert_true(list.part[parts - 1].weight == weight);
    blend_spec_close(&list);
}

static void words(void **state)
{
    (void)state;
    words_are((const char *[]){ "a" }, 1, false, 1, "a", 1);
    words_are((const char *[]){ "a", "b" }, 2, false, 2, "b", 1);
    words_are((const char *[]){ "1", "b" }, 2, true, 1, "b", 1);
    words_are((const char *[]){ "1", "a", "2.5e1", "b" }, 4, true, 2, "b", 25);
    words_are((const char *[]){ "1", "a", "2" }, 3, false, 3, "2", 1);         /* odd: prefixes, whatever they look like */
    BlendSpec list;
    assert_int_equal(blend_spec_words(&list, (const char *[]){ "1", "a", "x", "b" }, 4), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "1 of 2 weights"));
}

static void groups(void **state)
{
    (void)state;
    BlendSpec list;
    assert_int_equal(blend_spec_group(&list, "valid_en: 0 0.950:1 /data/en "), OK);
    assert_false(list.weighted);
    assert_string_equal(list.part[0].prefix, "/data/en");
    assert_true(list.part[0].begin == 0.95 && list.part[0].end == 1);
    blend_spec_close(&list);
    assert_int_equal(blend_spec_group(&list, "t:0.3 0:0.6 a,\t1e1 0.5:1 b"), OK);
    assert_true(list.weighted && list.count == 2);
    assert_true(list.part[1].weight == 10 && list.part[1].begin == 0.5 && list.part[1].end == 1);
    assert_string_equal(list.part[1].prefix, "b");
    blend_spec_close(&list);
    static const struct { const char *text, *says; } bad[] = {
        { "0.3 0:0.6 a", "part 1 is not" }, { "t", "part 1" }, { "t: 1 0:1 a,", "part 2" }, { "t: 1 0:0.6 a 1 0:0.6 b", "part 1" },
        { "t: x 0:1 a", "part 1" }, { "t: 1 0.5 a", "part 1" }, { "t: 1 1:0 a", "part 1" }, { "t: 1 0.5:0.5 a", "part 1" },
        { "t: 1 0:1.5 a", "part 1" }, { "t: 1 -1:1 a", "part 1" }, { "t: 1 0:1 a, 1 0:1", "part 2" }, { "t: 1 0:nan a", "part 1" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(blend_spec_group(&list, bad[i].text), BAD_OPTION);
        assert_non_null(strstr(fail_text(), bad[i].says));
    }
}

static Status bytes_read(BlendSpec *list, const char *text, size_t bytes)
{
    char path[64] = "/tmp/jotun-list-XXXXXX";
    int  fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(file_write(fd, path, text, bytes, 0), OK);
    assert_int_equal(file_finish(fd, path), OK);
    Status status = blend_spec_file(list, path);
    remove(path);
    return status;
}

static Status text_read(BlendSpec *list, const char *text) { return bytes_read(list, text, strlen(text)); }

static void three_columns(void **state)
{
    (void)state;
    BlendSpec list;
    assert_int_equal(text_read(&list, "0.0031 /data/books-0 books\n\n \t\r\n  5\t/data/wiki.bin\twiki\r\n1e-3 x.bin.bin y"), OK);
    assert_true(list.weighted);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.part[0].prefix, "/data/books-0");
    assert_string_equal(list.part[1].prefix, "/data/wiki");
    assert_string_equal(list.part[1].corpus, "wiki");
    assert_string_equal(list.part[2].prefix, "x.bin");
    assert_true(list.part[0].weight == 0.0031 && list.part[2].weight == 1e-3);
    blend_spec_close(&list);
    static const char *const bad[] = { "1 a\n", "1 a b\n2 a b c\n", "x a b\n", "a\n" };
    static const char *const line[] = { "line 1:", "line 2:", "line 1:", "line 1:" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(text_read(&list, bad[i]), BAD_FILE);
        assert_non_null(strstr(fail_text(), line[i]));
    }
    static const char *const weight[] = { "1,0", "1e400", "0x10", "0", "-2", "nan" };
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) {
        char two[64], says[64];
        snprintf(two, sizeof two, "1 P a\n%s P a\n", weight[i]);
        snprintf(says, sizeof says, "line 2: weight %s is no decimal number above 0", weight[i]);
        assert_int_equal(text_read(&list, two), BAD_FILE);
        assert_non_null(strstr(fail_text(), says));
    }
    assert_int_equal(text_read(&list, "\xEF\xBB\xBF" "0.5 P a\n"), OK);
    assert_true(list.part[0].weight == 0.5);
    blend_spec_close(&list);
    assert_int_equal(text_read(&list, "\n \n"), BAD_FILE);
    assert_int_equal(bytes_read(&list, "1 a b\n\0\n2 c d\n", 14), BAD_FILE);      /* what stands behind was once left out */
    assert_non_null(strstr(fail_text(), "byte 6 is 0"));
    assert_int_equal(text_read(&list, ""), BAD_FILE);
    assert_int_equal(blend_spec_file(&list, "/nowhere/list"), BAD_FILE);
}

static void a_list_is_no_corpus(void **state)
{
    (void)state;
    char    path[] = "/tmp/jotun-list-XXXXXX";
    int     fd = mkstemp(path);
    BlendSpec list;
    assert_int_equal(ftruncate(fd, (64 << 20) + 1), 0);
    assert_int_equal(blend_spec_file(&list, path), BAD_FILE);
    assert_non_null(strstr(fail_text(), "longer than the 67108864 bytes"));
    close(fd);
    unlink(path);
}

/* Of n weights 0.1 (i + 1) the last, as numpy 1.24 has it (w / w.sum())[-1], and by a sum in a row */
static void weights(void **state)
{
    (void)state;
    static const struct { int n; double numpy, row; } row[] = {
        { 3,   0x1.0000000000000p-1, 0x1.0000000000000p-1 }, { 11,  0x1.5555555555556p-3, 0x1.5555555555555p-3 },
        { 13,  0x1.2492492492493p-3, 0x1.2492492492492p-3 }, { 20,  0x1.8618618618618p-4, 0x1.8618618618618p-4 },
        { 150, 0x1.b2036406c80d9p-7, 0x1.b2036406c80d7p-7 }, { 300, 0x1.b37484ad806cep-8, 0x1.b37484ad806cep-8 },
    };
    for (size_t r = 0; r < sizeof row / sizeof *row; r++)
        for (int how = SUM_IN_A_ROW; how <= SUM_NUMPY; how++) {
            double weight[300];
            for (int i = 0; i < row[r].n; i++) weight[i] = 0.1 * (i + 1);
            assert_int_equal(weights_normalize(weight, row[r].n, (WeightSum)how), OK);
            assert_true(weight[row[r].n - 1] == (how == SUM_NUMPY ? row[r].numpy : row[r].row));
        }
    static const double bad[] = { 0, -1, INFINITY, NAN };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double pair[2] = { 1, bad[i] };
        assert_int_equal(weights_normalize(pair, 2, SUM_NUMPY), BAD_OPTION);
        assert_non_null(strstr(fail_text(), "number 2 of 2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(groups), cmocka_unit_test(three_columns), cmocka_unit_test(a_list_is_no_corpus),
                                        cmocka_unit_test(weights) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
