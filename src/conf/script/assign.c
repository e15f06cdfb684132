/* Assignments: NAME=value, NAME+=value, NAME=( elements ). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conf/script/inside.h"

/* The ] of a [key] that begins at p and has = or += after it; NULL: there is none. A key that is a number is
 * an index. */
static const char *key_end(const char *p, const char *end)
{
    const char *close = p < end && *p == '[' ? memchr(p, ']', (size_t)(end - p)) : NULL;
    if (!close || close + 1 == end || isdigit((unsigned char)p[1])) return NULL;
    return close[1] == '=' || (close[1] == '+' && close + 2 < end && close[2] == '=') ? close : NULL;
}

/* The letters of NAME of a word NAME=, NAME+= or NAME[key]=; 0: it is no assignment. *sign: where = or += is.
 */
size_t assigned_name(const char *p, const char *end, const char **sign)
{
    const char *a = p;
    while (a < end && (isalnum((unsigned char)*a) || *a == '_')) a++;
    size_t letters = (size_t)(a - p);
    if (!letters || isdigit((unsigned char)*p)) return 0;
    const char *close = key_end(a, end);
    if (close) a = close + 1;
    if (a < end && *a == '+' && a + 1 < end && a[1] == '=') a++, *sign = a - 1;
    else *sign = a;
    return a < end && *a == '=' ? letters : 0;
}

/* After the ) of an array, whose elements may have comments between them. */
const char *array_end(Reader *r, const char *p, const char *end, int line)
{
    for (p++; p < end && r->status == OK && *p != ')';) {
        if (isspace((unsigned char)*p)) p++;
        else if (*p == '#')
            while (p < end && *p != '\n') p++;
        else {
            const char *e = word_end(r, p, end, line);
            p             = e > p ? e : p + 1;
        }
    }
    if (p >= end) reader_fail(r, line, "the ( of an array is not closed");
    return p < end ? p + 1 : end;
}

/* [key]=value: the array has it as an element, and so has the variable NAME[key]. p: at the [ */
static void assign_element(Reader *r, ScriptWords *out, const char *array, const char *p, const char *end,
                           int line)
{
    const char *close = key_end(p, end);
    char        name[512];
    if (!close || close[1] != '=') {
        reader_fail(r, line, "%s: += to an element is not understood", array);
        return;
    }
    int         letters = snprintf(name, sizeof name, "%s[%s]", array, expand_text(r, p + 1, close, line));
    const char *value   = expand_text(r, close + 2, end, line);
    if (letters >= (int)sizeof name) {
        reader_fail(r, line, "the name of an element of %.60s has more than 500 bytes", array);
        return;
    }
    Variable *v = variable_make(r, name, (size_t)letters);
    if (!v) return;
    v->values.count = 0;
    words_add(r, &v->values, value, line);
    words_add(r, out, value, line);
}

/* Elements with names are forgotten where the array has a new value. */
static void elements_forget(Reader *r, const char *array)
{
    size_t letters = strlen(array);
    for (int i = 0; i < r->variables; i++)
        if (!strncmp(r->variable[i].name, array, letters) && r->variable[i].name[letters] == '[')
            r->variable[i].values.count = 0;
}

/* *keyed: whether elements have names */
static void array_elements(Reader *r, ScriptWords *out, const char *array, bool *keyed, const char *p,
                           const char *end, int line)
{
    while (p < end && r->status == OK) {
        line += *p == '\n';
        if (isspace((unsigned char)*p) || (*p == '\\' && p + 1 < end && strchr("\r\n", p[1]))) p++;
        else if (*p == '#')
            while (p < end && *p != '\n') p++;
        else {
            const char *e = word_end(r, p, end, line);
            if (e == p) {
                reader_fail(r, line, "%c is in an array without quotes", *p);
                return;
            }
            if (blank_ends_line(p, e, end)) reader_fail(r, line, BLANK_ENDS_LINE);
            *keyed |= key_end(p, e) != NULL;
            if (key_end(p, e)) assign_element(r, out, array, p, e, line);
            else expand_fields(r, out, p, e, line);
            for (; p < e; p++) line += *p == '\n';
        }
    }
}

/* Whether the text names this variable. */
static bool has_name(const char *p, const char *e, const char *name, size_t letters)
{
    for (const char *a = p; a + letters <= e; a++) {
        bool whole = (a == p || !(isalnum((unsigned char)a[-1]) || a[-1] == '_')) &&
                     (a + letters == e || !(isalnum((unsigned char)a[letters]) || a[letters] == '_'));
        if (whole && !strncmp(a, name, letters)) return true;
    }
    return false;
}

/* Whether it adds to the value: A+=x, A="$A x" */
static bool adds(const char *p, const char *e, const char *sign, size_t letters)
{
    return *sign == '+' || has_name(sign + 1, e, p, letters);
}

