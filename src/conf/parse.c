/* From words to values: defaults, the environment, the command line, files of --config, variables of
 * Argonne's script, a preset, DeepSpeed's JSON. They are read in this order, and options_set decides by the
 * source whether a value replaces the one before it. */
#include "base/log.h"
#include "conf/conf.h"
#include "conf/config_file.h"
#include "compat/alcf/agpt.h"
#include "compat/fairseq/fairseq.h"
#include "compat/import.h"
#include "conf/value.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;
#define ENVIRONMENT_PREFIX "JOTUN_"
#define DIALECT_VARIABLE   ENVIRONMENT_PREFIX "DIALECT"
enum { CHOICE_LETTERS = 128 };                                  /* fits "--" or JOTUN_ and a name */

/* The words that are still to be read. options_ended: "--" was read, so all that follows is positional.
 * kind, from: of the source of their values. */
typedef struct {
    Options *o; char **word, **end; bool options_ended; SourceKind kind; const char *from;
} CommandLine;

/* Also gives each option its name for messages, and a copy of it, since callers may print it after a parse
 * failed. */
static Status parse_defaults(Options *o)
{
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char name[CHOICE_LETTERS];
        snprintf(name, sizeof name, "--%s", row->name);
        o->source[i] = (OptionSource){ SOURCE_NOTHING, options_hold(o, name), "", "", CONVERT_NONE };
        const char *text = row->kind == KIND_FLAG ? "false" : row->text;
        if (*text) TRY(options_set(o, i, text, (OptionSource){ SOURCE_DEFAULT, name, "", "", CONVERT_NONE }));
    }
    return OK;
}

/* ---- other trainers' names ---- */

/* Both commands for language models of fairseq read the same rows. */
static const char *whose(const Options *o, const Dialect *row)
{
    return row->whose == DIALECT_FAIRSEQ_LINE_INDEX ? fairseq_command(o) : dialect_names[row->whose].name;
}

static bool is_false(const char *value)
{
    return value && (!strcmp(value, "0") || !strcasecmp(value, "false"));
}

/* What a flag of theirs means when it is off is not guessed. */
static Status dialect_flag(Options *o, const Dialect *row, const char *value, OptionSource source)
{
    if (!value || !strcmp(value, "1") || !strcasecmp(value, "true"))
        return options_set(o, row->option, row->text, source);
    return fail(BAD_OPTION, "%s=%s of %s is refused: leave it out, or give --%s", source.name, value,
                whose(o, row), option_rows[row->option].name);
}

