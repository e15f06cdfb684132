/* One value: from the text of a row's kind to its field, and back to text. The source of a value decides
 * whether it may replace the one that is there: a command line beats the environment, which beats a
 * checkpoint, and so on. */
#include "conf/value.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "conf/conf.h"

/* Texts live in a list that options_close frees: values point into them, and so does whoever read the
 * values. */
typedef struct HeldText { struct HeldText *next; char text[]; } HeldText;

/* Memory that lives as long as the options. Running out of memory here is not worth a Status in every caller:
 * it stops the program. */
void *held_bytes(void **list, size_t bytes)
{
    HeldText *held = calloc(1, sizeof *held + bytes);
    CHECK(held, "no memory for %zu bytes of options", bytes);
    held->next = *list;
    *list = held;
    return held->text;
}

void held_free(void **list)
{
    for (HeldText *held = *list, *next; held; held = next) {
        next = held->next;
        free(held);
    }
    *list = NULL;
}

const void *options_hold_bytes(Options *o, const void *bytes, size_t count)
{
    return memcpy(held_bytes(&o->held, count), bytes, count);
}

const char *options_hold(Options *o, const char *text)
{
    return options_hold_bytes(o, text, strlen(text) + 1);
}

void options_close(Options *o)
{
    held_free(&o->held);
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].kind == KIND_LIST) free(((TextList *)option_field(o, (OptionIndex)i))->text);
    free(o->words.text);
    free(o->demand);
    *o = (Options){ 0 };
}

/* What an INT or REAL takes. Another unit has a range of its own. */
typedef struct { double low, high, factor; bool whole; } Range;

static Range range_of(const OptionRow *row, Conversion convert)
{
    double factor = convert == CONVERT_MINUTES_TO_SECONDS ? 60 : 1;
    return (Range){ row->low / factor, row->high / factor, factor, row->kind == KIND_INT };
}

/* For messages: "give a value from 1 to 65536" */
static const char *range_text(char *out, size_t size, Range range)
{
    snprintf(out, size, range.whole ? "give a value from %.0f to %.0f" : "give a value from %.15g to %.15g",
             range.low, range.high);
    return out;
}

static bool in_range(Range range, double value)
{
    return value >= range.low && value <= range.high;          /* false for NaN */
}

static Status read_int(OptionINT *field, Range range, const char *said, const char *value)
{
    char *end, text[96];
    errno = 0;
    long long read = strtoll(value, &end, 10);
    if (end == value || *end || isspace((unsigned char)*value))
        return fail(BAD_OPTION, "%s is not a whole number; %s", said, range_text(text, sizeof text, range));
    if (errno || !in_range(range, (double)read))
        return fail(BAD_OPTION, "%s is out of range; %s", said, range_text(text, sizeof text, range));
    *field = read;
    return OK;
}

/* Decimal only: strtod alone would also take blanks and hexadecimal. */
static Status read_real(OptionREAL *field, Range range, const char *said, const char *value)
{
    char *end, text[96];
    errno = 0;
    double read = strtod(value, &end);
    if (end == value || *end || isspace((unsigned char)*value) || strpbrk(value, "xX"))
        return fail(BAD_OPTION, "%s is not a decimal number; %s", said, range_text(text, sizeof text, range));
    if (!in_range(range, read))
        return fail(BAD_OPTION, "%s is out of range; %s", said, range_text(text, sizeof text, range));
    if (errno)                                            /* it would be read as 0, or with fewer digits */
        return fail(BAD_OPTION, "%s is out of range: too near to 0 for a double; %s", said,
                    range_text(text, sizeof text, range));
    *field = read * range.factor;
    return OK;
}

/* The exponent is what a person reads of in messages. */
static Status read_power(OptionREAL *field, Range range, const char *said, const char *value)
{
    OptionINT exponent;
    Range     whole = { floor(log2(range.low)), floor(log2(range.high)), 1, true };
    TRY(read_int(&exponent, whole, said, value));
    *field = ldexp(1, (int)exponent);
    return OK;
}

bool value_number(const char *word, double *value)
{
    char *end;
    *value = strtod(word, &end);
    return end != word && !*end;
}

bool value_weight(double *weight, const char *text, size_t letters)
{
    char *end;
    *weight = strtod(text, &end);
    return letters > 0 && end == text + letters && isfinite(*weight) && *weight >= 0;
}

bool value_weights(const char *text)
{
    double weight, sum = 0;
    for (int i = 0; i < 3; i++, text++) {
        size_t letters = strcspn(text, ",");
        if (!value_weight(&weight, text, letters)) return false;
        sum  += weight;
        text += letters;
        if (!*text) return sum > 0;
    }
    return false;
}

