/* Help on a terminal and docs/options.md. Both are made from the rows of commands, options, presets and
 * dialects, so that they cannot differ from what the program does. */
#include "cli/help.h"
#include <string.h>
#include "base/array.h"
#include "compat/compat.h"
#include "conf/rows.h"

enum { WIDTH = 100, LEFT = 44, TEXT = 512 };     /* width of a line, column of the help, bytes of a text */

/* What of the other command `jotun sweep` takes. */
#define SWEEP_TAKES \
    "Options of jotun train stand beside them. A number or choice may be a list, --lr 1e-3,2e-3,4e-3,\n" \
    "and a flag too, --swiglu=true,false: every combination is a run. --seed 1,2,3 repeats each with\n" \
    "other seeds.\n"
/* What a signal does to `jotun train`, and what Open MPI's mpirun does to its ranks. */
#define SIGNALS \
    "SIGINT, SIGTERM, SIGHUP and SIGUSR1 save after the step at hand. Open MPI's mpirun kills the ranks\n" \
    "about 2 seconds after SIGINT or SIGTERM; send it SIGUSR1, which it forwards.\n"

/* base/status.c decides which one a Status has. */
static const struct { const char *code, *meaning; } exit_codes[] = {
    { "0", "done" },
    { "1", "something you can correct; the message says how" },
    { "2", "wrong usage" },
    { "3", "the machine failed" },
    { "128 + N", "interrupted by signal N (130: SIGINT, 143: SIGTERM); saved where --save was given" },
};

/* --- plain text ----------------------------------------------------------------------------------------- */

/* Writes words from column `at` on and wraps them at WIDTH columns; each further line begins at column
 * `indent`. */
static void wrapped(FILE *out, int indent, int at, const char *text)
{
    fprintf(out, "%*s", indent > at ? indent - at : 0, "");
    for (at = indent; *text; text += strspn(text, " ")) {
        int letters = (int)strcspn(text, " ");
        bool breaks = at > indent && at + 1 + letters > WIDTH;
        if (breaks) fprintf(out, "\n%*s", indent, "");
        if (breaks) at = indent;
        at += fprintf(out, "%s%.*s", at > indent ? " " : "", letters, text);
        text += letters;
    }
    fputc('\n', out);
}

/* A name from column 2 on, with further lines, in column 6, of the words of a choice that one has no room
 * for. Returns the column where it ends. */
static int name_write(FILE *out, const char *name)
{
    int at = fprintf(out, "  ");
    while (*name) {
        int letters = (int)strcspn(name, "|");
        if (name[letters]) letters++;
        if (at + letters > WIDTH) at = fprintf(out, "\n      ") - 1;
        at += fprintf(out, "%.*s", letters, name);
        name += letters;
    }
    return at;
}

/* A name in the left column, its text in the right one; a long name gets lines of its own. */
static void entry(FILE *out, int left, const char *name, const char *text)
{
    int at = name_write(out, name);
    if (at + 1 >= left) fputc('\n', out), at = 0;
    wrapped(out, left, at, text);
}

/* "N", "DIR", "LayerNorm|RMSNorm", "" of a flag. Returns out. */
static const char *help_value(char *out, size_t size, OptionIndex option)
{
    if (option_rows[option].kind == KIND_CHOICE) return option_choices(out, size, option, "|", "|");
    snprintf(out, size, "%s", option_value(option));
    return out;
}

/* The default is printed in brackets after the help; a command of another program has defaults of its own. */
static void option_entry(FILE *out, OptionIndex option, const Command *command)
{
    char name[2 * TEXT], value[TEXT], text[TEXT];
    const OptionRow *row = &option_rows[option];
    help_value(value, sizeof value, option);
    snprintf(name, sizeof name, "--%s%s%s%s%s", row->name, *option_short(option) ? ", --" : "",
             option_short(option), *value ? " " : "", value);
    snprintf(text, sizeof text, *row->text && !command->program ? "%s [%s]" : "%s",
             option_help(option, command->takes), option_default(option, command->takes));
    entry(out, LEFT, name, text);
}

/* Arguments of a program, or its variables, whose names have no dashes. */
static void program_entries(FILE *out, const ForeignCommand *program)
{
    char both[2 * TEXT];
    ForeignArgument a;
    if (!foreign_heading(program)) return;
    fprintf(out, "\n%s:\n", foreign_heading(program));
    for (int i = 0; foreign_argument(&a, program, i); i++) {
        snprintf(both, sizeof both, "%s%s%s%s", a.dashes, a.name, *a.value ? " " : "", a.value);
        entry(out, LEFT, both, a.help);
    }
    fprintf(out, "\n%s:\n", foreign_options_heading(program));
}