/* What is not taken as it was given: a line in the log, or in a list that somebody asked for. */
static void note(Options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(Options *o, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (o->notes) text_list_add(o->notes, options_hold(o, line));
    else          log_line("%s", line);
}

/* The next word of a list in the environment by the rules of a shell, from *p on: blanks separate, quotes and
 * a backslash keep letters, and nothing is expanded. Returns false where a quote is not closed. */
static bool variable_word(char *out, const char **p)
{
    char quote = 0;
    for (; **p && (quote || !isspace((unsigned char)**p)); ++*p) {
        bool escapes = **p == '\\' && (*p)[1] && (!quote || (quote == '"' && strchr("\"\\$`", (*p)[1])));
        if (escapes) *out++ = *++*p;
        else if (quote ? **p == quote : **p == '"' || **p == '\'') quote = quote ? 0 : **p;
        else *out++ = **p;
    }
    *out = 0;
    return !quote;
}

/* A variable holds all words of a list, which on the command line the shell has split. */
static Status set_value(Options *o, OptionIndex option, const char *value, OptionSource source)
{
    if (option_rows[option].kind != KIND_LIST || source.kind != SOURCE_ENVIRONMENT)
        return options_set(o, option, value, source);
    char *word = malloc(strlen(value) + 1);
    CHECK(word, "no memory for %zu bytes of %s", strlen(value) + 1, source.name);
    Status status = OK;
    int    words  = 0;
    for (const char *p = value; status == OK; words++) {
        while (isspace((unsigned char)*p)) p++;
        if (!*p) break;
        status = variable_word(word, &p) ? options_set(o, option, word, source)
               : fail(BAD_OPTION, "%s=%s: a quote is not closed; close it, or write a backslash before a "
                      "quote that is a letter", source.name, value);
    }
    free(word);
    if (status == OK && !words)
        return fail(BAD_OPTION, "%s is empty; give it a value or unset it", source.name);
    return status;
}

Status dialect_apply(Options *o, const Dialect *row, const char *value, OptionSource source)
{
    source.convert = row->convert;
    switch (row->verb) {
    case VERB_ALIAS:   return set_value(o, row->option, value, source);
    case VERB_OPTIONAL:
        if (value && *value && strcmp(value, "1") != 0 && strcasecmp(value, "true") != 0)
            return set_value(o, row->option, value, source);
        note(o, "%s of %s is ignored: %s", source.name, whose(o, row), row->text);
        break;
    case VERB_WITH:
        TRY(set_value(o, row->option, value, source));
        return options_set(o, (OptionIndex)row->values, row->text, source);
    case VERB_MEANS:
        if (*row->given) return options_set(o, row->option, row->text, source);
        return dialect_flag(o, row, value, source);
    case VERB_REFUSE:
    case VERB_REFUSE_FLAG:
        if (row->verb == VERB_REFUSE_FLAG && is_false(value)) return OK;         /* it asks for nothing */
        bool variable = value && !*dialect_names[row->whose].prefix;
        return fail(BAD_OPTION, "%s%s%.200s of %s is refused: %s; %s", source.name, variable ? "=" : "",
                    variable ? value : "", whose(o, row), row->text, row->cure);
    case VERB_IGNORED:
        if (!strcmp(row->name, "accumulate-allreduce-grads-in-fp32")) o->sums_fp32 = true;
        if (!strcmp(row->name, "no-position-embedding")) o->no_positions = true;
        note(o, "%s of %s is ignored: %s", source.name, whose(o, row), row->text);
        break;
    case VERB_PART:
    case VERB_SUGGEST:
    case VERB_MISSING: break;
    }
    return OK;
}

/* ---- the environment ---- */

/* JOTUN_NUM_LAYERS for num-layers */
static void environment_name(char *out, size_t size, const char *prefix, const char *option)
{
    const char *part[] = { prefix, option };
    size_t used = 0;
    for (int p = 0; p < 2; p++)
        for (const char *c = part[p]; *c && used < size - 1; c++)
            out[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    out[used] = 0;
}

/* An option of some command, a name of another trainer, or one of the few variables that are no options. */
static bool variable_known(const char *typed, const char *name)
{
    static const char *const others[] = { DIALECT_VARIABLE, "JOTUN_FAULT",       /* then of the tests */
                                          "JOTUN_FULL", "JOTUN_SANITIZE", "JOTUN_SHARED" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!strcmp(typed, others[i])) return true;
    return option_find(name, FOR_ANY) >= 0 || dialect_find(command_dialects(FOR_TRAIN), name, NULL);
}

/* Names the variables that begin like options and are none. */
static void environment_typos(const Options *o)
{
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX))) continue;
        char typed[CHOICE_LETTERS] = "", name[CHOICE_LETTERS], meant[CHOICE_LETTERS];
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(*variable, "="), *variable);
        snprintf(name, sizeof name, "%s", typed + strlen(ENVIRONMENT_PREFIX));
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
        if (variable_known(typed, name)) continue;
        const char *nearest = option_nearest(name, o->command, o->dialects);
        environment_name(meant, sizeof meant, ENVIRONMENT_PREFIX, nearest ? nearest : "");
        if (nearest) log_line("%s is no option and is not read; did you mean %s?", typed, meant);
        else         log_line("%s is no option and is not read", typed);
    }
}

static OptionSource environment_source(const char *name, const char *value)
{
    return (OptionSource){ SOURCE_ENVIRONMENT, name, value, "", CONVERT_NONE };
}

/* A variable is there for all commands, so one that this command does not take is no error. */
static Status environment_option(Options *o, OptionIndex option, const char *called)
{
    char name[CHOICE_LETTERS];
    if (!*called || !option_taken(option, o->command)) return OK;
    environment_name(name, sizeof name, ENVIRONMENT_PREFIX, called);
    const char *value = getenv(name);
    return value ? set_value(o, option, value, environment_source(name, value)) : OK;
}

