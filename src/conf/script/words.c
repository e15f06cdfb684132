/* Where words, strings and brackets of a script end. */
#include <ctype.h>
#include <string.h>
#include "conf/script/inside.h"

static const char *string_end(Reader *r, const char *p, const char *end, int line)
{
    for (const char *c = p + 1; c < end && r->status == OK;) {
        if (*c == '"') return c + 1;
        bool bracket = *c == '`' || (*c == '$' && c + 1 < end && strchr("({", c[1]));
        c            = bracket ? bracket_end(r, c, end, line) : c + 1 + (*c == '\\');
    }
    reader_fail(r, line, "a \" is not closed");
    return end;
}

static const char *single_end(Reader *r, const char *p, const char *end, int line)
{
    const char *close = memchr(p + 1, '\'', (size_t)(end - p - 1));
    if (!close) reader_fail(r, line, "a ' is not closed");
    return close ? close + 1 : end;
}

/* Quotes within brackets may hold brackets; a comment within $( ) is not looked for. */
const char *bracket_end(Reader *r, const char *p, const char *end, int line)
{
    int deep = 0;
    if (++r->depth > SCRIPT_DEPTH)
        reader_fail(r, line, "brackets are nested more than %d deep", SCRIPT_DEPTH);
    bool tick = *p == '`', brace = !tick && p[1] == '{';
    char open = brace ? '{' : '(', close = tick ? '`' : brace ? '}' : ')';
    for (const char *c = p + 1; c < end && r->status == OK;) {
        if (*c == '\\') c += 2;
        else if (*c == close && (tick || --deep == 0)) {
            r->depth--;
            return c + 1;
        } else if (!tick && *c == '\'' && !brace) c = single_end(r, c, end, line);
        else if (!tick && *c == '"') c = string_end(r, c, end, line);
        else if (!tick && *c == '$' && c + 1 < end && strchr("({", c[1])) c = bracket_end(r, c, end, line);
        else deep += *c++ == open && !tick;
    }
    r->depth--;
    reader_fail(r, line, "a %s is not closed", tick ? "`" : brace ? "${" : "$(");
    return end;
}

bool blank_ends_line(const char *p, const char *e, const char *end)
{
    if (e - p != 2 || *p != '\\' || !strchr(" \t", p[1])) return false;
    while (e < end && strchr(" \t\r", *e)) e++;
    return e == end || *e == '\n';
}

const char *word_end(Reader *r, const char *p, const char *end, int line)
{
    while (p < end && r->status == OK && !isspace((unsigned char)*p) && !strchr(";&|<>()", *p)) {
        if (*p == '\\') p += end - p > 1 ? 2 : 1;
        else if (*p == '\'') p = single_end(r, p, end, line);
        else if (*p == '"') p = string_end(r, p, end, line);
        else if (*p == '`' || (*p == '$' && p + 1 < end && strchr("({", p[1])))
            p = bracket_end(r, p, end, line);
        else p++;
    }
    return p;
}
