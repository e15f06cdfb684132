/* Names of other trainers: the table that dialects.def makes, and looking names up in it. */
#include "compat/dialects.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"

const DialectName dialect_names[DIALECTS] = {
#define DIALECT(dialect, name, prefix) { name, prefix, #dialect },
#include "compat/dialects.def"
};

/* Columns in the order of Dialect: verb, whose, name, given, option, conversion, words that follow, text,
 * cure. Text and cure may come as one macro of dialects.def, so they are read together. */
const Dialect dialects[] = {
#define SAME(whose, ...) CONVERTED(whose, __VA_ARGS__, NONE)
#define CONVERTED(whose, name, field, conversion) \
    { VERB_SAME, DIALECT_##whose##_INDEX, name, "", OPTION_##field, CONVERT_##conversion, 1, "", "" },
#define WITH(whose, name, field, other, value) \
    { VERB_WITH, DIALECT_##whose##_INDEX, name, "", OPTION_##field, CONVERT_NONE, OPTION_##other, value, "" },
#define MEANS(whose, name, given, field, value) \
    { VERB_MEANS, DIALECT_##whose##_INDEX, name, given, OPTION_##field, CONVERT_NONE, sizeof given > 1, \
      value, "" },
#define IGNORED(whose, name, given, values, why) \
    { VERB_IGNORED, DIALECT_##whose##_INDEX, name, given, -1, CONVERT_NONE, values, why, "" },
#define REFUSE(whose, name, given, values, ...) \
    { VERB_REFUSE, DIALECT_##whose##_INDEX, name, given, -1, CONVERT_NONE, values, __VA_ARGS__ },
#define HELD_DSJSON(id, name, missing, what) \
    { VERB_HELD, DIALECT_DSJSON_INDEX, name, "", -1, CONVERT_NONE, 1, what, "" },
#define SUGGEST(whose, name, ours) \
    { VERB_SUGGEST, DIALECT_##whose##_INDEX, name, "", -1, CONVERT_NONE, 0, ours, "" },
#define MISSING(whose, name, ...) \
    { VERB_MISSING, DIALECT_##whose##_INDEX, name, "", -1, CONVERT_NONE, 0, __VA_ARGS__ },
#include "compat/dialects.def"
};
const int dialect_count = COUNT(dialects);

bool dialect_has_names(const Dialect *row) { return strpbrk(row->name, " *") != NULL; }

bool dialect_only_hints(const Dialect *row)
{
    return row->verb == VERB_SUGGEST || row->verb == VERB_MISSING;
}

bool name_next(char *out, size_t size, const char **list)
{
    size_t letters = strcspn(*list, " ");
    snprintf(out, size, "%.*s", (int)letters, *list);
    *list += letters + ((*list)[letters] == ' ');
    return letters > 0;
}

bool name_in(const char *list, const char *name, int (*compare)(const char *, const char *))
{
    char one[256];
    while (name_next(one, sizeof one, &list))
        if (!compare(one, name)) return true;
    return false;
}

/* Whether one of the row's names, "mask-type dino-*", is this one. Python scripts have --n_layer, others
 * --n-layer. */
static bool names_it(const char *names, const char *name)
{
    for (const char *a = names; *a; a += strcspn(a, " "), a += *a == ' ') {
        const char *b = name;
        while (*b && (*a == *b || (*a && strchr("-_", *a) && strchr("-_", *b)))) a++, b++;
        if (*a == '*' || (!*b && (!*a || *a == ' '))) return true;
    }
    return false;
}

/* A row of one name has exactly that. */
static bool named(const Dialect *row, const char *name)
{
    return dialect_has_names(row) ? names_it(row->name, name) : !strcmp(row->name, name);
}

/* 1: a word of YAML for true, 0: for false, -1: neither */
static int truth_of(const char *value)
{
    static const char *const words[] = { "false", "no", "off", "true", "yes", "on" };
    for (int i = 0; i < 6; i++)
        if (!strcasecmp(value, words[i])) return i / 3;
    return -1;
}

/* Whether a value is one of those that a row is for: 0 is 0.0, and no is false; but variables of a script are
 * compared by it as text. */
static bool is_given(const Dialect *row, const char *value)
{
    char       *end, *given_end, given[128];
    const char *list   = row->given;
    double      number = strtod(value, &end);
    bool        is_number = end != value && !*end;
    if (!strcasecmp(list, value)) return true;
    while (name_next(given, sizeof given, &list)) {
        if (!strcasecmp(given, value)) return true;
        if (row->whose == DIALECT_ARGONNE_INDEX) continue;
        if (truth_of(given) >= 0 && truth_of(given) == truth_of(value)) return true;
        bool equal = is_number && strtod(given, &given_end) == number;
        if (equal && given_end != given && !*given_end) return true;
    }
    return false;
}

const Dialect *dialect_find(unsigned understood, const char *name, const char *value)
{
    for (int i = 0; i < dialect_count; i++) {
        const Dialect *row = &dialects[i];
        bool for_value = !*row->given || (value && is_given(row, value));
        if (dialect_only_hints(row) || !(understood >> row->whose & 1)) continue;
        if (for_value && named(row, name)) return row;
    }
    return NULL;
}

bool dialect_taken(const Dialect *row, CommandSet command)
{
    CommandSet others = row->whose == DIALECT_PREPROCESS_INDEX ? FOR_WORDS : FOR_CONFIG;
    return row->option >= 0 ? option_taken(row->option, command) : (command & others) != 0;
}

const Dialect *dialect_suggestion(unsigned understood, const char *name)
{
    for (int i = 0; i < dialect_count; i++)
        if (dialect_only_hints(&dialects[i]) && understood >> dialects[i].whose & 1 &&
            names_it(dialects[i].name, name)) return &dialects[i];
    return NULL;
}

/* Names of environment variables are no suggestion for a command line. */
static bool is_suggested(const Dialect *row, unsigned understood, CommandSet command)
{
    bool has = understood >> row->whose & 1 && !dialect_only_hints(row) && *dialect_names[row->whose].prefix;
    return has && dialect_taken(row, command);
}

bool dialect_nearest(char *out, size_t size, unsigned understood, const char *name, CommandSet command)
{
    char one[128];
    int  near = name_near_enough(name);
    *out = 0;
    for (int i = 0; i < dialect_count; i++) {
        const char *names = dialects[i].name;
        if (!is_suggested(&dialects[i], understood, command)) continue;
        while (name_next(one, sizeof one, &names))
            if (!strchr(one, '*') && name_is_nearer(&near, name, one)) snprintf(out, size, "%s", one);
    }
    return *out;
}

/* Both commands for language models of fairseq read the same rows. */
const char *dialect_owner(const Dialect *row, CommandSet command)
{
    bool evaluates = row->whose == DIALECT_FAIRSEQ_LINE_INDEX && command == FOR_EVAL;
    return evaluates ? "fairseq-eval-lm" : dialect_names[row->whose].name;
}

unsigned dialects_understood(CommandSet command)
{
    enum {
        TRAINERS = DIALECT_JOTUN | DIALECT_MEGATRON | DIALECT_DEEPSPEED | DIALECT_FAIRSEQ,
        HINTS    = DIALECT_NANOGPT | DIALECT_NANOCHAT | DIALECT_HF | DIALECT_LIGHTNING | DIALECT_OTHERS
    };
    const CommandSet none = FOR_WORDS | FOR_LINES | FOR_DETOKENIZE | FOR_REPORT | FOR_COMPARE | FOR_SWEEP;
    if (command == FOR_WORDS) return DIALECT_PREPROCESS;
    if (command & (FOR_TRAIN | FOR_CONFIG_ALONE)) return TRAINERS | HINTS;
    return command & none ? 0 : TRAINERS;
}

/* Another option must not have this value; the message is the first text, that option, and the second. */
static const struct { const char *name; OptionDemand demand; } demands[] = {
    { "accumulate-allreduce-grads-in-fp32",
      { OPTION_grad_reduce_in_bf16, DEMAND_NOT, "true", "",
        " and --accumulate-allreduce-grads-in-fp32 of Megatron-LM are two types of the same sums; leave one "
        "out",
        0 } },
    { "no-position-embedding",
      { OPTION_position, DEMAND_NOT, "learned_absolute", "--no-position-embedding of Megatron-LM and ",
        " contradict each other; give --position-embedding-type none or rope", 0 } },
};

const OptionDemand *dialect_demand(const Dialect *row)
{
    for (size_t i = 0; i < COUNT(demands); i++)
        if (!strcmp(demands[i].name, row->name)) return &demands[i].demand;
    return NULL;
}
