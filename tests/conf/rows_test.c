/* The tables themselves: a row that contradicts itself is found here, not by a user. */
#include "line.h"
#include <stdlib.h>

static void defaults_parse(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_TRAIN, ""));
    for (int i = 0; i < OPTIONS; i++) {
        char text[256];
        bool nothing = option_rows[i].kind != KIND_FLAG && !option_rows[i].text[0];
        assert_int_equal(o.source[i].kind, nothing ? SOURCE_NOTHING : SOURCE_DEFAULT);
        options_value_text(text, sizeof text, &o, i);
        if (option_rows[i].kind == KIND_INT || option_rows[i].kind == KIND_REAL)
            assert_true(nothing ? !*text : strtod(text, NULL) == strtod(option_rows[i].text, NULL));
    }
    options_close(&o);
}

static void rows_are_whole(void **state)
{
    (void)state;
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char words[256];
        assert_true(row->help[0] && row->commands && row->name[0]);
        assert_int_equal(option_find(row->name), i);                     /* no name twice */
        if (row->alias[0]) assert_int_equal(option_find(row->alias), i);
        if (row->kind == KIND_INT || row->kind == KIND_REAL) assert_true(row->low < row->high);
        option_choices(words, sizeof words, i, "|", "|");
        assert_int_equal(row->kind == KIND_CHOICE, words[0] != 0);     /* choices alone have words */
        if (row->kind == KIND_TEXT || row->kind == KIND_LIST) assert_true(row->value[0]);
        if (i) assert_true(row->group >= option_rows[i - 1].group);      /* groups stand together */
    }
    for (int i = 1; i < OPTION_WORDS; i++)
        assert_int_equal(option_word(option_words[i].option, option_words[i].word), i);
}

static void dialects_are_foreign(void **state)
{
    (void)state;
    for (int i = 0; i < dialect_count; i++) {
        Options o;
        assert_int_equal(option_find(dialects[i].name), -1);             /* else the row is never reached */
        assert_ptr_equal(dialect_find(dialects[i].name), &dialects[i]);
        if (dialects[i].verb != DIALECT_MEANS) continue;
        assert_ok(parse_line(&o, FOR_TRAIN, ""));
        OptionSource typed = { SOURCE_COMMAND_LINE, "--x", "", "" };
        assert_ok(options_set(&o, dialects[i].option, dialects[i].text, typed));
        options_close(&o);
    }
}

static void presets_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < preset_count; i++) {
        char line[256];
        snprintf(line, sizeof line, "--dry-run --model %s", presets[i].name);
        assert_ok(judge_line(FOR_TRAIN, line));
    }
}

static void distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(word_distance("num-layers", "num-layers"), 0);
    assert_int_equal(word_distance("num-layer", "num-layers"), 1);
    assert_int_equal(word_distance("nmu-layers", "num-layers"), 1);
    assert_int_equal(word_distance("", "abc"), 3);
    assert_int_equal(word_distance("kitten", "sitting"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_parse),       cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(dialects_are_foreign), cmocka_unit_test(presets_are_sound),
        cmocka_unit_test(distance_counts_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
