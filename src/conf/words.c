/* Words of options: a list that owns its texts, and how it is collected from the environment and a command
 * line. */
#include "conf/words.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "conf/value.h"

extern char **environ;
enum { NAME_LETTERS = 128 };                                  /* fits "--" or JOTUN_ and a name */

/* ---- the list ---- */

const char *words_hold(OptionWords *words, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(held_bytes(&words->held, bytes), text, bytes);
}

const char *words_format(OptionWords *words, const char *format, ...)
{
    char    text[FAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return words_hold(words, text);
}

static const char *hold_or_null(OptionWords *words, const char *text)
{
    return text ? words_hold(words, text) : NULL;
}

OptionWord *words_push(OptionWords *words, const char *name, OptionSource source)
{
    ARRAY_RESERVE_OR_STOP(words->word, words->room, words->count + 1);
    source.name  = words_hold(words, source.name);
    source.value = words_hold(words, source.value);
    source.from  = words_hold(words, source.from);
    words->word[words->count] = (OptionWord){ .name = hold_or_null(words, name), .source = source };
    return &words->word[words->count++];
}

void words_value(OptionWords *words, OptionWord *word, const char *value)
{
    const char **grown = held_bytes(&words->held, (size_t)(word->values + 1) * sizeof *grown);
    if (word->values) memcpy(grown, word->value, (size_t)word->values * sizeof *grown);
    grown[word->values++] = words_hold(words, value);
    word->value = grown;
}

OptionWord *words_append(OptionWords *words, const OptionWord *from)
{
    OptionWord *word = words_push(words, from->name, from->source);
    OptionSource source = word->source;
    const char  *name   = word->name;
    *word = *from;
    word->name = name, word->source = source;
    word->value = NULL, word->values = 0;
    for (int i = 0; i < from->values; i++) words_value(words, word, from->value[i]);
    word->note    = hold_or_null(words, from->note);
    word->refusal = hold_or_null(words, from->refusal);
    word->nearest = hold_or_null(words, from->nearest);
    return word;
}

void words_demand(OptionWords *words, OptionDemand demand)
{
    ARRAY_RESERVE_OR_STOP(words->demand, words->demand_room, words->demands + 1);
    demand.value  = words_hold(words, demand.value);
    demand.before = words_hold(words, demand.before);
    demand.after  = words_hold(words, demand.after);
    words->demand[words->demands++] = demand;
}

void words_close(OptionWords *words)
{
    held_free(&words->held);
    free(words->word);
    free(words->demand);
    *words = (OptionWords){ 0 };
}

/* ---- the environment ---- */

/* Variables that are no options: those of the tests, and of the start over TCP. */
static bool is_other_variable(const char *name)
{
    static const char *const others[] = { "fault", "full", "sanitize", "shared", "secret", "secret-file",
                                          "launcher" };
    for (size_t i = 0; i < COUNT(others); i++)
        if (!strcmp(name, others[i])) return true;
    return false;
}

static void add_variable(OptionWords *words, const char *name, const char *typed, const char *value)
{
    OptionSource source = option_source(SOURCE_ENVIRONMENT, typed, "", "");
    OptionWord  *word   = words_push(words, name, source);
    word->whole = word->shared = true;
    words_value(words, word, value);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Sorted, because of two names of one option the last one counts. */
static void add_others(OptionWords *words, CommandSet command)
{
    int    count = 0, room = 0;
    char **other = NULL;
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX))) continue;
        ARRAY_RESERVE_OR_STOP(other, room, count + 1);
        other[count++] = *variable;
    }
    if (count) qsort(other, (size_t)count, sizeof *other, by_text);
    for (int i = 0; i < count; i++) {
        char typed[NAME_LETTERS], name[NAME_LETTERS];
        const char *equals = other[i] + strcspn(other[i], "=");
        snprintf(typed, sizeof typed, "%.*s", (int)(equals - other[i]), other[i]);
        snprintf(name, sizeof name, "%s", typed + strlen(ENVIRONMENT_PREFIX));
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
        if (option_find(name, command) < 0 && !is_other_variable(name))
            add_variable(words, name, typed, *equals ? equals + 1 : "");
    }
    free(other);
}

static void add_option(OptionWords *words, const char *name)
{
    char typed[NAME_LETTERS];
    environment_name(typed, sizeof typed, name);
    const char *value = *name ? getenv(typed) : NULL;
    if (value) add_variable(words, name, typed, value);
}

void words_environment(OptionWords *words, CommandSet command)
{
    add_others(words, command);
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, command)) continue;
        add_option(words, option_short(i));
        add_option(words, option_rows[i].name);
    }
}

/* ---- the command line ---- */

/* A value may begin with one dash: -1. */
static bool is_option(const char *word) { return word[0] == '-' && word[1] == '-'; }

void words_command_line(OptionWords *words, SourceKind kind, const char *from, const char *rest, int argc,
                        char **argv)
{
    int at = 0;
    bool ended = false;
    while (at < argc) {
        OptionSource source = option_source(kind, "", "", from);
        OptionWord  *word;
        if (!ended && !strcmp(argv[at], "--")) {
            ended = true, at++;
            continue;
        }
        if (ended || !is_option(argv[at])) {
            word = words_push(words, NULL, source);
            word->ended = ended;
        } else {
            size_t letters = strcspn(argv[at], "=");
            char  *typed   = strndup(argv[at], letters);
            CHECK(typed, "no memory for %zu bytes of an option", letters);
            source.name = typed;
            word = words_push(words, typed + 2, source);
            word->whole = argv[at][letters];
            free(typed);
            if (word->whole) words_value(words, word, argv[at] + letters + 1);
            at++;
        }
        bool all = word->name && words_have(rest, word->name, strlen(word->name));
        while (!word->whole && at < argc && (all || ended || !is_option(argv[at])))
            words_value(words, word, argv[at++]);
    }
}

/* ---- what a copy has in addition ---- */

void options_copy(Options *copy, const Options *o)
{
    *copy = *o;
    copy->held = NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].kind == KIND_LIST) text_list_copy(option_field(copy, i), option_field_of(o, i));
    text_list_copy(&copy->words, &o->words);
    copy->demand = NULL, copy->demands = 0;
}

static bool is_same(const Options *a, const Options *b, OptionIndex option)
{
    const OptionSource *x = &a->source[option], *y = &b->source[option];
    bool list = option_rows[option].kind == KIND_LIST;
    const TextList *m = option_field_of(a, option), *n = option_field_of(b, option);
    bool same = x->kind == y->kind && !strcmp(x->name, y->name) && !strcmp(x->value, y->value) &&
                !strcmp(x->from, y->from) && x->convert == y->convert && !(list && m->count != n->count);
    for (int i = 0; list && same && i < m->count; i++) same = !strcmp(m->text[i], n->text[i]);
    return same;
}

void words_between(OptionWords *words, const Options *after, const Options *before)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (after->source[i].kind <= SOURCE_DEFAULT || is_same(after, before, i)) continue;
        OptionWord     *word = words_push(words, option_rows[i].name, after->source[i]);
        const TextList *list = option_rows[i].kind == KIND_LIST ? option_field_of(after, i) : NULL;
        word->whole = word->replaces = true;
        for (int w = 0; list && w < list->count; w++) words_value(words, word, list->text[w]);
        if (!list) words_value(words, word, after->source[i].value);
    }
    for (int i = 0; i < after->demands; i++) words_demand(words, after->demand[i]);
}