/* A flag has a value only in the environment and after =. */
static Status read_flag(OptionFLAG *field, const char *said, const char *value)
{
    bool yes = !strcasecmp(value, "true")  || !strcmp(value, "1");
    bool no  = !strcasecmp(value, "false") || !strcmp(value, "0");
    if (!yes && !no) return fail(BAD_OPTION, "%s is neither true nor false; give one of them", said);
    *field = yes;
    return OK;
}

/* Upper and lower case are alike: scripts write rmsnorm where Megatron-LM has RMSNorm. */
static Status read_choice(OptionCHOICE *field, OptionIndex option, const char *said, const char *value)
{
    char words[256];
    const char *why = option_choice_refused(option, value);
    int word = option_choice_find(option, value);
    option_choices(words, sizeof words, option, ", ", " or ");
    if (word == CHOICE_NOTHING)
        return why ? fail(BAD_OPTION, "%s: %s; give %s", said, why, words)
                   : fail(BAD_OPTION, "%s is not known; give %s", said, words);
    *field = (Choice){ word, option_choice_rows[word].word };
    return OK;
}

void text_list_add(TextList *list, const char *text)
{
    ARRAY_RESERVE_OR_STOP(list->text, list->room, list->count + 1);
    list->text[list->count++] = text;
}

void text_list_copy(TextList *copy, const TextList *list)
{
    *copy = (TextList){ 0 };
    for (int i = 0; i < list->count; i++) text_list_add(copy, list->text[i]);
}

void options_demand(Options *o, OptionDemand demand)
{
    ARRAY_RESERVE_OR_STOP(o->demand, o->demand_room, o->demands + 1);
    demand.value  = options_hold(o, demand.value);
    demand.before = options_hold(o, demand.before);
    demand.after  = options_hold(o, demand.after);
    o->demand[o->demands++] = demand;
}

