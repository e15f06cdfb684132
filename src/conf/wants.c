/* Whether options have an effect, by the WANTS rows of options.def. A row holds no code: how it is read
 * follows from the kind of the option that is wanted. */
#include "conf/wants.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/message.h"
#include "conf/conf.h"
#include "conf/value.h"

/* Whether `text`, "linear or cosine", has the word. */
static bool has_word(const char *text, const char *word)
{
    for (size_t letters; *text; text += letters, text += strspn(text, " ,")) {
        letters = strcspn(text, " ,");
        if (strlen(word) == letters && !strncmp(text, word, letters)) return true;
    }
    return false;
}

/* A choice has one of the words, a flag is on, a number reaches the one that `value` begins with, anything
 * else is given; or nothing of the sort, where the other option must be absent. */
static bool is_met(const Options *o, const OptionWants *w)
{
    const void *field = option_field_of(o, w->other);
    if (w->kind == WANTS_ABSENT && option_rows[w->other].kind == KIND_FLAG)
        return !*(const OptionFLAG *)field;
    if (o->source[w->other].kind == SOURCE_NOTHING || w->kind == WANTS_ABSENT)
        return (w->kind == WANTS_ABSENT) == (o->source[w->other].kind == SOURCE_NOTHING);
    switch (option_rows[w->other].kind) {
    case KIND_FLAG:   return *(const OptionFLAG *)field;
    case KIND_CHOICE: return has_word(w->value, ((const OptionCHOICE *)field)->word);
    case KIND_INT:    return !isdigit((unsigned char)*w->value) ||
                             *(const OptionINT *)field >= strtoll(w->value, NULL, 10);
    case KIND_REAL:   if (!strncmp(w->value, "above ", 6))
                          return *(const OptionREAL *)field > strtod(w->value + 6, NULL);
                      return !isdigit((unsigned char)*w->value) ||
                             *(const OptionREAL *)field >= strtod(w->value, NULL);
    default:          return true;
    }
}

/* Rows of alternatives follow the row that they are alternatives to. */
static bool is_alternative(const OptionWants *w)
{
    return w < option_wants + option_wants_count && w->kind == WANTS_ALTERNATIVE;
}

const OptionWants *option_unmet(const Options *o, OptionIndex option)
{
    for (const OptionWants *w = option_wants, *end = w + option_wants_count; w < end; ) {
        const OptionWants *first = w;
        bool any = false;
        do any |= is_met(o, w++);
        while (is_alternative(w));
        bool holds = first->kind != WANTS_IN_TRAINING || o->command & FOR_CONFIG;
        if (first->option == option && holds && !any) return first;
    }
    return NULL;
}

bool option_counts(const Options *o, OptionIndex option)
{
    if (option == OPTION_positions) return o->position.value == CHOICE_position_learned_absolute;
    return !option_unmet(o, option);
}

const char *option_wants_text(char *out, size_t size, const OptionWants *unmet)
{
    const OptionWants *w = unmet;
    out[0] = 0;
    do message_item(out, size, " or ", "--%s%s%s", option_rows[w->other].name, *w->value ? " " : "",
                    w->value);
    while (is_alternative(++w));
    return out;
}

bool option_asked(const Options *o, OptionIndex option)
{
    const OptionRow *row = &option_rows[option];
    const void *field = option_field_of(o, option);
    if (!options_typed_by_person(o, option)) return false;
    if (row->kind == KIND_FLAG)   return *(const OptionFLAG *)field;
    if (row->kind == KIND_CHOICE) return strcmp(((const OptionCHOICE *)field)->word, row->text) != 0;
    return true;
}

static Status wants_check(const Options *o, CommandSet of)
{
    char typed[256], wanted[256];
    for (int i = 0; i < OPTIONS; i++) {
        const OptionWants *unmet = option_asked(o, i) ? option_unmet(o, i) : NULL;
        if (!unmet || !(option_rows[i].commands & of)) continue;
        options_typed(typed, sizeof typed, o, i);
        option_wants_text(wanted, sizeof wanted, unmet);
        const char *how = unmet->kind == WANTS_ABSENT ? "beside" : "without";
        if (unmet->kind != WANTS_REPORTED && unmet->kind != WANTS_ABSENT)
            return fail(BAD_OPTION, unmet->kind == WANTS_BUILT
                        ? "%s is built with %s only; give that too, or leave it out"
                        : "%s has no effect without %s; give that too, or leave it out", typed, wanted);
        log_line("%s is ignored: it has no effect %s %s", typed, how, wanted);
    }
    return OK;
}

Status options_wants(const Options *o)       { return wants_check(o, ~(CommandSet)0); }
Status options_shape_wants(const Options *o) { return wants_check(o, FOR_SHAPE); }
