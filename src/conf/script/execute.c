/* What a command does that is read: a test, eval, a function's call, the start of a program. Others do
 * nothing. */
#include "conf/script/execute.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "conf/script/functions.h"

bool is_any(const char *word, const char *words)
{
    size_t letters = strlen(word);
    for (const char *a = words; letters && *a; a += strcspn(a, " "), a += *a == ' ')
        if (strcspn(a, " ") == letters && !strncmp(a, word, letters)) return true;
    return false;
}

bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

static const char *base_name(const char *path) { return path_leaf(path, strlen(path)); }

/* The command that starts a program: what stands before and after it. Of several, one that trains is taken.
 */
static void take_program(Reader *r, const ScriptWords *f, int at)
{
    Script     *s       = r->script;
    const char *program = reader_hold(r, base_name(f->word[at].text), strlen(base_name(f->word[at].text)));
    if (s->program && strstr(s->program, "train") && !strstr(program, "train")) return;
    if (s->program && *s->program)
        reader_note(r, f->word[at].line, "%s is taken instead of the command before it", program);
    s->program        = program;
    s->launcher.count = s->arguments.count = 0;
    for (int i = 0; i < at; i++) words_add(r, &s->launcher, f->word[i].text, f->word[i].line);
    for (int i = at + 1; i < f->count; i++) words_add(r, &s->arguments, f->word[i].text, f->word[i].line);
}

static int nested(Reader *r, const char *text, int line)
{
    if (++r->depth > SCRIPT_DEPTH)
        reader_fail(r, line, "eval is nested more than %d deep", SCRIPT_DEPTH);
    else commands_read(r, text, text + strlen(text), line);
    r->depth--;
    return -1; /* of a program it could be another shell's */
}

static int evaluated(Reader *r, const ScriptWords *f)
{
    size_t bytes = 1;
    for (int i = 1; i < f->count; i++) bytes += strlen(f->word[i].text) + 1;
    char  *joined = calloc(bytes + 1, 1);
    size_t used   = 0;
    if (!joined || bytes > SCRIPT_TEXT) {
        free(joined);
        reader_fail(r, f->word[0].line, "the text of eval is too long");
        return -1;
    }
    for (int i = 1; i < f->count; i++)
        used += (size_t)snprintf(joined + used, bytes + 1 - used, "%s%s", i > 1 ? " " : "", f->word[i].text);
    const char *text = reader_hold(r, joined, strlen(joined));
    free(joined);
    return nested(r, text, f->word[0].line);
}

/* The script of `bash -c SCRIPT`, wherever it stands: srun ... bash -c "..."; NULL: there is none. */
static const char *inner_script(const ScriptWords *f)
{
    for (int i = 0; i + 2 < f->count; i++)
        if (is_any(base_name(f->word[i].text), "bash sh"))
            for (int k = i + 1; k + 1 < f->count && f->word[k].text[0] == '-'; k++)
                if (f->word[k].text[1] != '-' && strchr(f->word[k].text, 'c')) return f->word[k + 1].text;
    return NULL;
}

/* shift N */
static void shift_given(Reader *r, const ScriptWords *f)
{
    ScriptWords *given = &r->given;
    int64_t      count = 1;
    if (f->count > 1 && !arithmetic(r, &count, known_text(r, f->word[1].text), f->word[0].line)) return;
    if (count < 0 || count > given->count) return;
    memmove(given->word, given->word + count, (size_t)(given->count - count) * sizeof *given->word);
    given->count -= (int)count;
}

static void set_given(Reader *r, const ScriptWords *f, int from)
{
    ScriptWords given = {0};
    for (int i = from; i < f->count; i++) words_add(r, &given, f->word[i].text, f->word[i].line);
    free(r->given.word);
    r->given = given;
}

/* return N: 0 is success. */
static int returned(Reader *r, const ScriptWords *f, int last)
{
    r->returning = true;
    return f->count > 1 ? !strcmp(f->word[1].text, "0") : last;
}

int execute(Reader *r, const ScriptWords *f, int last)
{
    const char *name = f->word[0].text, *inner;
    int         line = f->word[0].line;
    Function   *called = function_find(r, name, strlen(name));
    if (called) return function_call(r, called, f, line);
    if (!strcmp(name, "return") && r->calls) return returned(r, f, last);
    if (is_any(name, "[ [[ test")) {
        bool        brackets = *name == '[';
        ScriptWords words    = {f->word + 1, f->count - 1 - (brackets && f->count > 1), 0};
        return condition(r, &words, !strcmp(name, "[["));
    }
    if (is_any(name, "true :")) return 1;
    if (!strcmp(name, "false")) return 0;
    if (!strcmp(name, "eval")) return evaluated(r, f);
    if (!strcmp(name, "set") && f->count > 1 && !strcmp(f->word[1].text, "--")) set_given(r, f, 2);
    if (!strcmp(name, "shift") && r->given.count) shift_given(r, f);
    if (is_any(name, "source .") && f->count > 1) {
        char file[256];
        reader_note(r, line, "%s is not read", script_plain(file, sizeof file, f->word[1].text));
    }
    if (is_any(name,
               "echo printf cat cp mv rm ls sed grep set source . export mkdir cd module conda pip exit"))
        return -1;
    if ((inner = inner_script(f))) return nested(r, inner, line);
    for (int i = 0; i < f->count; i++)
        if (ends_with(f->word[i].text, ".py")) {
            take_program(r, f, i);
            return -1;
        }
    return -1;
}
