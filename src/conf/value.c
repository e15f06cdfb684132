#include "conf/value.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "conf/conf.h"

typedef struct Held { struct Held *next; char text[]; } Held;

static void *hold(Options *o, size_t bytes)
{
    Held *held = calloc(1, sizeof *held + bytes);
    CHECK(held, "no memory for %zu bytes of options", bytes);
    held->next = o->held;
    o->held = held;
    return held->text;
}

const char *options_hold(Options *o, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(hold(o, bytes), text, bytes);
}

void options_close(Options *o)
{
    for (Held *held = o->held, *next; held; held = next) {
        next = held->next;
        free(held);
    }
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].kind == KIND_LIST) free(((TextList *)option_field(o, (OptionIndex)i))->text);
    free(o->words.text);
    *o = (Options){ 0 };
}

/* What a row takes, for messages: "1 to 65536 do". */
static const char *range_text(char *out, size_t size, const OptionRow *row)
{
    snprintf(out, size, row->kind == KIND_INT ? "%.0f to %.0f do" : "%.15g to %.15g do", row->low, row->high);
    return out;
}

static bool in_range(const OptionRow *row, double value)
{
    return value >= row->low && value <= row->high;          /* false for NaN */
}

static Status read_int(OptionINT *field, const OptionRow *row, const char *said, const char *value)
{
    char *end, range[64];
    errno = 0;
    long long read = strtoll(value, &end, 10);
    if (end == value || *end)
        return fail(BAD_OPTION, "%s is no whole number; %s", said, range_text(range, sizeof range, row));
    if (errno || !in_range(row, (double)read))
        return fail(BAD_OPTION, "%s is out of range; %s", said, range_text(range, sizeof range, row));
    *field = read;
    return OK;
}

static Status read_real(OptionREAL *field, const OptionRow *row, const char *said, const char *value)
{
    char *end, range[64];
    double read = strtod(value, &end);
    if (end == value || *end)
        return fail(BAD_OPTION, "%s is no number; %s", said, range_text(range, sizeof range, row));
    if (!in_range(row, read))
        return fail(BAD_OPTION, "%s is out of range; %s", said, range_text(range, sizeof range, row));
    *field = read;
    return OK;
}

static Status read_flag(OptionFLAG *field, const char *said, const char *value)
{
    bool yes = !strcasecmp(value, "true")  || !strcmp(value, "1");
    bool no  = !strcasecmp(value, "false") || !strcmp(value, "0");
    if (!yes && !no) return fail(BAD_OPTION, "%s is neither true nor false", said);
    *field = yes;
    return OK;
}

static Status read_choice(OptionCHOICE *field, OptionIndex option, const char *said, const char *value)
{
    char words[256];
    int word = option_word(option, value);
    option_choices(words, sizeof words, option, ", ", " or ");
    if (word == WORD_NOTHING)
        return fail(BAD_OPTION, "%s is not known; %s %s", said, words, strstr(words, " or ") ? "do" : "does");
    *field = (Choice){ word, option_words[word].word };
    return OK;
}

static void list_add(TextList *list, const char *text)
{
    const char **grown = realloc(list->text, (size_t)(list->count + 1) * sizeof *grown);
    CHECK(grown, "no memory for %d words", list->count + 1);
    list->text = grown;
    list->text[list->count++] = text;
}

void options_add_word(Options *o, const char *word) { list_add(&o->words, options_hold(o, word)); }

/* "--tp 3", "--tp=" where the value is empty: as close to what was typed as one line can be */
static const char *said_text(char *out, size_t size, const OptionSource *source, const char *value)
{
    bool variable = strncmp(source->name, "--", 2) != 0;
    snprintf(out, size, "%s%s%s", source->name, variable || !*value ? "=" : " ", value);
    return out;
}

static Status read_value(Options *o, OptionIndex option, const char *value, const OptionSource *source)
{
    const OptionRow *row = &option_rows[option];
    void *field = option_field(o, option);
    char said[256];
    said_text(said, sizeof said, source, value);
    if (row->kind == KIND_TEXT && !*value)
        return fail(BAD_OPTION, "%s is empty; give it a value or leave it out", said);
    switch (row->kind) {
    case KIND_INT:    return read_int(field, row, said, value);
    case KIND_REAL:   return read_real(field, row, said, value);
    case KIND_FLAG:   return read_flag(field, said, value);
    case KIND_CHOICE: return read_choice(field, option, said, value);
    case KIND_TEXT:   *(OptionTEXT *)field = options_hold(o, value); return OK;
    case KIND_LIST:   list_add(field, options_hold(o, value)); return OK;
    }
    return OK;
}

