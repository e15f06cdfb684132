/* Names of train_aGPT_7B.sh's variables, those that people write instead, and the command line of `jotun
 * agpt`: words NAME=VALUE are variables of the script, as those of the environment are; words that begin with
 * -- are options of `jotun train`. The environment has many other variables, so that a name counts as
 * mistyped only where it is long enough to be no coincidence. */
#include "compat/alcf/agpt_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/log.h"

enum { NAME = 128, LEAST_LETTERS = 5 };

const AgptVariable agpt_variables[VARIABLES] = {
#define HELD_ARGONNE(id, names, text, what) { names, text, what },
#include "compat/dialects.def"
};

const int         agpt_shape[AGPT_SHAPES] = { V_HEADS, V_NLAYERS, V_HIDDEN, V_NUM_KV_HEAD, V_FFN_HIDDEN_SIZE,
                                              V_SEQ };
const char *const agpt_default_shape[AGPT_SHAPES] = { AGPT_SHAPE_7B };

const AgptFixed agpt_fixed[] = {
    { "", OPTION_data_order, "megatron-forks" },
    { "NO_LLAMA", OPTION_swiglu, "true" },
    { "NO_LLAMA", OPTION_hidden_dropout, "0" },
    { "NO_LLAMA", OPTION_attention_dropout, "0" },
    { "NO_LLAMA", OPTION_norm, "RMSNorm" },
    { "NO_LLAMA", OPTION_disable_bias, "true" },
    { "NO_LLAMA", OPTION_position, "rope" },
    { "NO_LLAMA", OPTION_untie, "true" },
    { "OVERRIDE_CKPT_OPT_PARAM", OPTION_checkpoint_schedule, "true" },
};
const int agpt_fixed_count = COUNT(agpt_fixed);

const Dialect *agpt_row(const char *name, const char *text)
{
    return dialect_find(DIALECT_ARGONNE, name, text);
}

/* Names that the script ignores silently. */
static const struct { const char *names, *right; } mistaken[] = {
    { "SEQ_LEN SEQLEN SEQ_LENGTH SEQUENCE_LENGTH", "SEQ" },
    { "LR_WARMUP_FRACTION WARMUP_FRAC", "LR_WARMUP_FRAC" },
    { "MBS MICRO_BATCH_SIZE MICROBATCH", "MICRO_BATCH" },
    { "GBS GLOBAL_BATCH_SIZE", "GLOBAL_BATCH" },
    { "GAS GRAD_ACC GRADIENT_ACCUMULATION_STEPS", "GRAD_ACC_STEPS" },
    { "NUM_HEADS NUM_ATTENTION_HEADS", "HEADS" },
    { "N_LAYERS NUM_LAYER", "NLAYERS" },
    { "HIDDEN_SIZE", "HIDDEN" },
    { "NUM_KV_HEADS KV_HEADS", "NUM_KV_HEAD" },
    { "FFN_HIDDEN FFN_SIZE", "FFN_HIDDEN_SIZE" },
    { "ZERO_STAGES DS_STAGE", "ZERO_STAGE" },
    { "LEARNING_RATE", "LR" },
    { "NUM_TOKENS TRAIN_TOKEN", "TRAIN_TOKENS" },
    { "NUM_ITERS TRAINING_ITERS", "TRAIN_ITERS" },
    { "DATA_LIST DATA_FILES", "DATA_FILE_LIST" },
    { "NGPUS_PER_HOST GPUS_PER_HOST", "NGPU_PER_HOST" },
    { "TENSOR_PARALLEL TENSOR_PARALLEL_SIZE", "TP" },
    { "PIPELINE_PARALLEL PIPELINE_PARALLEL_SIZE", "PP" },
    { "SEQUENCE_PARALLEL SEQUENCE_PARALLEL_SIZE", "SP" },
};
/* What the script itself exports, and what is read elsewhere. */
static const char exported[] =
    "GLOBAL_BATCH_MAX TRAIN_ARGS HIDDEN_DROPOUT NHOSTS NGPUS GPUS_PER_NODE LOG_LEVEL TORCH_DEVICE DATA_PATH "
    "DATA_CACHE_PATH MICRO_BATCH_MAX";

/* Up to two edits of a long name, one of a shorter one. The first of the names of a row is the one to give.
 */
static const char *nearest(const char *name)
{
    static _Thread_local char best[NAME];
    size_t letters = strlen(name);
    int    edits   = letters < LEAST_LETTERS ? 0 : letters < 9 ? 2 : 3;
    bool   found   = false;
    for (int i = 0; i <= VARIABLES; i++) {
        const char *list = i < VARIABLES ? agpt_variables[i].names : exported;
        char        one[NAME], first[NAME] = "";
        while (name_next(one, sizeof one, &list)) {
            if (!*first) memcpy(first, one, sizeof one);
            if (strlen(one) < LEAST_LETTERS || word_distance(name, one) >= edits) continue;
            edits = word_distance(name, one);
            found = true;
            memcpy(best, first, sizeof best);
        }
    }
    return found ? best : NULL;
}

bool agpt_variable(const char *name, const char **right, bool *certain)
{
    *right   = NULL;
    *certain = false;
    for (size_t i = 0; i < COUNT(mistaken); i++) {
        if (!name_in(mistaken[i].names, name, strcmp)) continue;
        *right   = mistaken[i].right;
        *certain = true;
        return false;
    }
    for (int v = 0; v < VARIABLES; v++)
        if (name_in(agpt_variables[v].names, name, strcmp)) return true;
    if (name_in(exported, name, strcmp) || agpt_row(name, NULL)) return true;
    *right = nearest(name);
    return false;
}

/* ---- help ---- */

static const char *default_of(int v)
{
    for (int s = 0; s < AGPT_SHAPES; s++)
        if (agpt_shape[s] == v) return agpt_default_shape[s];
    return agpt_variables[v].fallback;
}

static const Dialect *row_of(int v)
{
    char        first[NAME];
    const char *list = agpt_variables[v].names;
    return name_next(first, sizeof first, &list) ? agpt_row(first, NULL) : NULL;
}

bool agpt_help(AgptHelp *help, int i)
{
    static _Thread_local char what[512];
    if (i < 0 || i >= VARIABLES) return false;
    const Dialect *row = row_of(i);
    *help = (AgptHelp){ agpt_variables[i].names, default_of(i), what };
    if (*agpt_variables[i].what) help->what = agpt_variables[i].what;
    else if (row && row->option >= 0) snprintf(what, sizeof what, "--%s", option_rows[row->option].name);
    else if (row && row->verb == VERB_IGNORED) snprintf(what, sizeof what, "ignored: %s", row->text);
    else if (row) snprintf(what, sizeof what, "refused: %s; %s", row->text, row->cure);
    else *what = 0;
    return true;
}

/* ---- words of the command line ---- */

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