const char *environment_name(char *out, size_t size, const char *option)
{
    size_t used = (size_t)snprintf(out, size, ENVIRONMENT_PREFIX);
    for (const char *c = option; *c && used < size - 1; c++)
        out[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    out[used] = 0;
    return out;
}

void options_add_word(Options *o, const char *word) { text_list_add(&o->words, options_hold(o, word)); }

/* "--tp 3", "--tp=" where the value is empty, "--sp=false", "JOTUN_TP=3", "TP=3" of a script's variables: as
 * close to what was typed as one line can be */
static const char *said_text(char *out, size_t size, const OptionSource *source, const char *value,
                             OptionKind kind)
{
    bool variable = source->kind == SOURCE_ENVIRONMENT || isupper((unsigned char)*source->name);
    bool equals   = variable || !*value || kind == KIND_FLAG;
    snprintf(out, size, "%s%s%s", source->name, equals ? "=" : " ", value);
    return out;
}

static const char *text_of(Options *o, const char *value, Conversion convert)
{
    const char *slash = strrchr(value, '/');
    char folder[1024];
    if (convert != CONVERT_FILE_TO_FOLDER) return options_hold(o, value);
    int letters = slash == value ? 1 : slash ? (int)(slash - value) : 1;
    snprintf(folder, sizeof folder, "%.*s", letters, slash ? value : ".");
    return options_hold(o, folder);
}

/* The field alone; who gave the value is kept by options_set. A list appends. */
static Status read_value(Options *o, OptionIndex option, const char *value, const OptionSource *source)
{
    const OptionRow *row = &option_rows[option];
    void *field = option_field(o, option);
    char said[256];
    said_text(said, sizeof said, source, value, row->kind);
    const char *needed_value = option_needed(option, o->command);
    if (row->kind == KIND_TEXT && !*value && needed_value)
        return fail(BAD_OPTION, "%s is empty; give %s %s", said, source->name, needed_value);
    if (row->kind == KIND_TEXT && !*value)
        return fail(BAD_OPTION, "%s is empty; give it a value or leave it out", said);
    if (source->convert == CONVERT_POWER_OF_TWO)
        return read_power(field, range_of(row, source->convert), said, value);
    switch (row->kind) {
    case KIND_INT:    return read_int(field, range_of(row, source->convert), said, value);
    case KIND_REAL:   return read_real(field, range_of(row, source->convert), said, value);
    case KIND_FLAG:   return read_flag(field, said, value);
    case KIND_CHOICE: return read_choice(field, option, said, value);
    case KIND_TEXT:   *(OptionTEXT *)field = text_of(o, value, source->convert); return OK;
    case KIND_LIST:   text_list_add(field, options_hold(o, value)); return OK;
    }
    return OK;
}

/* Given twice, the last one counts, as in the scripts that append "$@" to their own options. A line names
 * both. */
static void report_replaced(const Options *o, OptionIndex option, const char *was, const char *was_typed)
{
    char now[1024], typed[256];
    if (strcmp(was, options_value_text(now, sizeof now, o, option)))
        log_line("%s replaces %s: the last one counts", options_typed(typed, sizeof typed, o, option),
                 was_typed);
}

Status options_set(Options *o, OptionIndex option, const char *value, OptionSource source)
{
    OptionSource *now = &o->source[option];
    char was[1024], was_typed[256];
    if (source.kind < now->kind) {          /* ignored, but a wrong value is refused all the same */
        Options ignored = { 0 };
        Status status = read_value(&ignored, option, value, &source);
        options_close(&ignored);
        return status;
    }
    bool list  = option_rows[option].kind == KIND_LIST;
    bool again = !list && source.kind == now->kind && source.kind >= SOURCE_ENVIRONMENT;
    if (again) {
        options_value_text(was, sizeof was, o, option);
        options_typed(was_typed, sizeof was_typed, o, option);
    }
    bool other_key = source.kind == SOURCE_CONFIG_FILE && now->from && strcmp(source.from, now->from) != 0;
    if (list && (source.kind > now->kind || other_key)) ((TextList *)option_field(o, option))->count = 0;
    TRY(read_value(o, option, value, &source));
    *now = (OptionSource){ source.kind, options_hold(o, source.name), options_hold(o, value),
                           options_hold(o, source.from), source.convert, source.bare };
    if (again) report_replaced(o, option, was, was_typed);
    return OK;
}

/* Records where a value that nobody gave comes from; false where a stronger source gave one. */
static bool derive_from(Options *o, OptionIndex option, SourceKind kind, const char *from)
{
    OptionSource *source = &o->source[option];
    if (source->kind > kind) return false;
    *source = option_source(kind, source->name, "", options_hold(o, from));
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

void options_real_text(char *out, size_t size, double value)
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
    case KIND_REAL:   options_real_text(out, size, *(const OptionREAL *)field); break;
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
    case SOURCE_PRESET:
    case SOURCE_CHECKPOINT:
    case SOURCE_CONFIG_FILE:  snprintf(out, size, "%s", source->from); break;
    case SOURCE_ENVIRONMENT:  snprintf(out, size, "%s", source->name); break;
    case SOURCE_COMMAND_LINE: snprintf(out, size, "command line"); break;
    }
    bool variable = source->kind == SOURCE_ENVIRONMENT;
    if (source->convert && variable) message_add(out, size, "=%s", source->value);
    else if (source->convert) message_add(out, size, ", %s %s", source->name, source->value);
    return out;
}

const char *options_typed(char *out, size_t size, const Options *o, OptionIndex option)
{
    const OptionSource *source = &o->source[option];
    OptionKind kind = option_rows[option].kind;
    char value[256], from[256];
    options_value_text(value, sizeof value, o, option);
    if (source->convert) snprintf(value, sizeof value, "%s", source->value);
    bool typed = source->kind == SOURCE_COMMAND_LINE;
    bool flag  = source->bare || (kind == KIND_FLAG && !strcmp(value, "true"));
    if (typed && flag)
        snprintf(out, size, "%s", source->name);
    else said_text(out, size, source, value, source->kind < SOURCE_ENVIRONMENT ? KIND_TEXT : kind);
    if (source->kind >= SOURCE_ENVIRONMENT) return out;
    message_add(out, size, " (%s)", options_source_text(from, sizeof from, o, option));
    return out;
}

/* Typed values were checked when they were read; this checks derived ones, such as a global batch that is the
 * product of large factors. */
Status options_range(const Options *o, OptionIndex option)
{
    const OptionRow *row = &option_rows[option];
    char said[256], text[64];
    if (o->source[option].kind == SOURCE_NOTHING || (row->kind != KIND_INT && row->kind != KIND_REAL))
        return OK;
    const void *field = option_field_of(o, option);
    double value = row->kind == KIND_INT ? (double)*(const OptionINT *)field : *(const OptionREAL *)field;
    Range range = range_of(row, CONVERT_NONE);
    if (in_range(range, value)) return OK;
    return fail(BAD_OPTION, "%s is out of range; %s", options_typed(said, sizeof said, o, option),
                range_text(text, sizeof text, range));
}

int64_t options_data_parallel(const Options *o)
{
    int64_t ranks = o->ranks / (o->tensor_parallel * o->pipeline_parallel * o->context_parallel);
    return ranks > 1 ? ranks : 1;
}
