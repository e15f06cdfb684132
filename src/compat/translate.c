/* Names of other programs become words of jotun, row by row of dialects.def. A word keeps the name that was
 * typed, so that messages have that. */
#include "compat/translate.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The variable that names a namespace without a prefix, whose variables are read as well. Short names such
 * as TP may be set for something else, so that somebody has to ask for them. */
#define DIALECT_VARIABLE "JOTUN_DIALECT"

/* ---- one row ---- */

static OptionWord *refuse(OptionWords *out, const OptionWord *w, Status status, const char *why)
{
    OptionWord *word = words_push(out, NULL, w->source);
    word->shared  = w->shared;
    word->refusal = why;
    word->status  = status;
    return word;
}

static void note(OptionWords *out, const OptionWord *w, const char *why)
{
    words_push(out, NULL, w->source)->note = why;
}

/* An option with one value. */
static void give(OptionWords *out, const OptionWord *w, int option, const char *value)
{
    OptionWord *word = words_push(out, option_rows[option].name, w->source);
    word->whole = true, word->shared = w->shared;
    words_value(out, word, value);
}

/* Another name: the option takes the values as they are. */
static void give_all(OptionWords *out, const OptionWord *w, const Dialect *row)
{
    OptionWord renamed = *w;
    renamed.name           = option_rows[row->option].name;
    renamed.source.convert = row->convert;
    words_append(out, &renamed);
}

/* What is behind the values that a name takes is positional. */
static void leave_rest(OptionWords *out, const OptionWord *w, int taken)
{
    if (w->whole || taken >= w->values) return;
    OptionWord *rest = words_push(out, NULL, w->source);
    while (taken < w->values) words_value(out, rest, w->value[taken++]);
}

static bool is_true(const char *value) { return !strcmp(value, "1") || !strcasecmp(value, "true"); }
static bool is_false(const char *value) { return !strcmp(value, "0") || !strcasecmp(value, "false"); }

/* What a flag of theirs means when it is off is not guessed. */
static void give_flag(OptionWords *out, const Dialect *row, const OptionWord *w, CommandSet command)
{
    const char *value = w->whole && w->values ? w->value[0] : NULL;
    OptionWord  bare  = *w;
    bare.source.bare  = !value;
    if (!value || is_true(value)) give(out, &bare, row->option, row->text);
    else
        refuse(out, w, BAD_OPTION, words_format(out, "%s=%s of %s is refused: leave it out, or give --%s",
                                                w->source.name, value, dialect_owner(row, command),
                                                option_rows[row->option].name));
    leave_rest(out, w, 0);
}

static void ignore(OptionWords *out, const Dialect *row, const OptionWord *w, CommandSet command)
{
    const OptionDemand *demand = dialect_demand(row);
    const char         *owner  = dialect_owner(row, command);
    int takes = *row->given ? w->values > 0 : row->values < 0 ? w->values : row->values;
    if (!w->whole && w->values < takes) {
        refuse(out, w, BAD_USAGE, words_format(out, "%s of %s needs a value", w->source.name, owner));
        return;
    }
    note(out, w, words_format(out, "%s of %s is ignored: %s", w->source.name, owner, row->text));
    if (demand) words_demand(out, *demand);
    leave_rest(out, w, takes);
}

/* A flag that is off asks for nothing. */
static void refuse_row(OptionWords *out, const Dialect *row, const OptionWord *w, CommandSet command)
{
    const char *value = w->whole && w->values ? w->value[0] : NULL;
    bool variable = value && !*dialect_names[row->whose].prefix;
    if (row->values == 0 && value && is_false(value)) return;
    refuse(out, w, BAD_OPTION, words_format(out, "%s%s%.200s of %s is refused: %s; %s", w->source.name,
                                            variable ? "=" : "", variable ? value : "",
                                            dialect_owner(row, command), row->text, row->cure));
}

void translate_row(OptionWords *out, const Dialect *row, const OptionWord *w, CommandSet command)
{
    const char *value = w->values ? w->value[0] : NULL;
    if (w->list && w->values != 1 && row->option >= 0 && row->verb != VERB_SAME) {
        refuse(out, w, BAD_OPTION, words_format(out, "%s takes one value, and a list of %d was given",
                                                w->source.name, w->values));
        return;
    }
    switch (row->verb) {
    case VERB_SAME: give_all(out, w, row); break;
    case VERB_WITH:
        if (!value) {
            give_all(out, w, row);                             /* which needs a value */
            break;
        }
        give(out, w, row->option, value);
        give(out, w, row->values, row->text);
        leave_rest(out, w, 1);
        break;
    case VERB_MEANS:
        if (!*row->given) {
            give_flag(out, row, w, command);
            break;
        }
        give(out, w, row->option, row->text);
        leave_rest(out, w, 1);
        break;
    case VERB_IGNORED:     ignore(out, row, w, command); break;
    case VERB_REFUSE:      refuse_row(out, row, w, command); break;
    case VERB_HELD:
    case VERB_SUGGEST:
    case VERB_MISSING:     break;
    }
}

Status translate_name(Options *o, const Dialect *row, const char *value, OptionSource source, TextList *notes)
{
    OptionWords words = { 0 };
    OptionWord  word  = { .name = row->name, .whole = true, .source = source };
    if (value) word.value = &value, word.values = 1;
    translate_row(&words, row, &word, o->command);
    Status status = options_take(o, &words, notes);
    words_close(&words);
    return status;
}

