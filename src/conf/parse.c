#include "base/log.h"
#include "conf/conf.h"
#include "conf/value.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;
#define ENVIRONMENT_PREFIX "JOTUN_"
enum { WORD_LETTERS = 128 };                                  /* room for "--" or JOTUN_ and a name */

typedef struct { Options *o; char **word, **end; bool ended; } Cursor;

static Status parse_defaults(Options *o)
{
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char name[WORD_LETTERS];
        snprintf(name, sizeof name, "--%s", row->name);
        o->source[i] = (OptionSource){ SOURCE_NOTHING, options_hold(o, name), "", "" };
        const char *text = row->kind == KIND_FLAG ? "false" : row->text;
        if (*text) TRY(options_set(o, i, text, (OptionSource){ SOURCE_DEFAULT, name, "", "" }));
    }
    return OK;
}

/* ---- other trainers' names ---- */

static Status refuse(const Dialect *row, const char *typed)
{
    return fail(BAD_OPTION, "%s of %s is refused: %s", typed, row->whose, row->text);
}

static void pass_over(const Dialect *row, const char *typed)
{
    log_line("%s of %s is passed over: %s", typed, row->whose, row->text);
}

/* What a flag of theirs means when it is off we do not guess. */
static Status parse_meaning(Options *o, const Dialect *row, const char *value, OptionSource source)
{
    if (!value || !strcmp(value, "1") || !strcasecmp(value, "true"))
        return options_set(o, row->option, row->text, source);
    return fail(BAD_OPTION, "%s=%s of %s is refused: leave it out, or give --%s", source.name, value,
                row->whose, option_rows[row->option].name);
}

/* ---- the environment ---- */

static void environment_name(char *out, size_t size, const char *option)
{
    int used = snprintf(out, size, ENVIRONMENT_PREFIX "%s", option);
    for (int i = 0; i < used && out[i]; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

/* A variable that is almost an option is a slip of the pen; others (JOTUN_FAULT) are somebody else's. */
static void environment_slips(const Options *o)
{
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX))) continue;
        char typed[WORD_LETTERS] = "", name[WORD_LETTERS], meant[WORD_LETTERS];
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(*variable, "="), *variable);
        snprintf(name, sizeof name, "%s", typed + strlen(ENVIRONMENT_PREFIX));
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
        const char *nearest = option_find(name) < 0 ? option_nearest(name, o->command) : NULL;
        if (!nearest || option_find(nearest) < 0) continue;
        environment_name(meant, sizeof meant, nearest);
        log_line("%s is no option and is not read; did you mean %s?", typed, meant);
    }
}

/* One variable, where it is set and the command takes what it names. A variable is there for all commands, so
 * one that a command does not take is no mistake. */
static Status environment_option(Options *o, OptionIndex option, const char *called)
{
    char name[WORD_LETTERS];
    environment_name(name, sizeof name, called);
    const char *value = option_taken(option, o->command) ? getenv(name) : NULL;
    if (!value) return OK;
    return options_set(o, option, value, (OptionSource){ SOURCE_ENVIRONMENT, name, value, "" });
}

static Status environment_dialect(Options *o, const Dialect *row)
{
    char name[WORD_LETTERS];
    environment_name(name, sizeof name, row->name);
    const char *value = getenv(name);
    bool taken = row->option >= 0 ? option_taken(row->option, o->command) : (o->command & FOR_CONFIG) != 0;
    if (!value || !taken) return OK;
    switch (row->verb) {
    case DIALECT_ALIAS:  return environment_option(o, row->option, row->name);
    case DIALECT_MEANS:
        return parse_meaning(o, row, value, (OptionSource){ SOURCE_ENVIRONMENT, name, value, "" });
    case DIALECT_REFUSE: return refuse(row, name);
    case DIALECT_PASSED: pass_over(row, name); break;
    }
    return OK;
}

static Status parse_environment(Options *o)
{
    for (int i = 0; i < dialect_count; i++) TRY(environment_dialect(o, &dialects[i]));
    for (int i = 0; i < OPTIONS; i++) {
        if (option_rows[i].alias[0]) TRY(environment_option(o, i, option_rows[i].alias));
        TRY(environment_option(o, i, option_rows[i].name));
    }
    environment_slips(o);
    return OK;
}

/* ---- the command line ---- */

static bool is_option(const char *word) { return word[0] == '-' && word[1] == '-'; }

static bool value_follows(const Cursor *c) { return c->word < c->end && !is_option(*c->word); }

/* inlined: what stood behind = in the same word, or NULL */
static Status parse_value(Cursor *c, OptionIndex option, const char *typed, const char *inlined)
{
    OptionSource source = { SOURCE_COMMAND_LINE, typed, "", "" };
    OptionKind kind = option_rows[option].kind;
    if (inlined) return options_set(c->o, option, inlined, source);
    if (kind == KIND_FLAG) return options_set(c->o, option, "true", source);
    if (!value_follows(c))
        return fail(BAD_USAGE, "%s wants a value; where that begins with --, write %s=VALUE", typed, typed);
    do TRY(options_set(c->o, option, *c->word++, source));
    while (kind == KIND_LIST && value_follows(c));
    return OK;
}

