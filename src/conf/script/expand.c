/* Words of a script to texts: quotes, variables with their operators, arrays, arithmetic, and where unquoted
 * values are split. What only a command could tell becomes an unknown part. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conf/script/inside.h"

/* The field that is being made, of the fields that are. begun: it is one even if it is empty, by its quotes.
 */
typedef struct {
    Reader      *r;
    ScriptWords *out; /* NULL: one text, which is not split */
    char        *text;
    size_t       used, size;
    bool         begun;
    bool         here; /* of <<EOF, where " is a letter */
    int          line; /* of the word; of a value split off from a variable, the variable's */
} Field;

static void expand_part(Field *f, const char *p, const char *end, bool quoted, int line);

static void put(Field *f, const char *text, size_t bytes)
{
    if (f->r->status != OK || !bytes) return;
    if (f->used + bytes + 1 > f->size) {
        size_t size  = (f->used + bytes + 1) * 2;
        char  *grown = f->used + bytes < SCRIPT_TEXT ? realloc(f->text, size) : NULL;
        if (!grown) {
            reader_fail(f->r, f->line, "a value has more than %d bytes", SCRIPT_TEXT);
            return;
        }
        f->text = grown, f->size = size;
    }
    memcpy(f->text + f->used, text, bytes);
    f->used += bytes;
    f->text[f->used] = 0;
    f->begun         = true;
}

static void field_ends(Field *f, int next_line)
{
    if (f->begun && f->out)
        words_add(f->r, f->out, reader_hold(f->r, f->text ? f->text : "", f->used), f->line);
    f->used = 0, f->begun = false, f->line = next_line;
}

/* A value: whole within quotes, else split at blanks. */
static void put_value(Field *f, const char *value, bool quoted, int line)
{
    if (quoted || !f->out) {
        put(f, value, strlen(value));
        f->begun |= quoted;
        return;
    }
    bool unknown = false;
    for (const char *c = value; *c; c++) {
        unknown = *c == UNKNOWN_BEGIN || (unknown && *c != UNKNOWN_END);
        if (!unknown && strchr(" \t\n", *c)) field_ends(f, line);
        else {
            if (!f->begun) f->line = line;
            put(f, c, 1);
        }
    }
}

/* `pwd`: where the script runs is where its paths are read. */
static bool is_pwd(const char *p, const char *end)
{
    while (p < end && *p == ' ') p++;
    while (end > p && end[-1] == ' ') end--;
    return end - p == 3 && !strncmp(p, "pwd", 3);
}

/* An unknown part, named as it is in the script. */
static void put_unknown(Field *f, const char *sigil, const char *p, size_t bytes)
{
    char begin = UNKNOWN_BEGIN, end = UNKNOWN_END;
    if (f->r->testing && (!strcmp(sigil, "$") || !strcmp(sigil, "${"))) return;
    bool closed = bytes && (p[bytes - 1] == ')' || p[bytes - 1] == '`');
    if (*sigil != '$' || sigil[1])
        if (is_pwd(p, p + bytes - closed)) {
            put(f, ".", 1);
            return;
        }
    put(f, &begin, 1);
    put(f, sigil, strlen(sigil));
    for (size_t i = 0; i < bytes && i < 60; i++)
        if (p[i] != UNKNOWN_BEGIN && p[i] != UNKNOWN_END) put(f, p[i] == '\n' ? " " : p + i, 1);
    put(f, &end, 1);
}

/* ---- ${name}, and what may follow the name ---- */

typedef struct {
    const char       *name;
    size_t            letters;
    const ScriptWord *word;
    int               count;
    bool              all, set;
    bool              joined; /* [*]: within quotes one text */
    bool              keyed;  /* of an array whose elements have names, which has none of this name */
    ScriptWord        own;
} Parameter;

static const ScriptWord *from_environment(Parameter *p, Reader *r)
{
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)p->letters, p->name);
    const char *value =
        p->letters < sizeof name && (isalpha((unsigned char)*name) || *name == '_') ? getenv(name) : NULL;
    if (!value || strlen(value) > SCRIPT_TEXT) return NULL;
    for (const char *c = value; *c; c++)
        if (*c == UNKNOWN_BEGIN || *c == UNKNOWN_END) return NULL;
    p->own = (ScriptWord){reader_hold(r, value, strlen(value)), 0};
    return &p->own;
}