static Status environment_dialect(Options *o, const Dialect *row, const char *called)
{
    char name[CHOICE_LETTERS];
    if (!(o->dialects & 1u << row->whose)) return OK;
    environment_name(name, sizeof name, dialect_names[row->whose].prefix, called);
    const char *value = getenv(name);
    if (!value || !dialect_taken(row, o->command) ||
        dialect_find(o->dialects & 1u << row->whose, called, value) != row)
        return OK;
    return dialect_apply(o, row, value, environment_source(name, value));
}

/* Of a row with several names each; names that end in a star are not looked for. */
static Status environment_names(Options *o, const Dialect *row)
{
    char name[CHOICE_LETTERS];
    if (!dialect_has_names(row)) return environment_dialect(o, row, row->name);
    if (dialect_only_hints(row)) return OK;
    for (const char *a = row->name; *a; a += strcspn(a, " "), a += *a == ' ') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(a, " "), a);
        if (!strchr(name, '*')) TRY(environment_dialect(o, row, name));
    }
    return OK;
}

/* Dialects come first: a name of our own that is set as well replaces theirs, with a line. */
static Status parse_environment(Options *o)
{
    for (int i = 0; i < dialect_count; i++) TRY(environment_names(o, &dialects[i]));
    for (int i = 0; i < OPTIONS; i++) {
        TRY(environment_option(o, i, option_short(i)));
        TRY(environment_option(o, i, option_rows[i].name));
    }
    environment_typos(o);
    return OK;
}

/* ---- the command line ---- */

/* A value may begin with one dash: -1. */
static bool is_option(const char *word) { return word[0] == '-' && word[1] == '-'; }

static bool value_follows(const CommandLine *c) { return c->word < c->end && !is_option(*c->word); }

static Status value_missing(const char *typed)
{
    return fail(BAD_USAGE, "%s needs a value; if that begins with --, write %s=VALUE", typed, typed);
}

/* All that follows a script is its own, whatever it looks like. */
static bool takes_all_words(const CommandLine *c, OptionIndex option)
{
    return option == OPTION_from_megatron && c->word < c->end;
}

/* inlined: what follows = in the same word, or NULL */
static Status parse_value(CommandLine *c, OptionIndex option, OptionSource source, const char *after_equals)
{
    OptionKind kind = option_rows[option].kind;
    if (after_equals) return options_set(c->o, option, after_equals, source);
    if (kind == KIND_FLAG) return options_set(c->o, option, "true", source);
    if (!value_follows(c)) return value_missing(source.name);
    do TRY(options_set(c->o, option, *c->word++, source));
    while (kind == KIND_LIST && (value_follows(c) || takes_all_words(c, option)));
    return OK;
}

static Status parse_dialect(CommandLine *c, const Dialect *row, OptionSource source, const char *after_equals)
{
    const char *value = after_equals;
    source.convert = row->convert;
    if (row->verb == VERB_ALIAS) return parse_value(c, row->option, source, after_equals);
    if (row->verb == VERB_WITH) {
        if (!after_equals && !value_follows(c)) return value_missing(source.name);
        return dialect_apply(c->o, row, after_equals ? after_equals : *c->word++, source);
    }
    if (row->verb == VERB_OPTIONAL && !after_equals && value_follows(c)) value = *c->word++;
    while (row->values < 0 && !after_equals && value_follows(c)) c->word++;
    for (int i = after_equals != NULL; i < row->values; i++) {
        if (!value_follows(c))
            return fail(BAD_USAGE, "%s of %s needs a value", source.name, whose(c->o, row));
        value = *c->word++;
    }
    return dialect_apply(c->o, row, value, source);
}

/* A name that this command does not take: of another command, of another trainer, or mistyped. foreign:
 * its row in a dialect, of an option that this command does not take; or NULL */
