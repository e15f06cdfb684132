/* The table of the commands, and which of them the first one or two words of the command line name. */
#include "cli/command.h"
#include <string.h>
#include "conf/rows.h"

const Command commands[] = {
#define COMMAND(function, name, takes, words, job) { name, words, job, takes, cmd_##function },
#include "cli/commands.def"
#undef COMMAND
};
const int command_count = sizeof commands / sizeof commands[0];

/* How many words of the command line name the command: 0, 1 or 2. */
static int named_by(const Command *command, int argc, char **argv)
{
    size_t first = strcspn(command->name, " ");
    if (strncmp(command->name, argv[0], first) || argv[0][first]) return 0;
    if (!command->name[first]) return 1;
    return argc > 1 && !strcmp(command->name + first + 1, argv[1]) ? 2 : 0;
}

bool command_begins(const Command *command, const char *first_word)
{
    size_t letters = strlen(first_word);
    return !strncmp(command->name, first_word, letters) && command->name[letters] == ' ';
}

/* Reports a word that names no command: the first half of a two-word command, a typing error (up to two edits
 * from a command's name), or neither. */
static Status unknown(const char *word)
{
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < command_count && used < sizeof known; i++)
        if (command_begins(&commands[i], word))
            used += (size_t)snprintf(known + used, sizeof known - used, "%sjotun %s", used ? ", " : "",
                                     commands[i].name);
    if (used) return fail(BAD_USAGE, "jotun %s wants a subcommand: %s", word, known);
    for (int i = 0; i < command_count; i++)
        if (word_distance(word, commands[i].name) <= 2)
            return fail(BAD_USAGE, "%s is no command; did you mean jotun %s?", word, commands[i].name);
    return fail(BAD_USAGE, "%s is no command; jotun --help lists them", word);
}

Status command_find(const Command **found, int *used, int argc, char **argv)
{
    for (int i = 0; i < command_count; i++) {
        *found = &commands[i];
        *used  = named_by(*found, argc, argv);
        if (*used) return OK;
    }
    return unknown(argv[0]);
}
