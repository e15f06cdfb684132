/* From words to values: defaults, words of all sources, a preset. options_set decides by the source whether a
 * value replaces the one before it. */
#include "base/log.h"
#include "conf/value.h"
#include "conf/words.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"

enum { NAME_LETTERS = 128 };                                  /* fits "--" or JOTUN_ and a name */

/* Also gives each option its name for messages, and a copy of it, since callers may print it after a parse
 * failed. */
Status options_begin(Options *o, CommandSet command)
{
    *o = (Options){ .command = command };
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char name[NAME_LETTERS];
        snprintf(name, sizeof name, "--%s", row->name);
        o->source[i] = (OptionSource){ SOURCE_NOTHING, options_hold(o, name), "", "", CONVERT_NONE, false };
        const char *text = row->kind == KIND_FLAG ? "false" : row->text;
        if (*text) TRY(options_set(o, i, text, option_source(SOURCE_DEFAULT, name, "", "")));
    }
    return OK;
}

/* ---- one word ---- */

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

static Status value_missing(const char *typed)
{
    return fail(BAD_USAGE, "%s needs a value; if that begins with --, write %s=VALUE", typed, typed);
}

/* Words that no option takes. before: the option before them, or NULL; or after which one stands */
static Status add_positional(Options *o, const OptionWord *w, int from, const char *before)
{
    for (int i = from; i < w->values; i++) {
        const char *word = w->value[i];
        if (word[0] == '-' && word[1] && !w->ended)
            return fail(BAD_USAGE, "%s is no option; options begin with --", word);
        if (before && i == from && !command_takes_words(o->command))
            return fail(BAD_USAGE, "%s takes no value: leave %s out, or write %s=true or %s=false", before,
                        word, before, before);
        if (!command_takes_words(o->command))
            return fail(BAD_USAGE, "%s: jotun %s takes no positional argument; give an option's name before "
                        "it", word, command_name(o->command));
        options_add_word(o, word);
    }
    return OK;
}

/* All values are the option's. */
static Status take_whole(Options *o, const OptionWord *w, OptionIndex option)
{
    OptionKind kind = option_rows[option].kind;
    if (w->list && kind != KIND_LIST && w->values != 1)
        return fail(BAD_OPTION, "%s takes one value, and a list of %d was given", w->source.name, w->values);
    if (w->replaces && kind == KIND_LIST) ((TextList *)option_field(o, option))->count = 0;
    if (!w->values && kind == KIND_FLAG) return options_set(o, option, "true", w->source);
    for (int i = 0; i < w->values; i++)
        TRY(w->replaces ? options_set(o, option, w->value[i], w->source)
                        : set_value(o, option, w->value[i], w->source));
    return OK;
}

/* As many values as the option's kind needs. */
static Status take_option(Options *o, const OptionWord *w, OptionIndex option)
{
    OptionKind kind = option_rows[option].kind;
    int taken = 0;
    if (w->whole) return take_whole(o, w, option);
    if (kind == KIND_FLAG) TRY(options_set(o, option, "true", w->source));
    else if (!w->values) return value_missing(w->source.name);
    else do TRY(options_set(o, option, w->value[taken++], w->source));
    while (kind == KIND_LIST && taken < w->values);
    return add_positional(o, w, taken, kind == KIND_FLAG ? w->source.name : NULL);
}

/* A name that this command does not take: of another command, or mistyped. A word that was translated has the
 * name of an option of another command. */
static Status refuse_unknown(const Options *o, const OptionWord *w)
{
    const char *typed = w->source.name, *name = typed + 2, *command = command_name(o->command);
    CommandSet takers = w->takers ? w->takers : option_takers(w->name);
    if (takers)
        return fail(BAD_USAGE, "%s is no option of jotun %s but of %s", typed, command,
                    command_names((char[256]){ 0 }, 256, takers, "jotun ", " and "));
    int flag = !strncmp(name, "no-", 3) ? option_find(name + 3, o->command) : -1;
    if (flag >= 0 && option_rows[flag].kind == KIND_FLAG)
        return fail(BAD_USAGE, "%s is no option of jotun %s; --%s is off unless it is given, or --%s=false",
                    typed, command, option_rows[flag].name, option_rows[flag].name);
    const char *nearest = option_nearer(name, option_nearest(name, o->command), w->nearest);
    if (nearest)
        return fail(BAD_USAGE, "%s is no option of jotun %s; did you mean --%s?", typed, command, nearest);
    return fail(BAD_USAGE, "%s is no option of jotun %s; its --help lists them", typed, command);
}