static Status parse_unknown(const Options *o, const char *typed, const Dialect *foreign)
{
    const char *name = typed + 2, *command = command_name(o->command), *nearest;
    bool ours = foreign && foreign->option >= 0;
    CommandSet takers = ours ? option_rows[foreign->option].commands : option_takers(name);
    const Dialect *suggestion = ours ? NULL : dialect_suggestion(o->dialects, name);
    if (takers && (!suggestion || strchr(suggestion->name, '*')))
        return fail(BAD_USAGE, "%s is no option of jotun %s but of %s", typed, command,
                    command_names((char[256]){ 0 }, 256, takers, "jotun ", " and "));
    if (suggestion && suggestion->verb == VERB_MISSING)
        return fail(BAD_USAGE, "%s is a name of %s and no option of jotun %s: %s; %s", typed,
                    whose(o, suggestion), command, suggestion->text, suggestion->cure);
    if (suggestion)
        return fail(BAD_USAGE, "%s is a name of %s and no option of jotun %s; here it is %s", typed,
                    whose(o, suggestion), command, suggestion->text);
    int flag = !strncmp(name, "no-", 3) ? option_find(name + 3, o->command) : -1;
    if (flag >= 0 && option_rows[flag].kind == KIND_FLAG)
        return fail(BAD_USAGE, "%s is no option of jotun %s; --%s is off unless it is given, or --%s=false",
                    typed, command, option_rows[flag].name, option_rows[flag].name);
    if ((nearest = option_nearest(name, o->command, o->dialects)))
        return fail(BAD_USAGE, "%s is no option of jotun %s; did you mean --%s?", typed, command, nearest);
    return fail(BAD_USAGE, "%s is no option of jotun %s; its --help lists them", typed, command);
}

/* Namespaces without a prefix have environment variables alone. */
static unsigned command_line_dialects(const Options *o)
{
    unsigned dialects_typed = o->dialects;
    for (int d = 0; d < DIALECTS; d++)
        if (!*dialect_names[d].prefix) dialects_typed &= ~(1u << d);
    return dialects_typed;
}

/* Our own names come first, so that no dialect can change what one of them means. */
static Status parse_option(CommandLine *c, const char *word)
{
    const char *equals = strchr(word, '='), *after_equals = equals ? equals + 1 : NULL;
    char typed[CHOICE_LETTERS];
    if (snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word) >= CHOICE_LETTERS)
        return fail(BAD_USAGE, "%s... is no option", typed);
    OptionSource source = { c->kind, typed, "", c->from, CONVERT_NONE };
    int option = option_find(typed + 2, c->o->command);
    if (option >= 0) return parse_value(c, option, source, after_equals);
    const char *value = after_equals ? after_equals : value_follows(c) ? *c->word : NULL;
    const Dialect *foreign = dialect_find(command_line_dialects(c->o), typed + 2, value);
    if (foreign && dialect_taken(foreign, c->o->command))
        return parse_dialect(c, foreign, source, after_equals);
    return parse_unknown(c->o, typed, foreign);
}

/* A positional argument. before: the word before it, or NULL */
static Status parse_word(CommandLine *c, const char *before, const char *word)
{
    if (word[0] == '-' && word[1] && !c->options_ended)
        return fail(BAD_USAGE, "%s is no option; options begin with --", word);
    int option = before && is_option(before) ? option_find(before + 2, c->o->command) : -1;
    if (option >= 0 && option_rows[option].kind == KIND_FLAG && !command_takes_words(c->o->command))
        return fail(BAD_USAGE, "%s takes no value: leave %s out, or write %s=true or %s=false", before, word,
                    before, before);
    if (!command_takes_words(c->o->command))
        return fail(BAD_USAGE, "%s: jotun %s takes no positional argument; give an option's name before it",
                    word, command_name(c->o->command));
    options_add_word(c->o, word);
    return OK;
}

Status options_words(Options *o, SourceKind kind, const char *from, int argc, char **argv)
{
    CommandLine c = { o, argv, argv + argc, false, kind, from };
    while (c.word < c.end) {
        const char *before = c.word > argv ? c.word[-1] : NULL, *word = *c.word++;
        if (!c.options_ended && !strcmp(word, "--")) c.options_ended = true;
        else if (!c.options_ended && is_option(word)) TRY(parse_option(&c, word));
        else TRY(parse_word(&c, before, word));
    }
    return OK;
}

/* Names that begin as the unknown one does, or are a few letters from it; a message has no room for all. */
static Status unknown_preset(const Options *o)
{
    enum { MEANT = 6 };
    char said[256], typed[64], meant[256] = "";
    int  count = 0, letters = snprintf(typed, sizeof typed, "%s", o->model);
    for (char *c = typed; *c; c++) *c = (char)tolower((unsigned char)*c);
    for (int i = 0; i < preset_count && count < MEANT && letters < (int)sizeof typed; i++) {
        const char *name  = presets[i].name;
        bool        begin = letters > 2 && !strncmp(name, typed, (size_t)letters);
        if (!begin && word_distance(name, typed) > letters / 4) continue;
        size_t used = strlen(meant);
        snprintf(meant + used, sizeof meant - used, "%s%s", count++ ? ", " : "", name);
    }
    options_typed(said, sizeof said, o, OPTION_model);
    if (!count)
        return fail(BAD_OPTION, "%s is not known; give a model that jotun train --help lists, such as %s",
                    said, presets[0].name);
    return fail(BAD_OPTION, "%s is not known; did you mean %s? jotun train --help lists all", said, meant);
}