static const char *unknown_value(Reader *r, const char *before, const char *name, int letters,
                                 const char *why)
{
    char unknown[240];
    int  bytes = snprintf(unknown, sizeof unknown, "%s%c${%.*s}, %s,%c", before, UNKNOWN_BEGIN, letters, name,
                          why, UNKNOWN_END);
    return reader_hold(r, unknown, (size_t)bytes);
}

void assign_in_loop(Reader *r, const char *p, const char *e, int line)
{
    const char *sign;
    size_t      letters = assigned_name(p, e, &sign);
    if (letters > 100 || !adds(p, e, sign, letters)) return;
    Variable *v = variable_make(r, p, letters);
    if (!v) return;
    v->values.count = 0;
    words_add(r, &v->values, unknown_value(r, "", p, (int)letters, "made by a loop"), line);
}

void assign_in_doubt(Reader *r, const char *p, const char *e, int line)
{
    const char *sign;
    size_t      letters = assigned_name(p, e, &sign);
    char        name[104];
    if (letters > 100) return;
    const char *more  = adds(p, e, sign, letters) ? "+" : "";
    int         bytes = snprintf(name, sizeof name, "%s%.*s", more, (int)letters, p);
    words_add(r, &r->doubtful, reader_hold(r, name, (size_t)bytes), line);
}

/* What was added would be options, most likely: as one whose name is unknown it is refused alone, and what
 * was there before stays. */
static void doubt_value(Reader *r, const char *name, bool added, int line)
{
    static const char why[] = "set under a condition that is not known";
    Variable         *v     = variable_make(r, name, strlen(name));
    if (!v) return;
    ScriptWord *last = v->values.count ? &v->values.word[v->values.count - 1] : NULL;
    if (!added || !last || (!v->array && script_unknown(last->text))) {
        v->values.count = 0;
        words_add(r, &v->values, unknown_value(r, added ? "--" : "", name, (int)strlen(name), why), line);
    } else if (v->array) {
        if (last->line != line || !script_unknown(last->text))
            words_add(r, &v->values, unknown_value(r, "--", name, (int)strlen(name), why), line);
    } else {
        const char *more = unknown_value(r, " --", name, (int)strlen(name), why);
        size_t      was = strlen(last->text), size = was + strlen(more) + 1;
        char       *both = malloc(size);
        if (both) memcpy(both, last->text, was), memcpy(both + was, more, size - was);
        if (both) last->text = reader_hold(r, both, size - 1);
        free(both);
    }
}

void doubt_ends(Reader *r)
{
    for (int i = 0; i < r->doubtful.count && r->status == OK; i++) {
        const char *name = r->doubtful.word[i].text;
        doubt_value(r, name + (*name == '+'), *name == '+', r->doubtful.word[i].line);
    }
    if (--r->doubts == 0) r->doubtful.count = 0;
}

void assign(Reader *r, const char *p, const char *e, int line)
{
    const char *sign;
    size_t      letters = assigned_name(p, e, &sign);
    bool        more = *sign == '+', array = sign[1 + more] == '(', keyed = p[letters] == '[';
    const char *value = sign + 1 + more, *name = reader_hold(r, p, letters);
    ScriptWords words = {0};
    r->assigning   = name;
    if (array && !more) elements_forget(r, name);
    if (array) array_elements(r, &words, name, &keyed, value + 1, e - 1, line);
    else if (keyed) assign_element(r, &words, name, p + letters, e, line);
    else words_add(r, &words, expand_text(r, value, e, line), line);
    r->assigning = NULL;
    Variable *v     = variable_make(r, p, letters);
    if (!array && v && words.count && script_unset(words.word[0].text) &&
        isdigit((unsigned char)words.word[0].text[2])) {
        char unset[256]; /* SAVE=$1 is known as SAVE */
        int  bytes         = snprintf(unset, sizeof unset, "\x01$%.200s\x02", name);
        words.word[0].text = reader_hold(r, unset, (size_t)bytes);
    }
    if (v && more && !array && v->values.count && words.count) {
        const char *was = v->values.word[0].text, *now = words.word[0].text;
        size_t      size = strlen(was) + strlen(now) + 1;
        char       *both = malloc(size);
        if (both) snprintf(both, size, "%s%s", script_unset(was) ? "" : was, now);
        if (both) v->values.word[0].text = reader_hold(r, both, strlen(both));
        free(both);
    } else if (v) {
        bool element = keyed && !array; /* one more of them */
        if (!more && !element) v->values.count = 0;
        for (int i = 0; i < words.count; i++)
            words_add(r, &v->values, words.word[i].text, words.word[i].line);
        v->keyed = keyed || ((more || element) && v->keyed);
        v->array = array || element;
    }
    free(words.word);
}
