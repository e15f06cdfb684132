/* Functions of a script: their bodies are kept where they are defined and read where they are called. */
#include "conf/script/functions.h"
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 256, CALL_COST = 256 };

Function *function_find(const Reader *r, const char *name, size_t letters)
{
    for (int i = 0; i < r->functions; i++)
        if (strlen(r->function[i].name) == letters && !strncmp(r->function[i].name, name, letters))
            return &r->function[i];
    return NULL;
}

void function_define(Reader *r, Function f)
{
    Function *known = function_find(r, f.name, strlen(f.name));
    if (!known && r->functions % 16 == 0 && r->functions < FUNCTIONS) {
        Function *grown = realloc(r->function, (size_t)(r->functions + 16) * sizeof *grown);
        if (grown) r->function = grown;
        else reader_fail(r, f.line, "no memory to read it");
    }
    if (!known && r->functions == FUNCTIONS)
        reader_fail(r, f.line, "it has more than %d functions", FUNCTIONS);
    if (r->status != OK) return;
    if (!known) known = &r->function[r->functions++];
    *known = f;
}

/* What functions that call each other twice read doubles with each of them. */
static bool may_call(Reader *r, const Function *f, int line)
{
    r->called += (size_t)(f->end - f->begin) + CALL_COST;
    if (r->calls >= SCRIPT_DEPTH)
        reader_fail(r, line, "calls of functions are nested more than %d deep", SCRIPT_DEPTH);
    else if (r->called > SCRIPT_CALLED) reader_fail(r, line, "its functions are called too often");
    return r->status == OK;
}

static ScriptWords words_copy(Reader *r, const ScriptWords *words)
{
    ScriptWords copy = {0};
    for (int i = 0; i < words->count; i++) words_add(r, &copy, words->word[i].text, words->word[i].line);
    return copy;
}

void function_local(Reader *r, const char *name, size_t letters)
{
    Variable *v     = r->calls ? variable_make(r, name, letters) : NULL;
    Variable *grown = v ? realloc(r->local, (size_t)(r->locals + 1) * sizeof *grown) : NULL;
    if (!grown) return;
    r->local              = grown;
    r->local[r->locals++] = (Variable){v->name, words_copy(r, &v->values), v->array, v->keyed};
}

/* The last one first: of two of one name the first one has the value from before the call. */
static void restore_locals(Reader *r, int from)
{
    while (r->locals > from) {
        const Variable *was = &r->local[--r->locals];
        Variable       *v   = variable_find(r, was->name, strlen(was->name));
        free(v->values.word);
        *v = *was;
    }
}

int function_call(Reader *r, const Function *f, const ScriptWords *words, int line)
{
    ScriptWords given = r->given;
    Function    held  = *f; /* it may define another one of its name */
    int         local = r->locals;
    if (!may_call(r, f, line)) return -1;
    r->given = (ScriptWords){0};
    for (int i = 1; i < words->count; i++)
        words_add(r, &r->given, words->word[i].text, words->word[i].line);
    r->calls++;
    int last = commands_read(r, held.begin, held.end, held.line);
    r->calls--;
    r->returning = false;
    restore_locals(r, local);
    free(r->given.word);
    r->given = given;
    return last;
}

void function_skip(Reader *r, Function *f, bool in_loop, int line)
{
    if (f->skipped || !may_call(r, f, line)) return;
    char name[128];
    strncpy(name, f->name, sizeof name - 1);
    name[sizeof name - 1] = 0;
    f->skipped            = true;
    r->calls++;
    commands_skip(r, f->begin, f->end, f->line, in_loop);
    r->calls--;
    f = function_find(r, name, strlen(name));
    if (f) f->skipped = false;
}