static Status parse_dialect(Cursor *c, const Dialect *row, const char *typed, const char *inlined)
{
    OptionSource source = { SOURCE_COMMAND_LINE, typed, "", "" };
    switch (row->verb) {
    case DIALECT_ALIAS:  return parse_value(c, row->option, typed, inlined);
    case DIALECT_MEANS:  return parse_meaning(c->o, row, inlined, source);
    case DIALECT_REFUSE: return refuse(row, typed);
    case DIALECT_PASSED: break;
    }
    for (int i = inlined != NULL; i < row->values; i++) {
        if (!value_follows(c)) return fail(BAD_USAGE, "%s of %s wants a value", typed, row->whose);
        c->word++;
    }
    pass_over(row, typed);
    return OK;
}

static Status parse_unknown(const Options *o, const char *typed)
{
    const char *nearest = option_nearest(typed + 2, o->command);
    if (nearest)
        return fail(BAD_USAGE, "%s is no option of jotun %s; did you mean --%s?", typed,
                    command_name(o->command), nearest);
    return fail(BAD_USAGE, "%s is no option of jotun %s; its --help lists them", typed,
                command_name(o->command));
}

static Status parse_option(Cursor *c, const char *word)
{
    const char *equals = strchr(word, '='), *inlined = equals ? equals + 1 : NULL;
    char typed[WORD_LETTERS];
    if (snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word) >= WORD_LETTERS)
        return fail(BAD_USAGE, "%s... is no option", typed);
    int option = option_find(typed + 2);
    const Dialect *foreign = option < 0 ? dialect_find(typed + 2) : NULL;
    if (foreign && foreign->option >= 0) option = foreign->option;
    if (option < 0 && !foreign) return parse_unknown(c->o, typed);
    if (option >= 0 && !option_taken(option, c->o->command))
        return fail(BAD_USAGE, "%s is no option of jotun %s but of %s", typed, command_name(c->o->command),
                    command_names((char[256]){ 0 }, 256, option_rows[option].commands, "jotun ", " and "));
    return foreign ? parse_dialect(c, foreign, typed, inlined) : parse_value(c, option, typed, inlined);
}

static Status parse_word(Cursor *c, const char *word)
{
    if (word[0] == '-' && word[1] && !c->ended)
        return fail(BAD_USAGE, "%s is no option; options begin with --", word);
    if (!(c->o->command & (FOR_DATA_INFO | FOR_DATA_CAT | FOR_MERGE | FOR_CHECKPOINT)))
        return fail(BAD_USAGE, "%s stands alone: jotun %s takes no word without an option's name before it",
                    word, command_name(c->o->command));
    options_add_word(c->o, word);
    return OK;
}

static Status parse_command_line(Options *o, int argc, char **argv)
{
    Cursor c = { o, argv, argv + argc, false };
    while (c.word < c.end) {
        const char *word = *c.word++;
        if (!c.ended && !strcmp(word, "--")) c.ended = true;
        else if (!c.ended && is_option(word)) TRY(parse_option(&c, word));
        else TRY(parse_word(&c, word));
    }
    return OK;
}

static Status unknown_preset(const Options *o)
{
    char said[256], known[512] = "";
    size_t used = 0;
    for (int i = 0; i < preset_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", presets[i].name);
    options_typed(said, sizeof said, o, OPTION_model);
    return fail(BAD_OPTION, "%s is not known; these are: %s", said, known);
}

static Status parse_preset(Options *o)
{
    if (!o->model || !(o->command & FOR_CONFIG)) return OK;         /* langid's model is a file */
    const Preset *preset = preset_find(o->model);
    if (!preset) return unknown_preset(o);
    char words[1024], *rest;
    CHECK(strlen(preset->words) < sizeof words, "preset %s is longer than %zu letters", preset->name,
          sizeof words);
    memcpy(words, preset->words, strlen(preset->words) + 1);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int option = option_find(word + 2);
        CHECK(option >= 0, "preset %s names %s, which is no option", preset->name, word);
        const char *value = option_rows[option].kind == KIND_FLAG ? "true" : strtok_r(NULL, " ", &rest);
        TRY(options_set(o, option, value, (OptionSource){ SOURCE_PRESET, word, value, preset->name }));
    }
    return OK;
}

static Status parse_all(Options *o, int argc, char **argv)
{
    TRY(parse_defaults(o));
    TRY(parse_environment(o));
    TRY(parse_command_line(o, argc, argv));
    return parse_preset(o);
}

Status options_parse(Options *o, int command, int argc, char **argv)
{
    *o = (Options){ .command = command };
    Status status = parse_all(o, argc, argv);
    if (status != OK) options_close(o);
    return status;
}

Status options_expect(const Options *o, int count, const char *what)
{
    if (o->words.count == count) return OK;
    return fail(BAD_USAGE, "jotun %s wants %s, and %d %s given", command_name(o->command), what,
                o->words.count, o->words.count == 1 ? "word was" : "words were");
}
