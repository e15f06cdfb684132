#ifndef COMPAT_ALCF_AGPT_H
#define COMPAT_ALCF_AGPT_H
/* Argonne's train_aGPT_7B.sh as options: its variables (agpt.def) from the environment, its defaults, its
 * arithmetic of ranks and batches, the machine that it would find, and the names of its folders. */
#include "compat/alcf/agpt_machine.h"
#include "compat/import.h"

/* What is not an option: what was found on the machine, and the name of the run's folders. known: another
 * process has found it already. */
typedef struct {
    AgptFound found;
    bool      known;
    char      name[AGPT_NAME];
} AgptRun;

/* The variables of the environment, weaker than the command line, and the script's own values, weaker than
 * files of --config, beside the options so far. BAD_OPTION where variables are refused: all of them are
 * named, the last one in the message; what was found is known then, too. */
Status agpt_words(OptionWords *words, AgptRun *run, const Options *so_far);

/* Of a word NAME=VALUE, or of a variable of the environment: whether train_aGPT_7B.sh has it. right: the name
 * that is meant instead, NULL where none is near; certain: somebody has mistaken it before. */
bool agpt_variable(const char *name, const char **right, bool *certain);

/* For its help. Variable i, from 0: its names, the first of which counts, and its default, "" where there is
 * none or another variable says it; false behind the last one. */
typedef struct { char names[128]; const char *fallback, *what; } AgptHelp;
bool agpt_help(AgptHelp *help, int i);
/* What the script gives an option, or from which variable, in brackets of its help; NULL: nothing. */
const char *agpt_default(char *out, size_t size, OptionIndex option);
#endif
