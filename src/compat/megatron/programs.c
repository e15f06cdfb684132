/* The programs of programs.def, and which of those that a script starts is taken. */
#include "compat/megatron/programs.h"
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"

typedef struct {
    const char *names;
    Program     program;
} ProgramRow;

static const ProgramRow program_rows[] = {
#define TRAINS(names) {names, {PROGRAM_TRAINS_GPT, "", ""}},
#define OTHER(names, what, instead) {names, {PROGRAM_IS_OTHER, what, instead}},
#include "compat/megatron/programs.def"
};
enum { PROGRAM_ROWS = COUNT(program_rows) };

/* The end of a path that has as many folders as a pattern: tasks/main.py of ../tasks/main.py. */
static const char *path_end(const char *path, const char *pattern)
{
    int slashes = 0;
    for (const char *c = pattern; *c; c++) slashes += *c == '/';
    const char *at = path + strlen(path);
    while (at > path && (at[-1] != '/' || slashes-- > 0)) at--;
    return at;
}

static bool fits(const char *names, const char *path)
{
    for (const char *a = names; *a; a += strcspn(a, " "), a += *a == ' ') {
        char pattern[96];
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(a, " "), a);
        if (!fnmatch(pattern, path_end(path, pattern), FNM_PATHNAME)) return true;
    }
    return false;
}

Program program_of(const char *path)
{
    for (int i = 0; i < PROGRAM_ROWS; i++)
        if (fits(program_rows[i].names, path)) return program_rows[i].program;
    return (Program){PROGRAM_UNKNOWN, "", ""};
}

static Status none_trains(int count, const char *const *path)
{
    char line[1024] = "";
    for (int i = 0; i < count; i++) {
        Program p = program_of(path[i]);
        if (p.kind == PROGRAM_IS_OTHER)
            message_item(line, sizeof line, "; ", "%s %s; %s", path[i], p.what, p.instead);
        else
            message_item(line, sizeof line, "; ", "%s is not known as a program that pretrains a GPT; give "
                         "--program-is-gpt if it is one", path[i]);
    }
    return fail(BAD_OPTION, "%s", line);
}

Status program_choose(int *chosen, int count, const char *const *path, bool is_gpt)
{
    for (int kind = PROGRAM_TRAINS_GPT; kind >= (is_gpt ? PROGRAM_UNKNOWN : PROGRAM_TRAINS_GPT); kind--)
        for (int i = 0; i < count; i++)
            if (program_of(path[i]).kind == (ProgramKind)kind) {
                *chosen = i;
                return OK;
            }
    return none_trains(count, path);
}
