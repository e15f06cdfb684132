/* Files, folders and lists as a list of files. */
#include "base/testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "corpus/read/inputs.h"

static char folder[] = "/tmp/jotun-inputs-XXXXXX";
static char got[4096];

static char *path_of(const char *name)
{
    static char path[4][128];
    static int  turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void file_make(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char letters[] = "?ATJPDGF";       /* of each BlockKind */

/* "name:KIND name:KIND hidden/skipped": what is taken, and how much is not. */
static Status expand(const char *given, BlockKind wanted)
{
    Inputs in;
    FormatRules rules = { .wanted = wanted };
    int64_t skipped = 0;
    *got = 0;
    TRY(inputs_expand(&in, &given, 1, &rules));
    for (int64_t i = 0; i < in.paths; i++)
        sprintf(got + strlen(got), "%s:%c ", in.path[i] + strlen(folder) + 1, letters[in.kind[i]]);
    for (int64_t i = 0; i < in.skips; i++) skipped += in.skipped[i].files;
    sprintf(got + strlen(got), "%d/%d", (int)in.hidden, (int)skipped);
    inputs_free(&in);
    return OK;
}

static void folders_are_sorted(void **state)
{
    (void)state;
    assert_int_equal(expand(folder, BLOCK_AUTO), OK);
    assert_string_equal(got, "AA/wiki_00:T AA/wiki_01.bz2:T B.jsonl.gz:J a.txt:T z.xml:G 4/3");
    assert_int_equal(expand(path_of("AA/"), BLOCK_AUTO), OK);
    assert_string_equal(got, "AA/wiki_00:T AA/wiki_01.bz2:T 0/0");
    assert_int_equal(expand(path_of("AA"), BLOCK_LINES), BAD_FILE);
    assert_contains(fail_text(), "no file in this directory");
    assert_int_equal(expand(path_of("a.txt"), BLOCK_AUTO), OK);
    assert_string_equal(got, "a.txt:T 0/0");
    assert_int_equal(expand(path_of("none.txt"), BLOCK_AUTO), BAD_FILE);
    assert_int_equal(expand(path_of("c.dat"), BLOCK_AUTO), BAD_FILE);
    assert_int_equal(expand(path_of("c.dat"), BLOCK_TEXT), OK);
    assert_int_equal(expand(path_of("p.c"), BLOCK_AUTO), OK);
    assert_string_equal(got, "p.c:F 0/0");
    assert_int_equal(expand(path_of("y.xz"), BLOCK_TEXT), BAD_FILE);
    assert_contains(fail_text(), "xz -dc ");
    assert_int_equal(expand(folder, BLOCK_FILES), OK);
    assert_string_equal(got, "AA/wiki_00:F AA/wiki_01.bz2:F B.jsonl.gz:F a.txt:F p.c:F z.xml:F 4/2");
}

static void lists_name_files(void **state)
{
    (void)state;
    char text[512], list[160];
    snprintf(text, sizeof text, "%s\n\n%s\r\n", path_of("z.xml"), path_of("AA"));
    file_make("list", text);
    snprintf(list, sizeof list, "@%s", path_of("list"));
    assert_int_equal(expand(list, BLOCK_AUTO), OK);
    assert_string_equal(got, "z.xml:G AA/wiki_00:T AA/wiki_01.bz2:T 0/0");
    file_make("list", "@other\n");
    assert_int_equal(expand(list, BLOCK_AUTO), BAD_FILE);
    assert_contains(fail_text(), "list:1: @other: a list in a list");
    file_make("list", "\n");
    assert_int_equal(expand(list, BLOCK_AUTO), BAD_FILE);
    assert_contains(fail_text(), "names no file");
    assert_int_equal(expand("@none", BLOCK_AUTO), BAD_FILE);
    remove(path_of("list"));
}

/* The share is that of bytes: 11 of 101 are too many, 11 of 111 are not. */
static void much_that_is_skipped_stops(void **state)
{
    Inputs in;
    FormatRules rules = { .wanted = BLOCK_AUTO };
    const char *given = path_of("share");
    char text[128] = "";
    (void)state;
    mkdir(given, 0777);
    file_make("share/a.pdf", "0123456789a");
    for (int bytes = 89; bytes <= 100; bytes += 11) {
        memset(text, 'x', (size_t)bytes);
        file_make("share/a.txt", text);
        assert_int_equal(inputs_expand(&in, &given, 1, &rules), OK);
        assert_int_equal(inputs_check_skipped(&in, false), bytes == 89 ? BAD_FILE : OK);
        assert_int_equal(inputs_check_skipped(&in, true), OK);
        inputs_free(&in);
    }
    assert_contains(fail_text(), "11 % of the bytes of --input would be skipped: 1 .pdf of 11 B");
    assert_contains(fail_text(), "pdftotext FILE writes its text as .txt; convert or remove these files, or give --skip-unreadable");
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    mkdir(path_of("AA"), 0777), mkdir(path_of(".git"), 0777);
    file_make("a.txt", ""), file_make("B.jsonl.gz", ""), file_make("z.xml", ""), file_make("c.dat", ""), file_make("p.c", ""), file_make(".a.txt", "");
    file_make("AA/wiki_01.bz2", ""), file_make("AA/wiki_00", ""), file_make("y.xz", ""), file_make(".git/a.txt", "");
    return symlink("..", path_of("circle")) + symlink("none", path_of("lost.txt"));
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(folders_are_sorted), cmocka_unit_test(lists_name_files),
                                        cmocka_unit_test(much_that_is_skipped_stops) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
