/* Lines of JSON as requests. */
#include "cli/generation/prompt_line.h"
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "conf/generation/generation.h"

/* Numbers of a rule or of a line: the option that has its range, its place there, and what it is there: REAL
 * and INT as of options, double and int64_t. */
typedef enum { NUMBER_REAL, NUMBER_INT, NUMBER_INT32, NUMBER_SEED } NumberKind;
typedef struct { const char *key; OptionIndex option; NumberKind kind; bool of_line; size_t at; } NumberKey;

#define RULE(field) false, offsetof(PromptRule, field)
static const NumberKey numbers[] = {
#define SAMPLING_PARAMETER(kind, field, ...) { #field, OPTION_##field, NUMBER_##kind, RULE(sampling.field) },
#include "base/generation/sampling_parameters.def"
    { "max_tokens",     OPTION_max_new_tokens, NUMBER_INT,   true, offsetof(PromptLine, most) },
    { "seed",           OPTION_sampling_seed,  NUMBER_SEED,  RULE(sampling.seed) },
    { "logprobs",       OPTION_logprobs,       NUMBER_INT32, RULE(logprobs) },
    { "num_beams",      OPTION_beams,          NUMBER_INT32, RULE(beams) },
    { "length_penalty", OPTION_length_penalty, NUMBER_REAL,  RULE(length_penalty) },
};

static Status number_read(const NumberKey *k, void *to, const char *name, const json_t *value)
{
    const OptionRow *range = &option_rows[k->option];
    double x = json_number_value(value);
    bool whole = k->kind != NUMBER_REAL;
    bool good = whole ? json_is_integer(value) : json_is_number(value);
    good = good && x >= range->low && x <= range->high;
    if (!good && whole)
        return fail(BAD_FILE, "%s: \"%s\" must be a whole number from %lld to %lld", name, k->key,
                    (long long)range->low, (long long)range->high);
    if (!good)
        return fail(BAD_FILE, "%s: \"%s\" must be a number from %g to %g", name, k->key, range->low,
                    range->high);
    switch (k->kind) {
    case NUMBER_REAL:  *(double *)to   = x;                                     break;
    case NUMBER_INT:   *(int64_t *)to  = json_integer_value(value);             break;
    case NUMBER_INT32: *(int *)to      = (int)json_integer_value(value);        break;
    case NUMBER_SEED:  *(uint64_t *)to = (uint64_t)json_integer_value(value);   break;
    }
    return OK;
}

static Status text_read(PromptLine *line, const char *name, const json_t *value)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return fail(BAD_FILE, "%s: \"prompt\" must be a text of at least one character", name);
    line->bytes = (int64_t)json_string_length(value);
    line->text  = malloc((size_t)line->bytes + 1);
    if (!line->text) return fail(NO_MEMORY, "no memory for a prompt of %lld bytes", (long long)line->bytes);
    memcpy(line->text, json_string_value(value), (size_t)line->bytes + 1);
    return OK;
}

static Status ids_read(PromptLine *line, const char *name, const json_t *value)
{
    line->count = (int64_t)json_array_size(value);
    if (!json_is_array(value) || line->count == 0)
        return fail(BAD_FILE, "%s: \"ids\" must be a list of at least one token id", name);
    line->id = malloc((size_t)line->count * sizeof *line->id);
    if (!line->id) return fail(NO_MEMORY, "no memory for a prompt of %lld ids", (long long)line->count);
    for (int64_t i = 0; i < line->count; i++) {
        const json_t *id = json_array_get(value, (size_t)i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return fail(BAD_FILE, "%s: \"ids\" has an element that is no token id", name);
        line->id[i] = (int32_t)json_integer_value(id);
    }
    return OK;
}

/* One text or a list of texts. */
static Status stop_read(PromptLine *line, PromptRule *rule, const char *name, const json_t *value)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    line->stop = calloc(n + 1, sizeof *line->stop);
    if (!line->stop) return fail(NO_MEMORY, "no memory for %zu stop words", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(text) || json_string_length(text) == 0)
            return fail(BAD_FILE, "%s: \"stop\" must be a text of at least one character, or a list of such",
                        name);
        if (strlen(json_string_value(text)) < json_string_length(text))
            return fail(BAD_FILE, "%s: \"stop\" must not have the character \\u0000", name);
        line->stop[i] = (StopWord){ strdup(json_string_value(text)), (int64_t)json_string_length(text) };
        if (!line->stop[i].text) return fail(NO_MEMORY, "no memory for %zu stop words", n);
        line->stops++;
    }
    rule->stop  = line->stop;
    rule->stops = line->stops;
    return OK;
}

static Status member_read(PromptLine *line, PromptRule *rule, const char *name, const char *key,
                          const json_t *value)
{
    int setting = generation_setting(key);
    if (setting >= 0) rule->members |= 1u << setting;
    if (strcmp(key, "prompt") == 0) return text_read(line, name, value);
    if (strcmp(key, "ids") == 0)    return ids_read(line, name, value);
    if (strcmp(key, "stop") == 0)   return stop_read(line, rule, name, value);
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (strcmp(key, numbers[i].key) == 0)
            return number_read(&numbers[i], (numbers[i].of_line ? (char *)line : (char *)rule)
                               + numbers[i].at, name, value);
    return fail(BAD_FILE, "%s has the key \"%.60s\"; prompt, ids, stop, max_tokens, temperature, top_p, "
                "top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed, logprobs, "
                "num_beams and length_penalty have a meaning", name, key);
}

/* Why a line is no object: what jansson says of one that is broken, else what a line should be. */
static const char *no_object(const json_t *other, const json_error_t *error, const char *text, int64_t bytes)
{
    int64_t blanks = 0;
    while (blanks < bytes && memchr(" \t", text[blanks], 2)) blanks++;
    bool begins = blanks < bytes && text[blanks] == '{';
    return other || !begins ? "each line is one, with \"prompt\" or \"ids\"" : error->text;
}

Status prompt_line_read(PromptLine *line, PromptRule *rule, const char *name, const char *text, int64_t bytes,
                        int64_t texts)
{
    json_error_t error;
    const char *key;
    json_t *value, *object = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    Status status = OK;
    if (!json_is_object(object)) {
        status = fail(BAD_FILE, "%s is no JSON object: %s", name, no_object(object, &error, text, bytes));
        json_decref(object);
        return status;
    }
    json_object_foreach(object, key, value)
        if (status == OK) status = member_read(line, rule, name, key, value);
    json_decref(object);
    if (status == OK && !line->text == !line->id)
        return fail(BAD_FILE, "%s has %s; give one of \"prompt\" and \"ids\"", name,
                    line->text ? "both" : "neither \"prompt\" nor \"ids\"");
    if (status != OK) return status;
    return rule_request(&(RequestSettings){ .line = name, .typed = rule->typed, .members = rule->members,
                                            .beams = rule->beams, .logprobs = rule->logprobs,
                                            .texts = texts });
}

void prompt_line_close(PromptLine *line)
{
    for (int i = 0; i < line->stops; i++) free(line->stop[i].text);
    free(line->stop);
    free(line->text);
    free(line->id);
}
