/* The tables that options.def and presets.def make, the commands by name, and looking things up in all of
 * them. */
#include "conf/rows.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/message.h"

/* Each kind of row is written out whole, so that a row is one macro deep. */
const OptionRow option_rows[OPTIONS] = {
#define OPT_INT(field_, text_, low_, high_, name_, commands_, help_)                                        \
    [OPTION_##field_] = { .kind = KIND_INT, .field = #field_, .offset = offsetof(Options, field_),           \
                          .text = text_, .low = low_, .high = high_, .name = name_, .value = "N",            \
                          .commands = commands_, .help = help_ },
#define OPT_REAL(field_, text_, low_, high_, name_, commands_, help_)                                       \
    [OPTION_##field_] = { .kind = KIND_REAL, .field = #field_, .offset = offsetof(Options, field_),          \
                          .text = text_, .low = low_, .high = high_, .name = name_, .value = "X",            \
                          .commands = commands_, .help = help_ },
#define OPT_FLAG(field_, name_, commands_, help_)                                                           \
    [OPTION_##field_] = { .kind = KIND_FLAG, .field = #field_, .offset = offsetof(Options, field_),          \
                          .text = "", .name = name_, .value = "", .commands = commands_, .help = help_ },
#define OPT_CHOICE(field_, text_, name_, commands_, help_)                                                  \
    [OPTION_##field_] = { .kind = KIND_CHOICE, .field = #field_, .offset = offsetof(Options, field_),        \
                          .text = text_, .name = name_, .value = "", .commands = commands_, .help = help_ },
#define OPT_TEXT(field_, text_, value_, name_, commands_, help_)                                            \
    [OPTION_##field_] = { .kind = KIND_TEXT, .field = #field_, .offset = offsetof(Options, field_),          \
                          .text = text_, .value = value_, .name = name_, .commands = commands_,              \
                          .help = help_ },
#define OPT_PATH(field_, text_, value_, name_, commands_, help_)                                            \
    [OPTION_##field_] = { .kind = KIND_TEXT, .path = true, .field = #field_,                                 \
                          .offset = offsetof(Options, field_), .text = text_, .value = value_,               \
                          .name = name_, .commands = commands_, .help = help_ },
#define OPT_LIST(field_, text_, value_, name_, commands_, help_)                                            \
    [OPTION_##field_] = { .kind = KIND_LIST, .field = #field_, .offset = offsetof(Options, field_),          \
                          .text = text_, .value = value_, .name = name_, .commands = commands_,              \
                          .help = help_ },
#define OPT_PATHS(field_, text_, value_, name_, commands_, help_)                                           \
    [OPTION_##field_] = { .kind = KIND_LIST, .path = true, .field = #field_,                                 \
                          .offset = offsetof(Options, field_), .text = text_, .value = value_,               \
                          .name = name_, .commands = commands_, .help = help_ },
#include "conf/options.def"
};

const OptionChoice option_choice_rows[OPTION_CHOICES] = {
#define CHOICE(field, constant, word) [CHOICE_##field##_##constant] = { OPTION_##field, word },
#include "conf/options.def"
};

static const struct { OptionIndex option; const char *word; int choice; } synonyms[] = {
#define SYNONYM(field, word, constant) { OPTION_##field, word, CHOICE_##field##_##constant },
#include "conf/options.def"
};
static const struct { OptionIndex option; const char *word, *why; } no_choices[] = {
#define NO_CHOICE(field, word, why) { OPTION_##field, word, why },
#include "conf/options.def"
};
enum { NO_CHOICES = COUNT(no_choices) };
enum { SYNONYMS = COUNT(synonyms) };

/* SHORT, VALUE and HELP rows: properties that only a few options have, so that the others need no column. */
typedef enum { NOTE_SHORT, NOTE_VALUE, NOTE_HELP } NoteKind;
static const struct { NoteKind kind; OptionIndex option; CommandSet commands; const char *text; } notes[] = {
#define SHORT(field, name)           { NOTE_SHORT, OPTION_##field, FOR_ANY, name },
#define VALUE(field, word)           { NOTE_VALUE, OPTION_##field, FOR_ANY, word },
#define HELP(field, commands, help)  { NOTE_HELP,  OPTION_##field, commands, help },
#include "conf/options.def"
};
enum { NOTES = COUNT(notes) };

static const struct { int first; const char *title, *key; } groups[] = {
#define GROUP(group, title) { GROUP_##group, title, #group },
#include "conf/options.def"
};
enum { GROUPS = COUNT(groups) };

