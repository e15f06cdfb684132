/* A file that is a list of arguments, as a person copies them out of a script: words between blanks and the
 * ends of lines, with quotes and backslashes, and comments. No bash reads it, since brackets may stand in it
 * as Python takes them: --moe-layer-freq ([0]*3). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/buffer.h"
#include "compat/bash/trace.h"

typedef struct {
    const char *p, *end, *path;
    int line, room;
    Buffer word;
    Texts *texts;
    LaunchCall *call;
} Reader;

static void add(Reader *r, char c)
{
    CHECK(buffer_add(&r->word, &c, 1) == OK, "%s", fail_text());
}

/* Between the quotes; bash's rules for what a backslash means there. */
static Status read_quoted(Reader *r, char quote)
{
    int line = r->line;
    for (r->p++; r->p < r->end && *r->p != quote; r->p++) {
        r->line += *r->p == '\n';
        if (quote == '"' && *r->p == '\\' && r->p + 1 < r->end && strchr("\"\\$`\n", r->p[1]) &&
            *++r->p == '\n') {
            r->line++;
            continue;
        }
        add(r, *r->p);
    }
    if (r->p == r->end) return fail(BAD_FILE, "%s:%d: a %c is not closed", r->path, line, quote);
    r->p++;
    return OK;
}

/* "$NAME" for a word in which a variable stands, that a list cannot set. */
static const char *variable_in(Reader *r, const char *begin)
{
    bool single = false;
    for (const char *c = begin; c < r->p; c++) {
        if (*c == '\'') single = !single;
        if (*c == '\\') {
            c++;
            continue;
        }
        if (single || *c != '$' || c + 1 == r->p || !(isalnum((unsigned char)c[1]) || strchr("_{(@*#", c[1])))
            continue;
        size_t n = 1;
        while (c + n < r->p && (isalnum((unsigned char)c[n]) || c[n] == '_' || c[n] == '{')) n++;
        return texts_format(r->texts, "%.*s, which a list of arguments gives no value", (int)n, c);
    }
    return "";
}

static Status read_word(Reader *r)
{
    const char *begin = r->p;
    int line = r->line, room = r->room;
    r->word.bytes = 0;
    while (r->p < r->end && !isspace((unsigned char)*r->p)) {
        bool escaped = *r->p == '\\' && r->p + 1 < r->end;
        if (escaped && (r->p[1] == '\n' || r->p[1] == '\r')) break;
        if (*r->p == '"' || *r->p == '\'') TRY(read_quoted(r, *r->p));
        else add(r, escaped ? *++r->p : *r->p), r->p++;
    }
    const char *variable = variable_in(r, begin), *text = texts_keep(r->texts, r->word.text, r->word.bytes);
    ARRAY_RESERVE_OR_STOP(r->call->word, room, r->call->words + 1);
    r->room = room;
    r->call->word[r->call->words++] = (LaunchWord){ text, r->path, line, !*variable, variable, text, "" };
    return OK;
}

Status argument_list_read(LaunchCall *call, Texts *texts, const char *path, const char *text, const char *end)
{
    Reader r = { .p = text, .end = end, .path = path, .line = 1, .texts = texts, .call = call };
    Status status = OK;
    *call = (LaunchCall){ .program = "", .folder = "", .file = path, .line = 1 };
    while (r.p < r.end && status == OK) {
        bool between = *r.p == '\\' && (r.p + 1 == r.end || isspace((unsigned char)r.p[1]));
        if (isspace((unsigned char)*r.p) || between) r.line += *r.p++ == '\n';
        else if (*r.p == '#')
            while (r.p < r.end && *r.p != '\n') r.p++;
        else status = read_word(&r);
    }
    buffer_free(&r.word);
    return status;
}