/* A preset's values are weaker than all that was parsed before it, which is why it can come last. */
static Status parse_preset(Options *o)
{
    if (!o->model) return OK;
    const Preset *preset = preset_find(o->model);
    if (!preset) return unknown_preset(o);
    char words[1024], from[128], *rest;
    snprintf(from, sizeof from, "--model %s", preset->name);
    CHECK(strlen(preset->words) < sizeof words, "preset %s is longer than %zu letters", preset->name,
          sizeof words);
    memcpy(words, preset->words, strlen(preset->words) + 1);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int option = option_find(word + 2, FOR_CONFIG);
        CHECK(option >= 0, "preset %s names %s, which is no option", preset->name, word);
        const char *value = option_rows[option].kind == KIND_FLAG ? "true" : strtok_r(NULL, " ", &rest);
        OptionSource source = { SOURCE_PRESET, word, value, from, CONVERT_NONE };
        TRY(options_set(o, option, value, source));
    }
    return OK;
}

static Status parse_all(Options *o, ConfigTexts texts, bool fairseq, int argc, char **argv)
{
    TRY(parse_defaults(o));
    TRY(parse_environment(o));
    TRY(fairseq ? import_fairseq(o, argc, argv) : options_words(o, SOURCE_COMMAND_LINE, "", argc, argv));
    TRY(config_files_read(o, &texts));
    if (o->agpt_variables && !texts.none) TRY(import_agpt(o, texts.agpt_found));
    TRY(parse_preset(o));
    return deepspeed_config_read(o, &texts);    /* last, since "auto" has the value of all other sources */
}

static Status parse_command(Options *o, CommandSet command, unsigned understood, ConfigTexts texts, int argc,
                            char **argv)
{
    bool fairseq = command & WORDS_OF_FAIRSEQ;
    *o = (Options){ .command = command & ~WORDS_OF_FAIRSEQ,
                    .dialects = fairseq ? DIALECT_FAIRSEQ_LINE : understood };
    Status status = parse_all(o, texts, fairseq, argc, argv);
    if (status != OK) options_close(o);
    return status;
}

Status options_parse_dialects(Options *o, CommandSet command, unsigned understood, int argc, char **argv)
{
    return parse_command(o, command, understood, (ConfigTexts){ 0 }, argc, argv);
}

/* JOTUN_DIALECT=argonne: the namespace without a prefix whose variables are read as well. Short names such as
 * TP may be set for something else, so that somebody has to ask for them. */
static Status environment_namespace(unsigned *understood, CommandSet command)
{
    const char *name = command & FOR_CONFIG ? getenv(DIALECT_VARIABLE) : NULL;
    if (!name) return OK;
    for (int d = 0; d < DIALECTS; d++)
        if (!*dialect_names[d].prefix && !strcasecmp(dialect_names[d].key, name)) {
            *understood |= 1u << d;
            return OK;
        }
    return fail(BAD_OPTION, DIALECT_VARIABLE "=%s is not known; the known one is argonne", name);
}

Status options_parse_configs(Options *o, CommandSet command, ConfigTexts texts, int argc, char **argv)
{
    unsigned understood = command_dialects(command);
    *o = (Options){ 0 };                                   /* options_close is called after a failure too */
    TRY(environment_namespace(&understood, command));
    return parse_command(o, command, understood, texts, argc, argv);
}

Status options_parse(Options *o, CommandSet command, int argc, char **argv)
{
    return options_parse_configs(o, command, (ConfigTexts){ 0 }, argc, argv);
}

Status options_expect(const Options *o, int count, const char *what)
{
    if (o->words.count == count) return OK;
    if (!o->words.count) return fail(BAD_USAGE, "jotun %s needs %s", command_name(o->command), what);
    return fail(BAD_USAGE, "jotun %s needs %s, and %d %s given", command_name(o->command), what,
                o->words.count, o->words.count == 1 ? "word was" : "words were");
}
