/* The tables themselves: a row that contradicts itself is found here, not by a user. */
#include "compat/dialects.h"
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
    assert_non_null(option_group_begins(0));
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char words[256];
        assert_true(row->help[0] && row->commands & FOR_ANY && row->name[0]);
        for (CommandSet command = 1; command & FOR_ANY; command <<= 1)            /* no name twice in a command */
            if (row->commands & command) assert_int_equal(option_find(row->name, command), i);
            else assert_ptr_equal(option_help(i, command), row->help);            /* no HELP for who does not take it */
        if (*option_short(i)) assert_int_equal(option_find(option_short(i), FOR_ANY), i);
        if (row->kind == KIND_INT || row->kind == KIND_REAL) assert_true(row->low < row->high);
        option_choices(words, sizeof words, i, "|", "|");
        assert_int_equal(row->kind == KIND_CHOICE, words[0] != 0);     /* choices alone have words */
        assert_int_equal(row->kind != KIND_CHOICE && row->kind != KIND_FLAG, option_value(i)[0] != 0);
    }
    for (int i = 1; i < OPTION_CHOICES; i++)
        assert_int_equal(option_choice_find(option_choice_rows[i].option, option_choice_rows[i].word), i);
}

/* Each WANTS row names an option that every command of the first one takes, with words and numbers that it has. */
static void wants_can_be_met(void **state)
{
    (void)state;
    for (int i = 0; i < option_wants_count; i++) {
        const OptionWants *w = &option_wants[i];
        const OptionRow *other = &option_rows[w->other];
        char value[256], *word, *rest;
        assert_int_equal(option_rows[w->option].commands & (w->kind == WANTS_IN_TRAINING ? FOR_TRAIN : FOR_ANY) & ~other->commands, 0);
        assert_int_equal(other->kind == KIND_FLAG, !*w->value);
        if (w->kind == WANTS_ALTERNATIVE) assert_int_equal(option_wants[i - 1].option, w->option);
        snprintf(value, sizeof value, "%s", w->value);
        for (word = strtok_r(value, " ,", &rest); word && other->kind == KIND_CHOICE; word = strtok_r(NULL, " ,", &rest))
            if (strcmp(word, "or") && option_choice_find(w->other, word) == CHOICE_NOTHING) fail_msg("%s has no word %s", other->name, word);
    }
}

static void dialects_are_foreign(void **state)
{
    (void)state;
    for (int i = 0; i < dialect_count; i++) {
        const Dialect *row = &dialects[i];
        Options o;
        /* else the row is never reached; of fairseq's own commands all names are theirs */
        bool fairseq = row->whose == DIALECT_FAIRSEQ_LINE_INDEX || row->whose == DIALECT_PREPROCESS_INDEX ||
                       (row->whose == DIALECT_JOTUN_INDEX && *row->given);      /* a value that had another word */
        if (!fairseq) assert_int_equal(option_find(row->name, FOR_TRAIN), -1);
        if (dialect_only_hints(row)) {
            char names[2048], *rest;
            assert_true(snprintf(names, sizeof names, "%s", row->name) < (int)sizeof names);
            for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
                name[strcspn(name, "*")] = 0;
                if (dialect_suggestion(1u << row->whose, name) != row) fail_msg("%s stands in two rows", name);
                assert_int_equal(option_find(name, FOR_TRAIN), -1);
            }
            if (row->verb == VERB_SUGGEST) assert_int_equal(row->text[0], '-');
        } else if (dialect_has_names(row)) {
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(row->name, " *"), row->name);
            if (row->name[strlen(name)] == '*') strcat(name, "x");
            if (dialect_find(1u << row->whose, name, *row->given ? row->given : NULL) != row) fail_msg("%s is in two rows", name);
        } else if (dialect_find(1u << row->whose, row->name, *row->given ? row->given : "some value") != row)
            fail_msg("%s %s is never reached", row->name, row->given);
        if (row->verb == VERB_REFUSE || row->verb == VERB_MISSING) assert_true(*row->text && *row->cure);
        if (row->verb != VERB_MEANS) continue;
        assert_ok(parse_line(&o, FOR_TRAIN, ""));
        OptionSource typed = { SOURCE_COMMAND_LINE, "--x", "", "", CONVERT_NONE, false };
        assert_ok(options_set(&o, row->option, row->text, typed));
        options_close(&o);
    }
    assert_int_equal(option_choice_find(OPTION_optimizer, "AdamW"), CHOICE_optimizer_adam);
    assert_null(dialect_find(DIALECT_FAIRSEQ, "persistent-save-interval", NULL));        /* a name of another namespace */
    assert_non_null(dialect_find(DIALECT_FAIRSEQ | DIALECT_MEGATRON, "persistent-save-interval", NULL));
}

static void presets_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < preset_count; i++) {
        char line[256];
        snprintf(line, sizeof line, "--dry-run --model %s", presets[i].name);
        assert_ok(validate_line(FOR_TRAIN, line));
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
        cmocka_unit_test(defaults_parse),       cmocka_unit_test(rows_are_whole),      cmocka_unit_test(wants_can_be_met),
       
        cmocka_unit_test(dialects_are_foreign), cmocka_unit_test(presets_are_sound),
        cmocka_unit_test(distance_counts_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