/* ---- all words ---- */

/* Namespaces without a prefix have environment variables only. */
static unsigned with_prefix(unsigned understood)
{
    for (int d = 0; d < DIALECTS; d++)
        if (!*dialect_names[d].prefix) understood &= ~(1u << d);
    return understood;
}

/* A name of another program that jotun has nothing for, but a hint. */
static bool refuse_hinted(OptionWords *out, const OptionWord *w, CommandSet command, unsigned understood)
{
    const Dialect *hint = dialect_suggestion(understood, w->name);
    const char    *name = command_name(command), *typed = w->source.name;
    if (!hint || w->source.kind == SOURCE_ENVIRONMENT) return false;
    if (option_takers(w->name) && (w->shared || strchr(hint->name, '*'))) return false;
    const char *owner = dialect_owner(hint, command);
    refuse(out, w, BAD_USAGE,
           hint->verb == VERB_MISSING
               ? words_format(out, "%s is a name of %s and no option of jotun %s: %s; %s", typed, owner, name,
                              hint->text, hint->cure)
               : words_format(out, "%s is a name of %s and no option of jotun %s; here it is %s", typed,
                              owner, name, hint->text));
    return true;
}

/* A name without a value may be a flag that is true. In a variable's name a - is a _. */
static const Dialect *row_of(const OptionWord *w, unsigned understood)
{
    char name[128];
    const char *value = w->values && *w->value[0] ? w->value[0] : "true";
    const Dialect *row = dialect_find(understood, w->name, value);
    if (row || w->source.kind != SOURCE_ENVIRONMENT) return row;
    snprintf(name, sizeof name, "%s", w->name);
    for (char *c = name; *c; c++)
        if (*c == '-') *c = '_';
    return dialect_find(understood, name, value);
}

static void pass_over(OptionWords *out, const OptionWord *w, CommandSet takers)
{
    OptionWord *word = words_push(out, NULL, w->source);
    word->shared = true;
    word->takers = takers;
}

/* Values that an option had under another word. */
static void translate_own(OptionWords *out, const OptionWord *w, OptionIndex option, CommandSet command)
{
    const char    *value = w->values ? w->value[0] : NULL;
    const Dialect *row   = value ? dialect_find(DIALECT_JOTUN, option_rows[option].name, value) : NULL;
    if (row && *row->given) translate_row(out, row, w, command);
    else                    words_append(out, w);
}

static void translate(OptionWords *out, const OptionWord *w, CommandSet command, unsigned understood)
{
    int  option = w->name ? option_find(w->name, command) : -1;
    bool file = w->shared && w->source.kind == SOURCE_CONFIG_FILE;
    if (!w->name || w->refusal) {
        words_append(out, w);
        return;
    }
    if (option >= 0) {
        translate_own(out, w, (OptionIndex)option, command);
        return;
    }
    const Dialect *row  = file && option_takers(w->name) ? NULL : row_of(w, understood);
    bool           star = row && w->source.kind == SOURCE_ENVIRONMENT && strchr(row->name, '*');
    if (row && dialect_taken(row, command) && !star) {
        translate_row(out, row, w, command);
        return;
    }
    CommandSet takers = row && row->option >= 0 ? option_rows[row->option].commands & FOR_ANY : FOR_TRAIN;
    if (row && w->shared) {
        pass_over(out, w, takers);
        return;
    }
    if (!(row && row->option >= 0) && refuse_hinted(out, w, command, understood)) return;
    OptionWord *word = words_append(out, w);
    if (row && row->option >= 0) word->takers = takers;
    char nearest[128];
    if (dialect_nearest(nearest, sizeof nearest, understood, w->name, command))
        word->nearest = words_hold(out, nearest);
}

/* ---- variables without a prefix ---- */

static void add_variables(OptionWords *out, const Dialect *row, CommandSet command)
{
    const char *names = row->name;
    for (char name[128]; name_next(name, sizeof name, &names);) {
        const char *value = getenv(name);
        if (!value || !dialect_taken(row, command)) continue;
        if (dialect_find(1u << row->whose, name, value) != row) continue;
        OptionWord word = { .name = name, .value = &value, .values = 1, .whole = true,
                            .source = { .kind = SOURCE_ENVIRONMENT, .name = name, .value = "", .from = "" } };
        translate_row(out, row, &word, command);
    }
}

/* JOTUN_DIALECT=argonne */
static void add_namespace(OptionWords *out, const OptionWord *w, CommandSet command)
{
    const char *name = w->values ? w->value[0] : "";
    for (int d = 0; d < DIALECTS; d++) {
        if (*dialect_names[d].prefix || strcasecmp(dialect_names[d].key, name)) continue;
        for (int i = 0; i < dialect_count; i++)
            if ((int)dialects[i].whose == d && !dialect_only_hints(&dialects[i]))
                add_variables(out, &dialects[i], command);
        return;
    }
    const char *why = words_format(out, DIALECT_VARIABLE "=%s is not known; the known one is argonne", name);
    refuse(out, w, BAD_OPTION, why)->shared = false;
}

void translate_words(OptionWords *out, const OptionWords *in, CommandSet command, unsigned understood)
{
    for (int i = 0; i < in->count; i++) {
        const OptionWord *w = &in->word[i];
        if (strcmp(w->source.name, DIALECT_VARIABLE)) translate(out, w, command, with_prefix(understood));
        else if (command & FOR_CONFIG)                add_namespace(out, w, command);
    }
}
