/* The table of the commands, and which of them the first one or two words of the command line name. */
#include "cli/command.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "cli/setup/setup.h"
#include "conf/rows.h"

enum {
#define COMMAND(function, ...)     RUNS_##function,
#define RAW_COMMAND(function, ...) RUNS_##function,
#include "conf/commands.def"
    RUNS_agpt
};
static const struct { CommandRun *run; RawCommandRun *raw; } functions[] = {
#define COMMAND(function, ...)     [RUNS_##function] = { cmd_##function, NULL },
#define RAW_COMMAND(function, ...) [RUNS_##function] = { NULL, cmd_##function },
#include "conf/commands.def"
    [RUNS_agpt] = { NULL, cmd_agpt },
};

/* Those of other programs follow, which are run by a function of jotun's. */
const Command commands[] = {
#define COMMAND(function, name, takes, words, job)     { name, words, job, takes, RUNS_##function, NULL },
#define RAW_COMMAND(function, name, takes, words, job) { name, words, job, takes, RUNS_##function, NULL },
#include "conf/commands.def"
#define FOREIGN(name, takes, words, does, gives, kind, job) { name, words, job, takes, RUNS_##does, name },
#include "compat/commands.def"
};
const int command_count = COUNT(commands);

static Status run_words(const Command *command, int argc, char **argv)
{
    Options o;
    if (functions[command->runs].raw) return functions[command->runs].raw(argc, argv);
    Status status = setup_parse(&o, command->takes, argc, argv);
    if (status == OK) status = functions[command->runs].run(&o);
    options_close(&o);
    return status;
}

/* The words of a command of another program have its name before them. */
Status command_run(const Command *command, int argc, char **argv)
{
    char as[64], **words;
    if (!command->program) return run_words(command, argc, argv);
    words = calloc((size_t)argc + 2, sizeof *words);
    if (!words) return fail(NO_MEMORY, "no memory for %d words", argc);
    snprintf(as, sizeof as, FOREIGN_WORD "%s", command->program);
    words[0] = as;
    for (int i = 0; i < argc; i++) words[i + 1] = argv[i];
    Status status = run_words(command, argc + 1, words);
    free(words);
    return status;
}

static const struct { const char *word, *cure; } insteads[] = {
#define INSTEAD(word, cure) { word, cure },
#include "conf/commands.def"
};

bool command_divides(const Command *command)
{
    return command->takes == FOR_TRAIN || command->takes == FOR_EVAL || command->takes == FOR_GENERATE ||
           command->takes == FOR_SERVE;
}

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

/* Where a command's name is up to two edits from what was typed, writes both. One word is answered with the
 * first word of a two-word command. */
static bool mistyped(char typed[128], char meant[64], int argc, char **argv)
{
    int least = 3;
    for (int i = 0; i < command_count && least > 0; i++) {
        char words[128], name[64];
        bool second = strchr(commands[i].name, ' ') && argc > 1 && argv[1][0] != '-';
        snprintf(words, sizeof words, "%s%s%s", argv[0], second ? " " : "", second ? argv[1] : "");
        snprintf(name, sizeof name, "%s", commands[i].name);
        if (!second) name[strcspn(name, " ")] = 0;
        if (word_distance(words, name) >= least) continue;
        least = word_distance(words, name);
        memcpy(typed, words, sizeof words);
        memcpy(meant, name, sizeof name);
    }
    return least < 3;
}

/* Reports words that name no command: a typing error, the first half of a two-word command, or neither. */
static Status unknown(int argc, char **argv)
{
    char known[256] = "", typed[128], meant[64];
    for (int i = 0; i < COUNT(insteads); i++)
        if (!strcmp(argv[0], insteads[i].word))
            return fail(BAD_USAGE, "%s is no command; %s", argv[0], insteads[i].cure);
    bool half = argc == 1 || argv[1][0] == '-';
    for (int i = 0; i < command_count; i++)
        if (command_begins(&commands[i], argv[0]))
            message_item(known, sizeof known, ", ", "jotun %s", commands[i].name);
    if (*known && half) return fail(BAD_USAGE, "jotun %s needs a subcommand: %s", argv[0], known);
    if (mistyped(typed, meant, argc, argv))
        return fail(BAD_USAGE, "%s is no command; did you mean jotun %s?", typed, meant);
    if (*known) return fail(BAD_USAGE, "%s %s is no command; these are: %s", argv[0], argv[1], known);
    return fail(BAD_USAGE, "%s is no command; jotun --help lists them", argv[0]);
}

Status command_find(const Command **found, int *used, int argc, char **argv)
{
    for (int i = 0; i < command_count; i++) {
        *found = &commands[i];
        *used  = named_by(*found, argc, argv);
        if (*used) return OK;
    }
    return unknown(argc, argv);
}
