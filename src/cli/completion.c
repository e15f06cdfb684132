/* Writes the bash completion script. It is one shell function that contains the tables of all commands, so
 * that completing a word starts no program. */
#include <string.h>
#include "cli/help.h"
#include "conf/rows.h"

/* What follows an option on the command line. */
typedef enum { FOLLOWS_NOTHING, FOLLOWS_PATH, FOLLOWS_PATHS, FOLLOWS_VALUE } Follows;

static Follows follows(OptionIndex option)
{
    if (option_rows[option].kind == KIND_FLAG) return FOLLOWS_NOTHING;
    if (!option_rows[option].path) return FOLLOWS_VALUE;
    return option_rows[option].kind == KIND_LIST ? FOLLOWS_PATHS : FOLLOWS_PATH;
}

/* Writes one arm of `case $option in` for all options of a sort, because nothing else distinguishes them. */
static void shared_arm(FILE *out, const Command *command, Follows sort, const char *set)
{
    int count = 0;
    for (int i = 0; i < OPTIONS; i++) {
        bool words = option_rows[i].kind == KIND_CHOICE || i == OPTION_model;
        if (!option_taken(i, command->takes) || follows(i) != sort || words) continue;
        fprintf(out, "%s--%s", count++ ? "|" : "        ", option_rows[i].name);
        if (*option_short(i)) fprintf(out, "|--%s", option_short(i));
    }
    if (count) fprintf(out, ") %s ;;\n", set);
}

/* Each choice has an arm with its words. --model of train is a TEXT, but its words are the names of the
 * presets. */
static void arms(FILE *out, const Command *command)
{
    char words[1024];
    for (int i = 0; i < OPTIONS; i++)
        if (option_taken(i, command->takes) && option_rows[i].kind == KIND_CHOICE)
            fprintf(out, "        --%s) follows=words words='%s' ;;\n", option_rows[i].name,
                    option_choices(words, sizeof words, i, " ", " "));
    if (option_taken(OPTION_model, command->takes)) {
        fprintf(out, "        --model) follows=words words='");
        for (int i = 0; i < preset_count; i++) fprintf(out, "%s%s", i ? " " : "", presets[i].name);
        fprintf(out, "' ;;\n");
    }
    shared_arm(out, command, FOLLOWS_PATH, "follows=path");
    shared_arm(out, command, FOLLOWS_PATHS, "follows=paths");
    shared_arm(out, command, FOLLOWS_VALUE, "follows=value");
}

/* Arguments of another program, but those that have the name of an option of the command; and, before the
 * arms of jotun's options, since the first that fits is taken, what follows them. */
static void program_words(FILE *out, const Command *command, bool follow)
{
    ForeignArgument a;
    const ForeignCommand *program = command->program ? foreign_command(command->program) : NULL;
    for (int i = 0; program && foreign_argument(&a, program, i); i++) {
        if (!*a.dashes) continue;
        if (follow && *a.value) fprintf(out, "        --%s) follows=value ;;\n", a.name);
        if (!follow && option_find(a.name, command->takes) < 0) fprintf(out, " --%s", a.name);
    }
}

/* The options of one command, and for each of them what may follow it. */
static void command_arm(FILE *out, const Command *command)
{
    fprintf(out, "    '%s')\n        options='--help", command->name);
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, command->takes)) continue;
        fprintf(out, " --%s", option_rows[i].name);
        if (*option_short(i)) fprintf(out, " --%s", option_short(i));
    }
    program_words(out, command, false);
    fprintf(out, "'\n        case $option in\n");
    program_words(out, command, true);
    arms(out, command);
    fprintf(out, "        esac ;;\n");
}

/* Writes the first words of all commands, and in `second` the subcommands of the first word typed. */
static void command_words(FILE *out)
{
    fprintf(out, "    local first='--help --version");
    for (int i = 0; i < command_count; i++) {
        int letters = (int)strcspn(commands[i].name, " ");
        bool met = false;
        for (int j = 0; j < i; j++) met |= !strncmp(commands[j].name, commands[i].name, (size_t)letters + 1);
        if (!met) fprintf(out, " %.*s", letters, commands[i].name);
    }
    fprintf(out, "' second=\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < command_count; i++) {
        const char *space = strchr(commands[i].name, ' ');
        int letters = space ? (int)(space - commands[i].name) : 0;
        if (space) fprintf(out, "    %.*s) second+=' %s' ;;&\n", letters, commands[i].name, space + 1);
    }
    fprintf(out, "    esac\n");
}

/* bash cuts --name=VALUE into three words, so that a lone = is before the value or is the word to
 * complete. The option in whose list of values the cursor is, is the nearest one to the left. */
static const char *const before_tables =
    "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
    "    local option= follows= words= options= i\n"
    "    [[ $word == = ]] && word=\n"
    "    [[ $last == = ]] && last=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W \"$first\" -- \"$word\")); return; fi\n"
    "    if [[ $second ]]; then\n"
    "        if ((COMP_CWORD == 2)); then\n"
    "            COMPREPLY=($(compgen -W \"$second --help\" -- \"$word\")); return\n"
    "        fi\n"
    "        command+=\" ${COMP_WORDS[2]}\"\n"
    "    fi\n"
    "    for ((i = COMP_CWORD - 1; i > 1; i--)); do\n"
    "        if [[ ${COMP_WORDS[i]} == --* ]]; then option=${COMP_WORDS[i]}; break; fi\n"
    "    done\n"
    "    case $command in\n";
static const char *const after_tables =
    "    esac\n"
    "    [[ $word == --* ]] && follows=\n"
    "    [[ $last != \"$option\" && $follows != paths ]] && follows=\n"
    "    case $follows in\n"
    "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
    "    value) ;;\n"
    "    path|paths) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    *)\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
    "        if [[ ${#COMPREPLY[@]} == 0 || $word != -* ]]; then\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\")\n"
    "        fi ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _jotun jotun\n";

void completion_bash(FILE *out)
{
    fprintf(out, "# Completion of jotun for bash, "
                 "written by `jotun --help-bash` from the rows of its options.\n"
                 "_jotun()\n{\n");
    command_words(out);
    fprintf(out, "%s", before_tables);
    for (int i = 0; i < command_count; i++) command_arm(out, &commands[i]);
    fprintf(out, "%s", after_tables);
}