/* [@], [*], [3] or nothing after the name; returns what follows. */
static const char *index_of(Reader *r, Parameter *p, const char *at, const char *end, const Variable *v,
                            int line)
{
    int64_t index = 0;
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close) {
            reader_fail(r, line, "a [ is not closed");
            return end;
        }
        p->all    = close == at + 2 && (at[1] == '@' || at[1] == '*');
        p->joined = p->all && at[1] == '*';
        if (!p->all && v && v->keyed) {
            const ScriptWord *element = element_find(r, v, expand_text(r, at + 1, close, line));
            p->word = element, p->count = p->set = element != NULL, p->keyed = !element;
            return close + 1;
        }
        if (!p->all && !arithmetic(r, &index, expand_text(r, at + 1, close, line), line)) index = -1;
        at = close + 1;
    }
    if (v && p->all) p->word = v->values.word, p->count = v->values.count;
    else if (v && index >= 0 && index < v->values.count) p->word = v->values.word + index, p->count = 1;
    else if (!v && !p->all && index == 0) p->word = from_environment(p, r), p->count = p->word != NULL;
    p->set = p->word != NULL;
    return at;
}

/* The parameter whose name begins at `at`; returns what follows it. $# $? and the like are given as numbers.
 */
static const char *parameter(Reader *r, Parameter *p, const char *at, const char *end, int line)
{
    p->name = at;
    while (at < end && (isalnum((unsigned char)*at) || *at == '_')) at++;
    if (at == p->name && at < end) at++; /* one sign: @ * # ? */
    p->letters = (size_t)(at - p->name);
    if (p->letters == 1 && strchr("@*", *p->name)) {
        p->word = r->given.word, p->count = r->given.count, p->all = p->set = true;
        p->joined = *p->name == '*';
        return at;
    }
    if (p->letters && isdigit((unsigned char)*p->name)) {
        long number = strtol(p->name, NULL, 10);
        if (number >= 1 && number <= r->given.count)
            p->word = r->given.word + number - 1, p->count = 1, p->set = true;
        return at;
    }
    if (p->letters == 1 && *p->name == '#') {
        char count[24];
        snprintf(count, sizeof count, "%d", r->given.count);
        p->own  = (ScriptWord){reader_hold(r, count, strlen(count)), line};
        p->word = &p->own, p->count = 1, p->set = true;
        return at;
    }
    const Variable *v = variable_find(r, p->name, p->letters);
    return index_of(r, p, at, end, v, line);
}

static bool empty(const Parameter *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->word[i].text[0] && !script_unset(p->word[i].text)) return false;
    return true;
}

/* A[@] within quotes is a field for each element. An array that was not set is nothing; another name is
 * unknown, but for the one that is being assigned. */
static void put_parameter(Field *f, const Parameter *p, bool quoted)
{
    const char *own  = f->r->assigning;
    bool        self = own && strlen(own) == p->letters && !strncmp(own, p->name, p->letters);
    if (!p->set && !p->all && !self) put_unknown(f, "$", p->name, p->letters);
    for (int i = 0; i < p->count && f->r->status == OK; i++) {
        if (i && f->out && !(quoted && p->joined)) field_ends(f, p->word[i].line);
        else if (i) put(f, " ", 1);
        if (f->out && !f->begun && p->word[i].line) f->line = p->word[i].line;
        put_value(f, p->word[i].text, quoted, p->word[i].line ? p->word[i].line : f->line);
    }
    f->begun |= quoted && (!p->all || p->joined);
}

/* ${A%pattern}, ${A##pattern}: the shortest or longest end or beginning that matches is left out. */
static const char *cut(Reader *r, const char *text, const char *pattern, char sign, bool longest)
{
    size_t bytes = strlen(text);
    if (bytes > 1024) return text;
    char       *copy   = malloc(bytes + 1);
    const char *result = text;
    for (size_t k = 0; copy && k <= bytes; k++) {
        size_t n = longest ? bytes - k : k; /* bytes that are left out */
        memcpy(copy, text, bytes + 1);
        const char *part = sign == '%' ? copy + bytes - n : copy;
        if (sign == '#') copy[n] = 0;
        if (!text_matches(r, part, pattern)) continue;
        result = sign == '%' ? reader_hold(r, text, bytes - n) : text + n;
        break;
    }
    free(copy);
    return result;
}

