#include "conf/rows.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

const OptionRow option_rows[OPTIONS] = {
#define OPT(field_, kind_, default_, low_, high_, name_, alias_, group_, commands_, value_, help_)           \
    [OPTION_##field_] = { .field = #field_, .name = name_, .alias = alias_, .text = default_,                \
                          .value = value_, .help = help_, .kind = KIND_##kind_, .group = GROUP_##group_,     \
                          .low = low_, .high = high_, .commands = commands_,                                 \
                          .offset = offsetof(Options, field_) },
#include "conf/options.def"
};

const OptionWord option_words[OPTION_WORDS] = {
#define WORD(field, constant, word) [WORD_##field##_##constant] = { OPTION_##field, word },
#include "conf/options.def"
};

const Preset presets[] = {
#define PRESET(name, words, help) { name, words, help },
#include "conf/presets.def"
};
const int preset_count = sizeof presets / sizeof presets[0];

const Dialect dialects[] = {
#define ALIAS(whose, name, field)        { DIALECT_ALIAS,  whose, name, OPTION_##field, 0, "" },
#define MEANS(whose, name, field, value) { DIALECT_MEANS,  whose, name, OPTION_##field, 0, value },
#define PASSED(whose, name, values, why) { DIALECT_PASSED, whose, name, -1, values, why },
#define REFUSE(whose, name, why)         { DIALECT_REFUSE, whose, name, -1, 0, why },
#include "conf/dialects.def"
};
const int dialect_count = sizeof dialects / sizeof dialects[0];

int option_find(const char *name)
{
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        if (!strcmp(name, row->name) || (row->alias[0] && !strcmp(name, row->alias))) return i;
    }
    return -1;
}

int option_word(OptionIndex option, const char *word)
{
    for (int i = WORD_NOTHING + 1; i < OPTION_WORDS; i++)
        if (option_words[i].option == option && !strcasecmp(option_words[i].word, word)) return i;
    return WORD_NOTHING;
}

bool option_taken(OptionIndex option, int command)
{
    return option_rows[option].commands & command;
}

const char *option_choices(char *out, size_t size, OptionIndex option, const char *between, const char *last)
{
    int left = 0;
    for (int i = 0; i < OPTION_WORDS; i++)
        if (i != WORD_NOTHING && option_words[i].option == option) left++;
    size_t used = 0;
    out[0] = 0;
    for (int i = WORD_NOTHING + 1; i < OPTION_WORDS && used < size; i++) {
        if (option_words[i].option != option) continue;
        left--;
        used += (size_t)snprintf(out + used, size - used, "%s%s", option_words[i].word,
                                 left > 1 ? between : left ? last : "");
    }
    return out;
}

const char *option_group_name(OptionGroup group)
{
    static const char *const name[OPTION_GROUPS] = { "model", "data", "cleaning", "sampling", "schedule",
                                                     "optimizer", "numbers", "layout", "machine", "files", "words" };
    return name[group];
}

const char *command_name(int command)
{
    static const struct { int bits; const char *name; } row[] = {
        { FOR_TRAIN, "train" },       { FOR_CONFIG, "config" },   { FOR_EVAL, "eval perplexity" },
        { FOR_GENERATE, "generate" }, { FOR_PREPARE, "prepare" }, { FOR_TOKENIZER_ENCODE, "tokenizer encode" },
        { FOR_TOKENIZER_DECODE, "tokenizer decode" }, { FOR_TOKENIZER_INFO, "tokenizer info" },
        { FOR_DATA_INFO, "data info" }, { FOR_DATA_CAT, "data cat" }, { FOR_MERGE, "data merge" }, { FOR_CHECKPOINT, "checkpoint" },
        { FOR_TOKENIZER_TRAIN, "tokenizer train" }, { FOR_LANGID, "langid" }, { FOR_CLEAN, "clean" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if ((command & row[i].bits) == row[i].bits) return row[i].name;
    return "jotun";
}

const char *command_names(char *out, size_t size, int bits, const char *before, const char *last)
{
    static const int command[] = { FOR_TRAIN, FOR_EVAL, FOR_GENERATE, FOR_PREPARE, FOR_DATA_CAT, FOR_MERGE,
                                   FOR_TOKENIZER_ENCODE, FOR_TOKENIZER_DECODE, FOR_TOKENIZER_INFO, FOR_TOKENIZER_TRAIN, FOR_LANGID, FOR_CLEAN };
    int left = 0;
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof command / sizeof command[0]; i++) left += (bits & command[i]) == command[i];
    for (size_t i = 0; i < sizeof command / sizeof command[0] && used < size; i++) {
        if ((bits & command[i]) != command[i]) continue;
        left--;
        used += (size_t)snprintf(out + used, size - used, "%s%s%s", before, command_name(command[i]),
                                 left > 1 ? ", " : left ? last : "");
    }
    return out;
}

const Preset *preset_find(const char *name)
{
    for (int i = 0; i < preset_count; i++)
        if (!strcmp(presets[i].name, name)) return &presets[i];
    return NULL;
}

const Dialect *dialect_find(const char *name)
{
    for (int i = 0; i < dialect_count; i++)
        if (!strcmp(dialects[i].name, name)) return &dialects[i];
    return NULL;
}

enum { NAME_MAX_LETTERS = 63 };

static int least(int a, int b) { return a < b ? a : b; }

int word_distance(const char *a, const char *b)
{
    int n = least((int)strlen(a), NAME_MAX_LETTERS), m = least((int)strlen(b), NAME_MAX_LETTERS);
    int cost[NAME_MAX_LETTERS + 1][NAME_MAX_LETTERS + 1];
    for (int i = 0; i <= n; i++) cost[i][0] = i;
    for (int j = 0; j <= m; j++) cost[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int replaced = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = least(replaced, least(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    return cost[n][m];
}

const char *option_nearest(const char *name, int command)
{
    const char *best = NULL;
    int near = least((int)strlen(name) / 3, 4) + 1;          /* more than a third wrong is another word */
    for (int i = 0; i < OPTIONS; i++) {
        if (command && !option_taken(i, command)) continue;
        int d = word_distance(name, option_rows[i].name);
        if (d < near) near = d, best = option_rows[i].name;
    }
    for (int i = 0; i < dialect_count; i++) {
        if (dialects[i].option >= 0 && command && !option_taken(dialects[i].option, command)) continue;
        int d = word_distance(name, dialects[i].name);
        if (d < near) near = d, best = dialects[i].name;
    }
    return best;
}