const OptionWants option_wants[] = {
#define WANTS(field, other, value)        { WANTS_REFUSED,     OPTION_##field, OPTION_##other, value },
#define OR_WANTS(field, other, value)     { WANTS_ALTERNATIVE, OPTION_##field, OPTION_##other, value },
#define TRAIN_WANTS(field, other, value)  { WANTS_IN_TRAINING, OPTION_##field, OPTION_##other, value },
#define IDLE_WITHOUT(field, other, value) { WANTS_REPORTED,    OPTION_##field, OPTION_##other, value },
#define IDLE_BESIDE(field, other, value)  { WANTS_ABSENT,      OPTION_##field, OPTION_##other, value },
#define BUILT_WITH(field, other, value)   { WANTS_BUILT,       OPTION_##field, OPTION_##other, value },
#include "conf/options.def"
};
const int option_wants_count = COUNT(option_wants);

const OptionNeeded options_needed_rows[] = {
#define NEEDED(command, field, says) { command, OPTION_##field, says },
#include "conf/options.def"
    { 0, 0, NULL }
};

/* Presets are parsed like words of a command line, so they need no table of fields. */
const Preset presets[] = {
#define PRESET(name, words, help) { name, words, help },
#include "conf/presets.def"
};
const int preset_count = COUNT(presets);

/* ---- options ---- */

/* Tables are searched from the start: they are short, and a command line has few words. */
static const char *note_find(NoteKind kind, OptionIndex option, CommandSet commands)
{
    for (int i = 0; i < NOTES; i++)
        if (notes[i].kind == kind && notes[i].option == option && notes[i].commands & commands)
            return notes[i].text;
    return NULL;
}

int option_find(const char *name, CommandSet commands)
{
    for (int i = 0; i < OPTIONS; i++)
        if (option_taken(i, commands) && !strcmp(name, option_rows[i].name)) return i;
    for (int i = 0; i < NOTES; i++)
        if (notes[i].kind == NOTE_SHORT && option_taken(notes[i].option, commands) &&
            !strcmp(name, notes[i].text))
            return notes[i].option;
    return -1;
}

CommandSet option_takers(const char *name)
{
    CommandSet commands = 0;
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(name, option_rows[i].name) || !strcmp(name, option_short(i)))
            commands |= option_rows[i].commands & FOR_ANY;
    return commands;
}

int option_choice_find(OptionIndex option, const char *word)
{
    for (int i = CHOICE_NOTHING + 1; i < OPTION_CHOICES; i++)
        if (option_choice_rows[i].option == option && !strcasecmp(option_choice_rows[i].word, word)) return i;
    for (int i = 0; i < SYNONYMS; i++)
        if (synonyms[i].option == option && !strcasecmp(synonyms[i].word, word)) return synonyms[i].choice;
    return CHOICE_NOTHING;
}

const char *option_choice_refused(OptionIndex option, const char *word)
{
    for (int i = 0; i < NO_CHOICES; i++)
        if (no_choices[i].option == option && !strcasecmp(no_choices[i].word, word)) return no_choices[i].why;
    return NULL;
}

const char *option_needed(OptionIndex option, CommandSet command)
{
    for (const OptionNeeded *n = options_needed_rows; n->says; n++)
        if (n->option == option && n->command == command) return n->says;
    return NULL;
}

bool option_taken(OptionIndex option, CommandSet commands)
{
    return option_rows[option].commands & commands;
}

const char *option_short(OptionIndex option)
{
    const char *name = note_find(NOTE_SHORT, option, FOR_ANY);
    return name ? name : "";
}

const char *option_value(OptionIndex option)
{
    const char *word = note_find(NOTE_VALUE, option, FOR_ANY);
    return word ? word : option_rows[option].value;
}

const char *option_help(OptionIndex option, CommandSet command)
{
    const char *help = note_find(NOTE_HELP, option, command);
    return help ? help : option_rows[option].help;
}

const char *option_default(OptionIndex option, CommandSet command)
{
    bool loads = (command & (FOR_EVAL | FOR_GENERATE | FOR_SERVE)) && !(command & FOR_TRAIN);
    return loads && option_taken(option, FOR_CHECKPOINT_ARGS) ? "the checkpoint's" : option_rows[option].text;
}

const char *option_choices(char *out, size_t size, OptionIndex option, const char *between, const char *last)
{
    int left = 0;
    for (int i = CHOICE_NOTHING + 1; i < OPTION_CHOICES; i++) left += option_choice_rows[i].option == option;
    out[0] = 0;
    for (int i = CHOICE_NOTHING + 1; i < OPTION_CHOICES; i++) {
        if (option_choice_rows[i].option != option) continue;
        left--;
        message_add(out, size, "%s%s", option_choice_rows[i].word, left > 1 ? between : left ? last : "");
    }
    return out;
}

