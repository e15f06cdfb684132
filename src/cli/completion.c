/* What cmake/completion.bash offers: names of commands, or the options of one with what follows each. */
#include <string.h>
#include "cli/help.h"
#include "compat/dialects.h"
#include "conf/rows.h"

static void option_line(FILE *out, const char *name, OptionIndex option)
{
    char words[1024] = "";
    const OptionRow *row = &option_rows[option];
    bool path = row->path, list = row->kind == KIND_LIST;
    if (!*name) return;
    option_choices(words, sizeof words, option, " ", " ");
    fprintf(out, "--%s", name);
    if (option == OPTION_model)
        for (int i = 0; i < preset_count; i++) fprintf(out, "%s%s", i ? " " : " words ", presets[i].name);
    else if (row->kind == KIND_CHOICE) fprintf(out, " words %s", words);
    else if (row->kind != KIND_FLAG) fprintf(out, " %s", !path ? "value" : list ? "paths" : "path");
    fputc('\n', out);
}

static void option_lines(FILE *out, CommandSet takes)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, takes)) continue;
        option_line(out, option_rows[i].name, i);
        option_line(out, option_short(i), i);
    }
    for (const Dialect *d = dialects; d < dialects + dialect_count; d++) /* --from-megatron */
        if (d->whose == DIALECT_JOTUN_INDEX && d->verb == VERB_SAME && option_taken(d->option, takes))
            option_line(out, d->name, d->option);
}

/* Of two lines with the same name the first counts: arguments of another program stand before options, and
 * the options of jotun sweep before those of jotun train. */
static void command_lines(FILE *out, const Command *command)
{
    ForeignArgument a;
    const ForeignCommand *program = command->program ? foreign_command(command->program) : NULL;
    for (int i = 0; program && foreign_argument(&a, program, i); i++)
        if (*a.dashes) fprintf(out, "--%s%s\n", a.name, *a.value ? " value" : "");
    option_lines(out, command->takes);
    if (command->takes & FOR_SWEEP) option_lines(out, FOR_TRAIN);
    fprintf(out, "--help\n");
}

void help_words(FILE *out, int argc, char **argv)
{
    const Command *command;
    int used;
    if (argc && command_find(&command, &used, argc, argv) == OK) return command_lines(out, command);
    for (int i = 0; i < command_count; i++) {
        const char *name = commands[i].name, *second = strchr(name, ' ');
        if (!argc) fprintf(out, "%.*s\n", (int)strcspn(name, " "), name);
        else if (command_begins(&commands[i], argv[0])) fprintf(out, "%s\n", second + 1);
    }
    fprintf(out, argc ? "--help\n" : "--help\n--version\n");
}