static void put_changed(Field *f, const Parameter *p, const char *sign, const char *end, bool quoted)
{
    char        c       = *sign;
    bool        doubled = sign + 1 < end && sign[1] == c;
    const char *pattern = c == '^' || c == ',' ? "" : expand_text(f->r, sign + 1 + doubled, end, f->line);
    if (!p->set) {
        put_unknown(f, "$", p->name, p->letters);
        return;
    }
    Parameter changed = *p;
    for (int i = 0; i < p->count; i++) {
        const char *text = p->word[i].text;
        if (c == '%' || c == '#') text = script_unknown(text) ? text : cut(f->r, text, pattern, c, doubled);
        else {
            char *copy = (char *)(uintptr_t)reader_hold(f->r, text, strlen(text));
            for (char *a = copy; *a && f->r->status == OK && !script_unknown(text); a++) {
                *a = (char)(c == '^' ? toupper((unsigned char)*a) : tolower((unsigned char)*a));
                if (!doubled) break;
            }
            text = copy;
        }
        changed.own  = (ScriptWord){text, p->word[i].line};
        changed.word = &changed.own, changed.count = 1;
        if (i) put(f, " ", 1);
        put_parameter(f, &changed, quoted);
    }
}

/* ${A:-word} and its kin. p: what follows the name */
static void put_default(Field *f, Parameter *p, const char *at, const char *end, bool quoted)
{
    bool        colon = *at == ':';
    char        sign  = at[colon];
    const char *word  = at + colon + 1;
    bool        given = p->set && !(colon && empty(p)) && !(p->count && script_unset(p->word[0].text));
    if (sign == '+') {
        if (given) expand_part(f, word, end, quoted, f->line);
    } else if (given || sign == '?') put_parameter(f, p, quoted);
    else {
        expand_part(f, word, end, quoted, f->line);
        if (sign != '=') return;
        Variable *v = variable_make(f->r, p->name, p->letters);
        if (v)
            v->values.count = 0, words_add(f->r, &v->values, expand_text(f->r, word, end, f->line), f->line);
    }
}

static void put_braces(Field *f, const char *p, const char *end, bool quoted)
{
    Parameter   a      = {0};
    const char *whole  = p;
    bool        length = p < end && *p == '#' && end - p > 1;
    const char *at     = parameter(f->r, &a, p + length, end, f->line);
    if (f->r->status != OK) return;
    if (length && at == end) {
        char text[24];
        snprintf(text, sizeof text, "%zu", a.all ? (size_t)a.count : a.count ? strlen(a.word[0].text) : 0);
        put_value(f, text, quoted, f->line);
    } else if (a.keyed && (at == end || strchr("%#^,", *at)))
        put_unknown(f, "${", whole, (size_t)(end + 1 - whole));
    else if (at == end) put_parameter(f, &a, quoted);
    else if (strchr("-=+?", *at) || (*at == ':' && at + 1 < end && strchr("-=+?", at[1])))
        put_default(f, &a, at, end, quoted);
    else if (strchr("%#^,", *at)) put_changed(f, &a, at, end, quoted);
    else put_unknown(f, "${", whole, (size_t)(end + 1 - whole));
}