const char *option_group_begins(OptionIndex option)
{
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].first == (int)option) return groups[i].title;
    return NULL;
}

/* The last group that begins at or before the option. */
const char *option_group_title(OptionIndex option)
{
    int group = 0;
    while (group + 1 < GROUPS && groups[group + 1].first <= (int)option) group++;
    return groups[group].title;
}

/* Keys are in capitals in options.def. */
bool option_group_find(const char *key)
{
    for (int i = 0; i < GROUPS; i++)
        if (!strcasecmp(groups[i].key, key)) return true;
    return false;
}

const char *option_group_keys(char *out, size_t size)
{
    out[0] = 0;
    for (int i = 0; i < GROUPS; i++) message_item(out, size, ", ", "%s", groups[i].key);
    for (char *c = out; *c; c++) *c = (char)tolower((unsigned char)*c);
    return out;
}

/* ---- commands ---- */

/* config takes what train takes, but is named only for options of its own. words: it takes positional
 * arguments. */
static const struct { CommandSet command; const char *name; bool words; } command_rows[] = {
#define COMMAND(function, name, takes, words, job) \
    { takes == FOR_CONFIG_COMMAND ? FOR_CONFIG_ALONE : takes, name, sizeof words > 1 },
#define RAW_COMMAND COMMAND
#include "conf/commands.def"
};
enum { COMMAND_ROWS = COUNT(command_rows) };

static bool named_among(int row, CommandSet commands)
{
    return (commands & command_rows[row].command) == command_rows[row].command;
}

/* -1 where the set holds no whole command */
static int command_row(CommandSet commands)
{
    for (int i = 0; i < COMMAND_ROWS; i++)
        if (named_among(i, commands)) return i;
    return -1;
}

const char *command_name(CommandSet command)
{
    int row = command_row(command);
    return row >= 0 ? command_rows[row].name : command & FOR_CONFIG ? "config" : "jotun";
}

bool command_takes_words(CommandSet command)
{
    int row = command_row(command);
    return row >= 0 && command_rows[row].words;
}

const char *command_names(char *out, size_t size, CommandSet commands, const char *before, const char *last)
{
    int left = 0;
    out[0] = 0;
    for (int i = 0; i < COMMAND_ROWS; i++) left += named_among(i, commands);
    for (int i = 0; i < COMMAND_ROWS; i++) {
        if (!named_among(i, commands)) continue;
        left--;
        message_add(out, size, "%s%s%s", before, command_rows[i].name, left > 1 ? ", " : left ? last : "");
    }
    return out;
}

/* ---- presets ---- */

const Preset *preset_find(const char *name)
{
    for (int i = 0; i < preset_count; i++)
        if (!strcmp(presets[i].name, name)) return &presets[i];
    return NULL;
}

/* ---- mistyped names ---- */

enum { NAME_MAX_LETTERS = 63 };

static int least(int a, int b) { return a < b ? a : b; }

/* Damerau-Levenshtein with adjacent swaps: cost[i][j] is the distance of the first i letters to the first
 * j. */
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

static bool negated(const char *name) { return !strncmp(name, "no-", 3) || !strncmp(name, "no_", 3); }

/* More than a third wrong is another word. */
int name_near_enough(const char *name) { return least((int)strlen(name) / 3, 4) + 1; }

bool name_is_nearer(int *near, const char *a, const char *b)
{
    int distance = negated(a) == negated(b) ? word_distance(a, b) : *near;
    if (distance >= *near) return false;
    *near = distance;
    return true;
}

/* The first of those that are equally near; where none is, the shortest that begins so. */
const char *option_nearest(const char *name, CommandSet command)
{
    const char *best = NULL, *longer = NULL;
    int near = name_near_enough(name);
    for (int i = 0; i < OPTIONS; i++)
        if (option_taken(i, command) && name_is_nearer(&near, name, option_rows[i].name))
            best = option_rows[i].name;
    for (int i = 0; !best && strlen(name) > 3 && i < OPTIONS; i++)
        if (option_taken(i, command) && !strncmp(option_rows[i].name, name, strlen(name)) &&
            (!longer || strlen(option_rows[i].name) < strlen(longer)))
            longer = option_rows[i].name;
    return best ? best : longer;
}

const char *option_nearer(const char *name, const char *a, const char *b)
{
    if (!a || !b) return a ? a : b;
    return word_distance(name, b) < word_distance(name, a) ? b : a;
}