Status options_set(Options *o, OptionIndex option, const char *value, OptionSource source)
{
    OptionSource *now = &o->source[option];
    if (source.kind < now->kind) {          /* a stronger one has spoken; wrong is wrong all the same */
        Options aside = { 0 };
        Status status = read_value(&aside, option, value, &source);
        options_close(&aside);
        return status;
    }
    if (option_rows[option].kind == KIND_LIST && source.kind > now->kind)
        ((TextList *)option_field(o, option))->count = 0;
    TRY(read_value(o, option, value, &source));
    *now = (OptionSource){ source.kind, options_hold(o, source.name), options_hold(o, value),
                           options_hold(o, source.from) };
    return OK;
}

/* Says where a value which nobody gave comes from; false where a stronger one has spoken. */
static bool derive_from(Options *o, OptionIndex option, SourceKind kind, const char *from)
{
    OptionSource *source = &o->source[option];
    if (source->kind > kind) return false;
    *source = (OptionSource){ kind, source->name, "", options_hold(o, from) };
    return true;
}

void options_derived_int(Options *o, OptionIndex option, int64_t value, const char *from)
{
    if (derive_from(o, option, SOURCE_DERIVED, from)) *(OptionINT *)option_field(o, option) = value;
}

void options_derived_real(Options *o, OptionIndex option, double value, const char *from)
{
    if (derive_from(o, option, SOURCE_DERIVED, from)) *(OptionREAL *)option_field(o, option) = value;
}

void options_fill(Options *o, OptionIndex option, int64_t value, const char *from)
{
    if (derive_from(o, option, SOURCE_PROGRAM, from)) *(OptionINT *)option_field(o, option) = value;
}

bool options_typed_by_person(const Options *o, OptionIndex option)
{
    return o->source[option].kind > SOURCE_CHECKPOINT;
}

bool options_said(const Options *o, OptionIndex option)
{
    return o->source[option].kind > SOURCE_DEFAULT;
}

/* The shortest which reads back the same */
static void real_text(char *out, size_t size, double value)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
}

const char *options_value_text(char *out, size_t size, const Options *o, OptionIndex option)
{
    const void *field = option_field_of(o, option);
    const TextList *list = field;
    out[0] = 0;
    switch (o->source[option].kind == SOURCE_NOTHING ? -1 : (int)option_rows[option].kind) {
    case KIND_INT:    snprintf(out, size, "%" PRId64, *(const OptionINT *)field); break;
    case KIND_REAL:   real_text(out, size, *(const OptionREAL *)field); break;
    case KIND_TEXT:   snprintf(out, size, "%s", *(const OptionTEXT *)field); break;
    case KIND_FLAG:   snprintf(out, size, "%s", *(const OptionFLAG *)field ? "true" : "false"); break;
    case KIND_CHOICE: snprintf(out, size, "%s", ((const OptionCHOICE *)field)->word); break;
    case KIND_LIST:   snprintf(out, size, "%s%s", list->text[0], list->count > 1 ? " ..." : ""); break;
    default: break;
    }
    return out;
}

const char *options_source_text(char *out, size_t size, const Options *o, OptionIndex option)
{
    const OptionSource *source = &o->source[option];
    switch (source->kind) {
    case SOURCE_NOTHING:      snprintf(out, size, "not given"); break;
    case SOURCE_PROGRAM:
    case SOURCE_DERIVED:      snprintf(out, size, "derived from %s", source->from); break;
    case SOURCE_DEFAULT:      snprintf(out, size, "default"); break;
    case SOURCE_PRESET:       snprintf(out, size, "--model %s", source->from); break;
    case SOURCE_CHECKPOINT:   snprintf(out, size, "%s", source->from); break;
    case SOURCE_ENVIRONMENT:  snprintf(out, size, "%s", source->name); break;
    case SOURCE_COMMAND_LINE: snprintf(out, size, "command line"); break;
    }
    return out;
}

const char *options_typed(char *out, size_t size, const Options *o, OptionIndex option)
{
    const OptionSource *source = &o->source[option];
    char value[256], from[256];
    options_value_text(value, sizeof value, o, option);
    if (option_rows[option].kind == KIND_FLAG && source->kind == SOURCE_COMMAND_LINE)
        snprintf(out, size, "%s", source->name);
    else said_text(out, size, source, value);
    if (source->kind >= SOURCE_ENVIRONMENT) return out;
    size_t used = strlen(out);
    snprintf(out + used, size - used, " (%s)", options_source_text(from, sizeof from, o, option));
    return out;
}

Status options_range(const Options *o, OptionIndex option)
{
    const OptionRow *row = &option_rows[option];
    char said[256], range[64];
    if (o->source[option].kind == SOURCE_NOTHING || (row->kind != KIND_INT && row->kind != KIND_REAL))
        return OK;
    const void *field = option_field_of(o, option);
    double value = row->kind == KIND_INT ? (double)*(const OptionINT *)field : *(const OptionREAL *)field;
    if (in_range(row, value)) return OK;
    return fail(BAD_OPTION, "%s is out of range; %s", options_typed(said, sizeof said, o, option),
                range_text(range, sizeof range, row));
}
