/* Help, the table of options and the man page: all from rows (commands, options, presets, dialects). */
#include "cli/command.h"
#include <string.h>
#include "conf/rows.h"

enum { WIDTH = 100, LEFT = 44, TEXT = 512 };

static const struct { const char *code, *meaning; } exits[] = {
    { "0", "done" },
    { "1", "something you can mend; the message says how" },
    { "2", "wrong usage" },
    { "3", "the machine failed" },
    { "130, 143", "interrupted; saved where --save was given" },
};
enum { EXITS = sizeof exits / sizeof exits[0] };

/* --- plain text ----------------------------------------------------------------------------------------- */

/* Words from column `at` on, wrapped to `indent`, at most WIDTH columns */
static void wrapped(FILE *out, int indent, int at, const char *text)
{
    fprintf(out, "%*s", indent > at ? indent - at : 0, "");
    for (at = indent; *text; text += strspn(text, " ")) {
        int letters = (int)strcspn(text, " ");
        bool turn = at > indent && at + 1 + letters > WIDTH;
        if (turn) fprintf(out, "\n%*s", indent, "");
        if (turn) at = indent;
        at += fprintf(out, "%s%.*s", at > indent ? " " : "", letters, text);
        text += letters;
    }
    fputc('\n', out);
}

static void entry(FILE *out, int left, const char *name, const char *text)
{
    int at = fprintf(out, "  %s", name);
    if (at + 1 >= left) fputc('\n', out), at = 0;
    wrapped(out, left, at, text);
}

/* How a row's value is called: "N", "DIR", "LayerNorm|RMSNorm", "" of a flag */
static const char *value_name(char out[TEXT], const OptionRow *row)
{
    if (row->value[0]) snprintf(out, TEXT, "%s", row->value);
    else if (row->kind == KIND_CHOICE) option_choices(out, TEXT, (OptionIndex)(row - option_rows), "|", "|");
    else snprintf(out, TEXT, "%s", row->kind == KIND_INT ? "N" : row->kind == KIND_REAL ? "X" : "");
    return out;
}

static void option_entry(FILE *out, const OptionRow *row)
{
    char name[2 * TEXT], value[TEXT], text[TEXT];
    value_name(value, row);
    snprintf(name, sizeof name, "--%s%s%s%s%s", row->name, row->alias[0] ? ", --" : "", row->alias,
             *value ? " " : "", value);
    if (row->text[0]) snprintf(text, sizeof text, "%s [%s]", row->help, row->text);
    else snprintf(text, sizeof text, "%s", row->help);
    entry(out, LEFT, name, text);
}

static void presets_list(FILE *out)
{
    fprintf(out, "\nshapes for --model\n");
    for (int i = 0; i < preset_count; i++) entry(out, LEFT, presets[i].name, presets[i].help);
}

void help_command(FILE *out, const Command *command)
{
    fprintf(out, "jotun %s%s%s [options]\n\n  %s\n", command->name, *command->words ? " " : "",
            command->words, command->job);
    int group = -1;
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, command->takes)) continue;
        if ((int)option_rows[i].group != group)
            fprintf(out, "\n%s\n", option_group_name(option_rows[i].group));
        group = option_rows[i].group;
        option_entry(out, &option_rows[i]);
    }
    if (command->takes & FOR_CONFIG) presets_list(out);               /* elsewhere --model is a file */
    if (group >= 0)
        fprintf(out, "\n[default]; --name VALUE or --name=VALUE; weaker: JOTUN_NAME=VALUE before it\n");
}

void help_program(FILE *out)
{
    fprintf(out, "jotun pretrains language models.\n\n"
                 "  jotun <command> [options]\n  jotun <command> --help\n\n");
    for (int i = 0; i < command_count; i++) entry(out, 22, commands[i].name, commands[i].job);
    fprintf(out, "\nexit code\n");
    for (int i = 0; i < EXITS; i++) entry(out, 22, exits[i].code, exits[i].meaning);
}

/* --- markdown ------------------------------------------------------------------------------------------- */

static void cell(FILE *out, const char *text)
{
    for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);    /* a bar ends a cell */
}

