/* What a script is made of while it is read: texts, variables, notes. */
#include "conf/script/inside.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Held {
    struct Held *next;
    char         text[];
} Held;

void reader_fail(Reader *r, int line, const char *format, ...)
{
    char    why[400];
    va_list arguments;
    if (r->status != OK) return;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    r->status = fail(BAD_FILE, "%s:%d: %s", r->script->path, line, why);
}

void reader_note(Reader *r, int line, const char *format, ...)
{
    char    why[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (r->script->notes.count < 1000)
        words_add(r, &r->script->notes, reader_hold(r, why, strlen(why)), line);
}

const char *reader_hold(Reader *r, const char *text, size_t bytes)
{
    if (r->status != OK) return "";
    r->held_bytes += bytes + 64;
    Held *held = r->held_bytes < SCRIPT_HELD ? malloc(sizeof *held + bytes + 1) : NULL;
    if (!held) {
        reader_fail(r, r->counted_line, "its variables hold more than %d MiB", SCRIPT_HELD >> 20);
        return "";
    }
    memcpy(held->text, text, bytes);
    held->text[bytes] = 0;
    held->next        = r->script->held;
    r->script->held   = held;
    return held->text;
}

void words_add(Reader *r, ScriptWords *words, const char *text, int line)
{
    if (r->status != OK) return;
    if (words->count == words->room) {
        int room = words->room ? words->room * 2 : 8;
        r->held_bytes += (size_t)room * sizeof *words->word;
        ScriptWord *grown =
            r->held_bytes < SCRIPT_HELD ? realloc(words->word, (size_t)room * sizeof *grown) : NULL;
        if (!grown) {
            reader_fail(r, line, "its arrays hold more than %d MiB", SCRIPT_HELD >> 20);
            return;
        }
        words->word = grown, words->room = room;
    }
    words->word[words->count++] = (ScriptWord){text, line};
}

Variable *variable_find(const Reader *r, const char *name, size_t letters)
{
    for (int i = 0; i < r->variables; i++)
        if (!strncmp(r->variable[i].name, name, letters) && !r->variable[i].name[letters])
            return &r->variable[i];
    return NULL;
}

Variable *variable_make(Reader *r, const char *name, size_t letters)
{
    Variable *v = variable_find(r, name, letters);
    if (v || r->status != OK) return v;
    if (r->variables == SCRIPT_NAMES) {
        reader_fail(r, r->counted_line, "it has more than %d variables", SCRIPT_NAMES);
        return NULL;
    }
    v  = &r->variable[r->variables++];
    *v = (Variable){.name = reader_hold(r, name, letters)};
    return r->status == OK ? v : NULL;
}

const ScriptWord *element_find(const Reader *r, const Variable *array, const char *key)
{
    char name[512];
    int  letters = snprintf(name, sizeof name, "%s[%s]", array->name, key);
    if (letters >= (int)sizeof name) return NULL;
    const Variable *v = variable_find(r, name, (size_t)letters);
    return v && v->values.count ? v->values.word : NULL;
}

const char *known_text(Reader *r, const char *text)
{
    if (!script_unknown(text)) return text;
    char *copy = (char *)(uintptr_t)reader_hold(r, text, strlen(text)), *to = copy;
    if (r->status != OK) return "";
    for (bool inside = false; *text; text++) {
        inside |= *text == UNKNOWN_BEGIN;
        if (!inside) *to++ = *text;
        inside &= *text != UNKNOWN_END;
    }
    *to = 0;
    return copy;
}

const char *tested_text(Reader *r, const char *text)
{
    for (const char *p = text; (p = strchr(p, UNKNOWN_BEGIN)); p++)
        if (p[1] != '$' || p[2] == '(' || p[2] == '{') return text;
    return known_text(r, text);
}

void reader_release(Script *s)
{
    for (Held *held = s->held, *next; held; held = next) {
        next = held->next;
        free(held);
    }
    s->held = NULL;
}
