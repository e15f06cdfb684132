/* The program as a person meets it: help, docs, exit codes. Runs the binary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "compat/dialects.h"
#include "base/file.h"
#include "cli/command.h"
#include "conf/rows.h"
#include <cmocka.h>             /* last: its fail() is a macro */

static char output[1 << 19];

/* Keeps what the shell's line prints, returns its exit code. */
static int shell(const char *line)
{
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs jotun with these words, keeps what it says on both streams. */
static int jotun(const char *words)
{
    char line[1024];
    snprintf(line, sizeof line, "%s 2>&1 %s", JOTUN_BINARY, words);
    return shell(line);
}

static void assert_said(const char *text)
{
    if (!strstr(output, text)) fail_msg("wanted \"%s\" in:\n%s", text, output);
}

static void exit_codes(void **state)
{
    (void)state;
    static const struct { const char *words; int code; const char *says; } row[] = {
        { "",                           2, "jotun <command> [options]" },
        { "--help",                     0, "jotun <command> [options]" },
        { "--version",                  0, "jotun " JOTUN_VERSION "\n" },
        { "fly",                        2, "jotun: fly is no command" },
        { "tokenizer",                  2, "jotun tokenizer needs a subcommand: jotun tokenizer encode, " },
        { "tokenizer --help",           0, "tokenizer encode    text to ids" },
        { "langid --help",              0, "--model FILE                              fastText classifier, .bin or .ftz" },
        { "tokenizer encode --help",    0, "--format text|u16|i32 " },
        { "clean --help",               0, "--format txt|jsonl " },
        { "confg",                      2, "did you mean jotun config?" },
        { "config --num-layer 3",       2,
          "jotun: --num-layer is no option of jotun config; did you mean --num-layers?" },
        { "config --lr 3 --help",       0, "--num-layers N" },
        { "config --use-flash-attn",    0,
          "jotun: --use-flash-attn of Megatron-LM is ignored: attention" },
        { "config --num-attention-heads 16 --tensor-model-parallel-size 3", 1,
          "jotun: --tensor-model-parallel-size 3 does not divide --num-attention-heads 16; give 1, 2, 4, 8 or" },
        { "config --tp 2 --ranks 2",    0,
          "--tensor-model-parallel-size             2                  command line" },
        { "config >/dev/full",     3, "standard output cannot be written" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int code = jotun(row[i].words);
        if (code != row[i].code)
            fail_msg("jotun %s: exit code %d, wanted %d:\n%s", row[i].words, code, row[i].code, output);
        assert_said(row[i].says);
    }
}

static void slips_in_the_environment(void **state)
{
    (void)state;
    setenv("JOTUN_NUM_LAYER", "3", 1);
    assert_int_equal(jotun("config"), 0);
    assert_said("jotun: JOTUN_NUM_LAYER is no option and is not read; did you mean JOTUN_NUM_LAYERS?");
    unsetenv("JOTUN_NUM_LAYER");
    setenv("JOTUN_QWERTYUIOP", "1", 1);
    assert_int_equal(jotun("config"), 0);
    assert_said("jotun: JOTUN_QWERTYUIOP is no option and is not read\n");
    unsetenv("JOTUN_QWERTYUIOP");
}

static void assert_narrow(const char *what)
{
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strcspn(line, "\n") > 100)
            fail_msg("%s: more than 100 columns: %.*s", what, (int)strcspn(line, "\n"), line);
}

static void every_option_has_help(void **state)
{
    (void)state;
    for (int c = 0; c < command_count; c++) {
        char words[128], name[128];
        snprintf(words, sizeof words, "%s --help", commands[c].name);
        assert_int_equal(jotun(words), 0);
        assert_narrow(words);
        assert_said(commands[c].job);
        for (int i = 0; i < OPTIONS; i++) {
            snprintf(name, sizeof name, "\n  --%s", option_rows[i].name);
            if (!option_taken(i, commands[c].takes)) continue;
            const char *found = strstr(output, name);
            while (found && !strchr(" ,\n", found[strlen(name)]))      /* --lr is not --lr-decay-style */
                found = strstr(found + 1, name);
            if (!found) fail_msg("--%s is not in %s", option_rows[i].name, words);
        }
    }
    assert_int_equal(jotun("--help"), 0);
    assert_narrow("--help");
    for (int c = 0; c < command_count; c++) assert_said(commands[c].name);
}

/* No option is accepted and ignored: src/cli, which alone knows them, reads every field its commands take, or conf/schedule.c
 * and conf/resume.c do for it. */
static void every_option_is_read(void **state)
{
    (void)state;
    CommandSet takes = 0;
    for (int c = 0; c < command_count; c++)
        if (commands[c].takes != FOR_CONFIG) takes |= commands[c].takes;
    shell("cat " TESTS_DIR "/../src/cli/*.[ch] " TESTS_DIR "/../src/cli/*/*.[ch] " TESTS_DIR "/../src/conf/schedule.c " TESTS_DIR "/../src/conf/resume.c | "
          "grep -oE '(->|[a-z]\\.|CHOICE_AS\\( [A-Za-z]+, [a-z_]+, )[a-z][a-z0-9_]*' | sed -E 's/^.*(>|\\.|, )/ /; s/$/ /'");
    for (int i = 0; i < OPTIONS; i++) {
        /* conf turns them into others, or into what a function of it returns */
        bool inside = i == OPTION_model || i == OPTION_timeout_minutes || i == OPTION_window_size ||
                      i == OPTION_hierarchical_cp || i == OPTION_train_tokens || i == OPTION_rotary_percent ||
                      i == OPTION_window_skip || i == OPTION_no_rope_freq || i == OPTION_moe_layer_freq ||
                      i == OPTION_json_config || i == OPTION_program_is_gpt;      /* compat does */
        char field[128];
        snprintf(field, sizeof field, " %s ", option_rows[i].field);
        if (option_taken(i, takes) && !inside && !strstr(output, field))
            fail_msg("--%s is taken and never read (field %s)", option_rows[i].name, option_rows[i].field);
    }
}

static void docs_are_fresh(void **state)
{
    (void)state;
    FileMap docs;
    assert_int_equal(jotun("--help-markdown"), 0);
    if (file_map(&docs, TESTS_DIR "/../docs/options.md") != OK) fail_msg("%s", fail_text());
    bool same = docs.size == strlen(output) && !memcmp(docs.data, output, docs.size);
    file_unmap(&docs);
    if (!same) fail_msg("docs/options.md is stale; write it anew: jotun --help-markdown > docs/options.md");
    for (int i = 0; i < OPTIONS; i++) assert_said(option_rows[i].name);
    for (int i = 0; i < dialect_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(dialects[i].name, " "), dialects[i].name);
        assert_said(name);
    }
}

static void version_is_the_project_s(void **state)
{
    (void)state;
    FileMap cmake;
    if (file_map(&cmake, TESTS_DIR "/../CMakeLists.txt") != OK) fail_msg("%s", fail_text());
    const char *wanted = "project(jotun VERSION " JOTUN_VERSION " ";
    assert_non_null(memmem(cmake.data, cmake.size, wanted, strlen(wanted)));
    file_unmap(&cmake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes),            cmocka_unit_test(slips_in_the_environment),
        cmocka_unit_test(every_option_has_help), cmocka_unit_test(every_option_is_read),
        cmocka_unit_test(docs_are_fresh),        cmocka_unit_test(version_is_the_project_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
