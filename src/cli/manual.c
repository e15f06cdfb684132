/* Man pages, in roff with the man macros: one for the program and one for each command, so that `man
 * jotun-train` has the options of that command alone. */
#include <errno.h>
#include <string.h>
#include "cli/help.h"
#include "conf/rows.h"

enum { TEXT = 1024 };

/* Escapes what roff interprets: a plain - may be typeset as a hyphen, which cannot be pasted as an option's
 * minus; a backslash begins an escape; a period or an apostrophe at the start of a line begins a request. A
 * line may break after a bar between the words of a choice. */
static void troff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'') fprintf(out, "\\&");
    for (; *text; text++)
        fprintf(out, *text == '-' ? "\\-" : *text == '\\' ? "\\e" : *text == '|' ? "|\\:" : "%c", *text);
}

/* "jotun-tokenizer-encode" */
static const char *page_name(char *out, size_t size, const Command *command)
{
    snprintf(out, size, "jotun-%s", command->name);
    for (char *c = out; *c; c++)
        if (*c == ' ') *c = '-';
    return out;
}

/* Title line, NAME (which apropos and whatis read) and the beginning of SYNOPSIS. */
static void head(FILE *out, const char *page, const char *job)
{
    fprintf(out, ".TH ");
    troff(out, page);
    fprintf(out, " 1 \"\" \"jotun %s\" \"jotun\"\n.nh\n.ad l\n.SH NAME\n", JOTUN_VERSION);
    troff(out, page);
    fprintf(out, " \\- ");
    troff(out, job);
    fprintf(out, "\n.SH SYNOPSIS\n");
}

/* Writes a bold tag, its value in italics, and below them the indented text. */
static void tagged(FILE *out, const char *name, const char *value, const char *text)
{
    fprintf(out, ".TP\n\\fB");
    troff(out, name);
    fprintf(out, "\\fR");
    if (*value) fprintf(out, " \\fI"), troff(out, value), fprintf(out, "\\fR");
    fprintf(out, "\n");
    troff(out, text);
    fprintf(out, "\n");
}

/* As `tagged`, with a second name: both are bold, so that a search for either finds the entry. */
static void option(FILE *out, OptionIndex index, CommandSet command)
{
    char value[TEXT], text[TEXT];
    const OptionRow *row = &option_rows[index];
    fprintf(out, ".TP\n\\fB\\-\\-");
    troff(out, row->name);
    fprintf(out, "\\fR");
    if (*option_short(index)) {
        fprintf(out, ", \\fB\\-\\-");
        troff(out, option_short(index));
        fprintf(out, "\\fR");
    }
    help_value(value, sizeof value, index);
    if (*value) fprintf(out, " \\fI"), troff(out, value), fprintf(out, "\\fR");
    snprintf(text, sizeof text, *row->text ? "%s [%s]" : "%s", option_help(index, command),
             option_default(index, command));
    fprintf(out, "\n");
    troff(out, text);
    fprintf(out, "\n");
}

/* Writes the three sections that every page has. */
static void environment_and_exits(FILE *out)
{
    fprintf(out, ".SH OUTPUT\n"
                 "Results go to standard output; progress and messages go to standard error.\n"
                 ".SH ENVIRONMENT\n"
                 "JOTUN_NAME=VALUE gives option \\-\\-name; the command line overrides it.\n"
                 ".SH EXIT STATUS\n");
    for (int i = 0; i < EXIT_CODES; i++) tagged(out, exit_codes[i].code, "", exit_codes[i].meaning);
}

void manual_program(FILE *out)
{
    char page[TEXT];
    head(out, "jotun", "pretrain language models");
    fprintf(out, ".B jotun\n\\fIcommand\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n");
    for (int i = 0; i < command_count; i++) tagged(out, commands[i].name, commands[i].words, commands[i].job);
    environment_and_exits(out);
    fprintf(out, ".SH SEE ALSO\n");
    for (int i = 0; i < command_count; i++) {
        fprintf(out, ".BR ");
        troff(out, page_name(page, sizeof page, &commands[i]));
        fprintf(out, " (1)%s\n", i + 1 < command_count ? "," : "");
    }
}

static void program_tagged(FILE *out, const ForeignCommand *program)
{
    char dashed[TEXT];
    ForeignArgument a;
    if (foreign_heading(program)) fprintf(out, ".SS %s\n", foreign_heading(program));
    for (int i = 0; foreign_argument(&a, program, i); i++) {
        snprintf(dashed, sizeof dashed, "%s%s", a.dashes, a.name);
        tagged(out, dashed, a.value, a.help);
    }
}

void manual_command(FILE *out, const Command *command)
{
    char page[TEXT];
    const char *group = NULL;
    head(out, page_name(page, sizeof page, command), command->job);
    fprintf(out, ".B jotun %s\n", command->name);
    if (*command->words) fprintf(out, "\\fI%s\\fR ", command->words);
    fprintf(out, "[\\fIoptions\\fR]\n.SH OPTIONS\n");
    if (command->takes == FOR_SWEEP) troff(out, HELP_SWEEP);
    if (command->program) program_tagged(out, foreign_command(command->program));
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, command->takes)) continue;
        if (option_group_title(i) != group) fprintf(out, ".SS %s\n", group = option_group_title(i));
        option(out, i, command->takes);
    }
    if (!group) fprintf(out, "This command has no options.\n");
    int shapes = command->takes & FOR_CONFIG ? preset_count : 0;
    if (shapes) fprintf(out, ".SH SHAPES FOR \\-\\-model\n");
    for (int i = 0; i < shapes; i++) tagged(out, presets[i].name, "", presets[i].help);
    if (command->takes == FOR_TRAIN) fprintf(out, ".SH SIGNALS\n"), troff(out, HELP_SIGNALS);
    environment_and_exits(out);
    fprintf(out, ".SH SEE ALSO\n.BR jotun (1)\n");
}

/* command NULL: jotun.1 */
static Status page_write(const char *folder, const Command *command)
{
    char path[TEXT], page[256] = "jotun";
    if (command) page_name(page, sizeof page, command);
    snprintf(path, sizeof path, "%s/%s.1", folder, page);
    FILE *out = fopen(path, "w");
    if (!out) return fail(IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    if (command) manual_command(out, command);
    else         manual_program(out);
    bool good = !ferror(out);
    good = fclose(out) == 0 && good;
    return good ? OK : fail(IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
}

Status manual_write(const char *folder)
{
    TRY(page_write(folder, NULL));
    for (int i = 0; i < command_count; i++) TRY(page_write(folder, &commands[i]));
    return OK;
}