static void option_line(FILE *out, const OptionRow *row)
{
    char value[TEXT], takers[TEXT];
    fprintf(out, "| `--%s`", row->name);
    if (row->alias[0]) fprintf(out, ", `--%s`", row->alias);
    fprintf(out, " | ");
    cell(out, value_name(value, row));
    fprintf(out, " | %s | ", row->text);
    fprintf(out, "%s | ", command_names(takers, sizeof takers, row->commands, "", ", "));
    cell(out, row->help);
    fprintf(out, " |\n");
}

static void dialect_line(FILE *out, const Dialect *row)
{
    const char *ours = row->option >= 0 ? option_rows[row->option].name : "";
    fprintf(out, "| `--%s` | %s | ", row->name, row->whose);
    switch (row->verb) {
    case DIALECT_ALIAS:  fprintf(out, "`--%s`", ours); break;
    case DIALECT_MEANS:  fprintf(out, "`--%s %s`", ours, row->text); break;
    case DIALECT_PASSED: fprintf(out, "passed over: %s", row->text); break;
    case DIALECT_REFUSE: fprintf(out, "refused: %s", row->text); break;
    }
    fprintf(out, " |\n");
}

void help_markdown(FILE *out)
{
    fprintf(out, "# Options\n\nWritten by `jotun --help-markdown` from the rows of `src/conf`.\n\n"
                 "Sources, weakest first: default, preset (`--model`), checkpoint\n"
                 "(`--use-checkpoint-args`), environment (`JOTUN_NUM_LAYERS=4`), command line.\n"
                 "`jotun config` shows each value with its source.\n");
    for (int i = 0, group = -1; i < OPTIONS; i++) {
        if ((int)option_rows[i].group != group)
            fprintf(out, "\n## %s\n\n| option | value | default | commands | what it says |\n"
                         "|---|---|---|---|---|\n", option_group_name(option_rows[i].group));
        group = option_rows[i].group;
        option_line(out, &option_rows[i]);
    }
    fprintf(out, "\n## Shapes for `--model`\n\n| name | is | stands for |\n|---|---|---|\n");
    for (int i = 0; i < preset_count; i++)
        fprintf(out, "| %s | %s | `%s` |\n", presets[i].name, presets[i].help, presets[i].words);
    fprintf(out, "\n## Options of other trainers\n\n| option | whose | here |\n|---|---|---|\n");
    for (int i = 0; i < dialect_count; i++) dialect_line(out, &dialects[i]);
}

/* --- man page ------------------------------------------------------------------------------------------- */

static void troff(FILE *out, const char *text)
{
    for (; *text; text++) fprintf(out, *text == '-' ? "\\-" : *text == '\\' ? "\\e" : "%c", *text);
}

static void man_entry(FILE *out, const char *name, const char *alias, const char *value, const char *text)
{
    fprintf(out, ".TP\n\\fB");
    troff(out, name);
    if (*alias) fprintf(out, "\\fR, \\fB\\-\\-%s", alias);
    fprintf(out, "\\fR \\fI");
    troff(out, value);
    fprintf(out, "\\fR\n");
    troff(out, text);
    fprintf(out, "\n");
}

void help_man(FILE *out)
{
    char name[TEXT], value[TEXT], text[TEXT];
    fprintf(out, ".TH JOTUN 1 \"\" \"jotun %s\"\n.SH NAME\njotun \\- pretrain language models\n",
            JOTUN_VERSION);
    fprintf(out, ".SH SYNOPSIS\n.B jotun\n\\fIcommand\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n");
    for (int i = 0; i < command_count; i++)
        man_entry(out, commands[i].name, "", commands[i].words, commands[i].job);
    for (int i = 0, group = -1; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        if ((int)row->group != group) fprintf(out, ".SH OPTIONS: %s\n", option_group_name(row->group));
        group = row->group;
        snprintf(name, sizeof name, "--%s", row->name);
        snprintf(text, sizeof text, row->text[0] ? "%s [%s]" : "%s", row->help, row->text);
        man_entry(out, name, row->alias, value_name(value, row), text);
    }
    fprintf(out, ".SH ENVIRONMENT\nJOTUN_NAME=VALUE gives option \\-\\-name; the command line beats it.\n"
                 ".SH EXIT STATUS\n");
    for (int i = 0; i < EXITS; i++) man_entry(out, exits[i].code, "", "", exits[i].meaning);
}