static void put_arithmetic(Field *f, const char *p, const char *end, bool quoted)
{
    int64_t     value;
    char        text[32];
    const char *expression = expand_text(f->r, p, end, f->line);
    if (f->r->status != OK) return;
    if (script_unknown(expression) || !arithmetic(f->r, &value, expression, f->line)) {
        put_unknown(f, "$((", p, (size_t)(end + 2 - p));
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_value(f, text, quoted, f->line);
}

/* What begins with a $; returns what follows it. */
static const char *put_dollar(Field *f, const char *p, const char *end, bool quoted)
{
    Parameter a = {0};
    if (p + 1 == end || (!isalnum((unsigned char)p[1]) && !strchr("_@*#?$!-{(", p[1]))) {
        put(f, "$", 1);
        return p + 1;
    }
    if (p[1] == '{' || p[1] == '(') {
        const char *after = bracket_end(f->r, p, end, f->line);
        bool        sum   = end - p > 2 && p[1] == '(' && p[2] == '(' && after - p >= 5 && after[-2] == ')';
        if (f->r->status != OK) return end;
        if (p[1] == '{') put_braces(f, p + 2, after - 1, quoted);
        else if (sum) put_arithmetic(f, p + 3, after - 2, quoted);
        else put_unknown(f, "$(", p + 2, (size_t)(after - p - 2));
        return after;
    }
    if (strchr("?$!-", p[1])) {
        put_unknown(f, "$", p + 1, 1);
        return p + 2;
    }
    bool        digit = isdigit((unsigned char)p[1]);
    const char *after = p + 2;
    while (!digit && after < end && (isalnum((unsigned char)*after) || *after == '_') && !strchr("@*#", p[1]))
        after++;
    parameter(f->r, &a, p + 1, after, f->line);
    put_parameter(f, &a, quoted);
    return after;
}

/* ---- words ---- */

static const char *put_single(Field *f, const char *p, const char *end)
{
    const char *close = memchr(p + 1, '\'', (size_t)(end - p - 1));
    if (!close) close = end;
    put(f, p + 1, (size_t)(close - p - 1));
    f->begun = true;
    return close < end ? close + 1 : end;
}

static const char *put_escaped(Field *f, const char *p, const char *end, bool quoted)
{
    if (p + 1 == end) return end;
    if (p[1] == '\n') return p + 2;
    if (quoted && !strchr("$`\"\\", p[1])) put(f, p, 2);
    else put(f, p + 1, 1);
    return p + 2;
}

/* The " that closes the one at p, or `end`. */
static const char *double_end(Reader *r, const char *p, const char *end, int line)
{
    for (p++; p < end && *p != '"';) {
        bool bracket = *p == '`' || (*p == '$' && p + 1 < end && strchr("({", p[1]));
        p            = bracket ? bracket_end(r, p, end, line) : p + 1 + (*p == '\\');
    }
    return p < end ? p : end;
}

/* "" is a field, "${A[@]}" of an empty array is none. */
static const char *put_double(Field *f, const char *p, const char *end, bool quoted, int line)
{
    if (quoted) { /* within "${A:-"x"}" */
        if (f->here) put(f, p, 1);
        return p + 1;
    }
    const char *close = double_end(f->r, p, end, line);
    expand_part(f, p + 1, close, true, line);
    f->begun |= !memchr(p, '@', (size_t)(close - p));
    return close < end ? close + 1 : end;
}

static void expand_part(Field *f, const char *p, const char *end, bool quoted, int line)
{
    if (++f->r->depth > SCRIPT_DEPTH)
        reader_fail(f->r, line, "brackets are nested more than %d deep", SCRIPT_DEPTH);
    while (p < end && f->r->status == OK) {
        if (*p == '\'' && !quoted) p = put_single(f, p, end);
        else if (*p == '"') p = put_double(f, p, end, quoted, line);
        else if (*p == '\\') p = put_escaped(f, p, end, quoted);
        else if (*p == '$' && !quoted && p + 1 < end && strchr("'\"", p[1])) p++;
        else if (*p == '$') p = put_dollar(f, p, end, quoted);
        else if (*p == '`') {
            const char *after = bracket_end(f->r, p, end, line);
            put_unknown(f, "`", p + 1, (size_t)(after - p - 1));
            p = after;
        } else put(f, p++, 1);
    }
    f->r->depth--;
}

void expand_fields(Reader *r, ScriptWords *out, const char *p, const char *end, int line)
{
    Field f = {.r = r, .out = out, .line = line};
    expand_part(&f, p, end, false, line);
    field_ends(&f, line);
    free(f.text);
}

static const char *expand_as(Reader *r, const char *p, const char *end, int line, bool here)
{
    Field f = {.r = r, .line = line, .here = here};
    expand_part(&f, p, end, here, line);
    const char *text = reader_hold(r, f.text ? f.text : "", f.used);
    free(f.text);
    return text;
}

const char *expand_text(Reader *r, const char *p, const char *end, int line)
{
    return expand_as(r, p, end, line, false);
}

const char *expand_here(Reader *r, const char *p, const char *end, int line)
{
    return expand_as(r, p, end, line, true);
}