void help_command(FILE *out, const Command *command)
{
    const char *group = NULL;
    const ForeignCommand *program = command->program ? foreign_command(command->program) : NULL;
    fprintf(out, "Usage: jotun %s%s%s [options]\n\n  %s\n", command->name, *command->words ? " " : "",
            command->words, command->job);
    if (program) program_entries(out, program);
    if (command->takes == FOR_SWEEP) fprintf(out, "\n" SWEEP_TAKES);
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, command->takes)) continue;
        if (option_group_title(i) != group) fprintf(out, "\n%s:\n", group = option_group_title(i));
        option_entry(out, i, command);
    }
    int shapes = command->takes & FOR_CONFIG ? preset_count : 0;
    if (shapes) fprintf(out, "\nshapes for --model:\n");
    for (int i = 0; i < shapes; i++) entry(out, LEFT, presets[i].name, presets[i].help);
    if (command->takes == FOR_TRAIN) fprintf(out, "\n" SIGNALS);
    if (group)
        fprintf(out,
                "\n[default]; --name VALUE or --name=VALUE; of an option given twice the last one counts,\n"
                "a list appends; weaker: the environment variable JOTUN_NAME=VALUE\n");
}

void help_subcommands(FILE *out, const char *first_word)
{
    fprintf(out, "Usage: jotun %s <subcommand> [options]\n       jotun %s <subcommand> --help\n\n",
            first_word, first_word);
    for (int i = 0; i < command_count; i++)
        if (command_begins(&commands[i], first_word)) entry(out, 22, commands[i].name, commands[i].job);
}

void help_program(FILE *out)
{
    fprintf(out, "Usage: jotun <command> [options]\n       jotun <command> --help\n"
                 "       jotun --version\n\n");
    for (int i = 0; i < command_count; i++) entry(out, 22, commands[i].name, commands[i].job);
    fprintf(out, "\nexit code:\n");
    for (int i = 0; i < COUNT(exit_codes); i++) entry(out, 22, exit_codes[i].code, exit_codes[i].meaning);
}

/* --- markdown ------------------------------------------------------------------------------------------- */

/* A vertical bar would end the cell of a Markdown table. */
static void cell(FILE *out, const char *text)
{
    for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

/* takes: the commands that this line is about; an option may have another help for another command. */
static void option_line(FILE *out, OptionIndex option, CommandSet takes)
{
    char value[TEXT], takers[TEXT];
    fprintf(out, "| `--%s`", option_rows[option].name);
    if (*option_short(option)) fprintf(out, ", `--%s`", option_short(option));
    fprintf(out, " | ");
    cell(out, help_value(value, sizeof value, option));
    fprintf(out, " | ");
    cell(out, option_default(option, takes));
    fprintf(out, " | %s | ", command_names(takers, sizeof takers, takes, "", ", "));
    cell(out, option_help(option, takes));
    fprintf(out, " |\n");
}

/* Writes one line for each distinct help of the option, with the commands that share it. */
static void option_lines(FILE *out, OptionIndex option)
{
    CommandSet left = option_rows[option].commands & FOR_ANY, first = 1;
    while (left) {
        while (!(left & first)) first <<= 1;
        CommandSet shared = 0;
        for (CommandSet bit = first; bit & FOR_ANY; bit <<= 1)
            if (left & bit && !strcmp(option_help(option, bit), option_help(option, first))) shared |= bit;
        option_line(out, option, shared);
        left &= ~shared;
    }
}

void help_markdown(FILE *out)
{
    fprintf(out,
        "# Options\n\nWritten by `jotun --help-markdown` from the rows of `src/conf`.\n\n"
        "Sources, weakest first: default, preset (`--model`), checkpoint\n"
        "(`--use-checkpoint-args`), YAML files (`--config`), environment (`JOTUN_NUM_LAYERS=4`),\n"
        "command line. Another trainer's JSON (`--json-config`) is stronger than a checkpoint's values,\n"
        "and refused where it contradicts what a person said elsewhere.\n"
        "`jotun config` shows each value with its source.\n\n"
        "Of an option given twice on one command line the last one counts, and a line in the log names\n"
        "both where they differ; an option that takes a list (`NAME...`) appends, and in the\n"
        "environment its words are split as a shell splits them, by blanks, quotes and\n"
        "backslashes. An option without effect\n"
        "beside the others is refused, with the one that it wants; in an imported script it is ignored,\n"
        "with a line in the log. Numbers are decimal,\n"
        "without blanks; one outside of its range is refused with the range, which is in its row of\n"
        "`src/conf/options/`. `cmake --install` installs a man page for each command (`man jotun-train`)\n"
        "and completion for bash.\n\n| exit code | meaning |\n|---|---|\n");
    for (int i = 0; i < COUNT(exit_codes); i++)
        fprintf(out, "| %s | %s |\n", exit_codes[i].code, exit_codes[i].meaning);
    for (int i = 0; i < OPTIONS; i++) {
        if (option_group_begins(i))
            fprintf(out,
                    "\n## %s\n\n| option | value | default | command | meaning |\n|---|---|---|---|---|\n",
                    option_group_begins(i));
        option_lines(out, i);
    }
    fprintf(out, "\n## Shapes for `--model`\n\n| name | is | options |\n|---|---|---|\n");
    for (int i = 0; i < preset_count; i++)
        fprintf(out, "| %s | %s | `%s` |\n", presets[i].name, presets[i].help, presets[i].words);
    compat_markdown(out);
}
