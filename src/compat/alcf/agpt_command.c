/* The command line of `jotun agpt`: words NAME=VALUE are variables of train_aGPT_7B.sh, as those of the
 * environment are; words that begin with -- are options of `jotun train`. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "compat/alcf/agpt.h"
#include "compat/alcf/agpt_start.h"
#include "conf/rows.h"

extern char **environ;
enum { NAME = 128 };

/* The letters of the name in NAME=VALUE; 0: the word is none. */
static size_t name_letters(const char *word)
{
    size_t n = 0;
    if (isdigit((unsigned char)*word)) return 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_') n++;
    return word[n] == '=' ? n : 0;
}

static Status refuse_name(const char *name, const char *value, const char *right)
{
    return right
               ? fail(BAD_OPTION, "%s is no variable of train_aGPT_7B.sh, which would ignore it; give %s=%s",
                      name, right, value)
               : fail(BAD_OPTION, "%s is no variable of train_aGPT_7B.sh; docs/options.md lists them", name);
}

/* Whether the word before it is an option that takes this one as its value. */
static bool is_value(const char *before)
{
    char name[NAME];
    if (!before || strncmp(before, "--", 2) || strchr(before, '=')) return false;
    snprintf(name, sizeof name, "%s", before + 2);
    int option = option_find(name, FOR_TRAIN);
    return option >= 0 && option_rows[option].kind != KIND_FLAG;
}

/* Sets the variables of words NAME=VALUE, which may stand anywhere but as the value of an option; option: the
 * others, in their order. */
static Status take_words(char **option, int *options, int argc, char **argv)
{
    *options = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *right = NULL;
        bool        certain;
        char        name[NAME];
        size_t      letters = is_value(i ? argv[i - 1] : NULL) ? 0 : name_letters(word);
        bool        first   = *options == 0 && strncmp(word, "--", 2);
        if (first && (!letters || letters >= NAME))
            return fail(BAD_USAGE,
                        "%s is neither NAME=VALUE nor an option of jotun train, which begin with --", word);
        snprintf(name, sizeof name, "%.*s", letters < NAME ? (int)letters : 0, word);
        bool known = *name && agpt_variable(name, &right, &certain);
        if (!known && (first || right)) return refuse_name(name, word + letters + 1, right);
        if (!known) option[(*options)++] = argv[i];
        else if (setenv(name, word + letters + 1, 1)) return fail(NO_MEMORY, "no memory for %s", name);
    }
    return OK;
}

/* The environment has variables for other programs too: only names that somebody has mistaken before are
 * refused, and those near to one of the script's have a line in the log. */
static Status judge_environment(void)
{
    for (char **variable = environ; *variable; variable++) {
        const char *right;
        char        name[NAME];
        bool        certain;
        size_t      letters = strcspn(*variable, "=");
        if (letters >= NAME) continue;
        snprintf(name, sizeof name, "%.*s", (int)letters, *variable);
        if (agpt_variable(name, &right, &certain)) continue;
        if (certain) return refuse_name(name, *variable + letters + 1, right);
        if (right)
            log_line("%s is no variable of train_aGPT_7B.sh and is not read; did you mean %s?", name, right);
    }
    return OK;
}

/* Paths are relative to the folder in which the job was submitted, as there. */
static Status enter_folder(void)
{
    const char *pbs = getenv("PBS_O_WORKDIR"), *slurm = getenv("SLURM_SUBMIT_DIR");
    const char *folder = pbs && *pbs ? pbs : slurm;
    if (!folder || !*folder || chdir(folder) == 0) return OK;
    return fail(BAD_FILE, "%s=%s cannot be entered: %s", folder == pbs ? "PBS_O_WORKDIR" : "SLURM_SUBMIT_DIR",
                folder, strerror(errno));
}

Status agpt_prepare(char **option, int *options, int argc, char **argv)
{
    TRY(take_words(option, options, argc, argv));
    TRY(judge_environment());
    return enter_folder();
}