/* The environment has variables for all programs, so that a mistyped name is no error. */
static void tell_unknown_variable(const Options *o, const OptionWord *w)
{
    char meant[NAME_LETTERS];
    const char *nearest = option_nearer(w->name, option_nearest(w->name, o->command), w->nearest);
    if (nearest)
        log_line("%s is no option and is not read; did you mean %s?", w->source.name,
                 environment_name(meant, sizeof meant, nearest));
    else log_line("%s is no option and is not read", w->source.name);
}

/* Whether the word is of another command, or of none but in the environment, and so is left out. */
static bool is_left_out(OptionWords *words, const Options *o, const OptionWord *w)
{
    CommandSet takers = w->takers || !w->name ? w->takers : option_takers(w->name);
    if (!w->shared || (w->name && option_find(w->name, o->command) >= 0)) return false;
    if (takers) words->left_out++, words->takers |= takers;
    else if (w->source.kind == SOURCE_ENVIRONMENT && !w->refusal) tell_unknown_variable(o, w);
    else return false;
    return true;
}

static Status take_word(OptionWords *words, Options *o, const OptionWord *w, TextList *notes)
{
    if (is_left_out(words, o, w)) return OK;
    if (w->refusal) return fail(w->status, "%s", w->refusal);
    if (w->note && notes) text_list_add(notes, options_hold(o, w->note));
    else if (w->note) log_line("%s", w->note);
    if (!w->name) return add_positional(o, w, 0, NULL);
    if (strlen(w->source.name) >= NAME_LETTERS - 1)
        return fail(BAD_USAGE, "%.127s... is no option", w->source.name);
    int option = option_find(w->name, o->command);
    return option < 0 ? refuse_unknown(o, w) : take_option(o, w, option);
}

/* ---- all words ---- */

/* Messages of several words as one: each has a line of its own while there is room, and then only its name.
 * */
typedef struct { Failure first; int count, more; char lines[1500], names[400]; } Faults;

static void add_fault(Faults *f, Status status, const OptionWord *w)
{
    if (w->shared && *w->source.from) fail_prefix(status, "%s: ", w->source.from);
    failure_keep(&f->first, status);
    f->count++;
    if (message_item(f->lines, sizeof f->lines, "\n  ", "%s", fail_text())) return;
    f->more++;
    message_item(f->names, sizeof f->names, ", ", "%s", w->source.name);
}

static Status conclude(const Faults *f)
{
    Status status = failure_report(&f->first);
    if (f->count < 2) return status;
    if (!f->more) return fail(status, "%d options cannot be taken:\n  %s", f->count, f->lines);
    return fail(status, "%d options cannot be taken:\n  %s\n  and %d more: %s", f->count, f->lines, f->more,
                f->names);
}

Status options_take(Options *o, OptionWords *words, TextList *notes)
{
    Faults faults = { 0 };
    for (int i = 0; i < words->count; i++) {
        const OptionWord *w = &words->word[i];
        Status status = take_word(words, o, w, notes);
        if (status != OK) add_fault(&faults, status, w);
    }
    for (int i = 0; i < words->demands; i++) options_demand(o, words->demand[i]);
    return conclude(&faults);
}

/* ---- the preset ---- */

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
        count += message_item(meant, sizeof meant, ", ", "%s", name);
    }
    options_typed(said, sizeof said, o, OPTION_model);
    if (!count)
        return fail(BAD_OPTION, "%s is not known; give a model that jotun train --help lists, such as %s",
                    said, presets[0].name);
    return fail(BAD_OPTION, "%s is not known; did you mean %s? jotun train --help lists all", said, meant);
}

/* A preset's values are weaker than all that was parsed before it, which is why it can come last. */
Status options_take_preset(Options *o)
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
        OptionSource source = option_source(SOURCE_PRESET, word, value, from);
        TRY(options_set(o, option, value, source));
    }
    return OK;
}

Status options_expect(const Options *o, int count, const char *what)
{
    if (o->words.count == count) return OK;
    if (!o->words.count) return fail(BAD_USAGE, "jotun %s needs %s", command_name(o->command), what);
    return fail(BAD_USAGE, "jotun %s needs %s, and %d %s given", command_name(o->command), what,
                o->words.count, o->words.count == 1 ? "word was" : "words were");
}
