/* Tests of [ ], [[ ]] and test, as far as variables decide them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "conf/script/inside.h"

enum { NO, YES, UNKNOWN = -1 };

typedef struct {
    Reader            *r;
    const ScriptWords *words;
    int                at;
    bool               patterns;
    int                depth;
} Test;

static const char *peek(const Test *t)
{
    return t->at < t->words->count ? t->words->word[t->at].text : NULL;
}

static bool next_is(Test *t, const char *word)
{
    bool is = peek(t) && !strcmp(peek(t), word);
    t->at += is;
    return is;
}

/* [abc], [a-z], [!a]: whether the set that begins at *p has c; *p: after it. */
static bool in_set(const char **p, char c)
{
    const char *a = *p + 1;
    bool not = *a == '!' || *a == '^', has = false;
    for (a += not ; *a && *a != ']'; a++) {
        bool range = a[1] == '-' && a[2] && a[2] != ']';
        has |= range ? c >= a[0] && c <= a[2] : c == *a;
        a += range ? 2 : 0;
    }
    *p = *a ? a + 1 : a;
    return has != not ;
}

/* A star first takes nothing; where the rest does not match it takes a letter more. */
bool text_matches(Reader *r, const char *text, const char *pattern)
{
    const char *star = NULL, *resume = NULL;
    r->work += (strlen(text) + 1) * (strlen(pattern) + 1);
    if (r->work > SCRIPT_WORK) reader_fail(r, r->counted_line, "its patterns take too long to compare");
    while (*text && r->status == OK) {
        const char *next = pattern + 1;
        if (*pattern == '*') {
            star = pattern++, resume = text;
            continue;
        }
        bool same = *pattern == '?' || (*pattern == '['      ? next = pattern,
                                        in_set(&next, *text) : *pattern == '\\' && pattern[1] ? next++,
                                        pattern[1] == *text : *pattern == *text);
        if (same && *pattern) pattern = next, text++;
        else if (star) pattern = star + 1, text = ++resume;
        else return false;
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static int number(const char *text, long long *value)
{
    char *end;
    *value = strtoll(text, &end, 10);
    return end > text && !*end;
}

static int compare(const Test *t, const char *a, const char *sign, const char *b)
{
    static const char *const signs[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    bool                     same = t->patterns ? text_matches(t->r, a, b) || !strcmp(a, b) : !strcmp(a, b);
    long long                x, y;
    if (!strcmp(sign, "=") || !strcmp(sign, "==")) return same;
    if (!strcmp(sign, "!=")) return !same;
    if (!strcmp(sign, "<")) return strcmp(a, b) < 0;
    if (!strcmp(sign, ">")) return strcmp(a, b) > 0;
    for (int i = 0; i < 6; i++) {
        if (strcmp(sign, signs[i])) continue;
        if (!number(a, &x) || !number(b, &y)) return UNKNOWN;
        bool is[6] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
        return is[i];
    }
    return UNKNOWN;
}

static bool is_sign(const char *word)
{
    static const char *const signs[] = {"=",   "==",  "!=",  "=~",  "<",   ">",   "-eq", "-ne",
                                        "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"};
    for (size_t i = 0; word && i < sizeof signs / sizeof signs[0]; i++)
        if (!strcmp(word, signs[i])) return true;
    return false;
}

static int either(Test *t);

/* Files are not looked at: what is there may differ where the script is run. */
static int term(Test *t)
{
    if (!peek(t) || t->depth > SCRIPT_DEPTH) return UNKNOWN;
    if (next_is(t, "!")) {
        t->depth++;
        int is = term(t);
        return is == UNKNOWN ? UNKNOWN : !is;
    }
    if (t->patterns && next_is(t, "(")) {
        t->depth++;
        int is = either(t);
        return next_is(t, ")") ? is : UNKNOWN;
    }
    const char *a = tested_text(t->r, t->words->word[t->at++].text);
    if (is_sign(peek(t)) && t->at + 1 < t->words->count) {
        const char *sign = t->words->word[t->at].text, *b = tested_text(t->r, t->words->word[t->at + 1].text);
        t->at += 2;
        if (script_unknown(a) || script_unknown(b)) return UNKNOWN;
        return compare(t, a, sign, b);
    }
    if (script_unknown(a)) return UNKNOWN;
    if (a[0] != '-' || !isalpha((unsigned char)a[1]) || a[2] || !peek(t)) return *a != 0;
    const char *b = tested_text(t->r, t->words->word[t->at++].text);
    return script_unknown(b) ? UNKNOWN : a[1] == 'z' ? !*b : a[1] == 'n' ? *b != 0 : UNKNOWN;
}

static int both(Test *t)
{
    int is = term(t);
    while (next_is(t, "&&") || next_is(t, "-a")) {
        int other = term(t);
        is        = is == NO || other == NO ? NO : is == YES && other == YES ? YES : UNKNOWN;
    }
    return is;
}

static int either(Test *t)
{
    int is = both(t);
    while (next_is(t, "||") || next_is(t, "-o")) {
        int other = both(t);
        is        = is == YES || other == YES ? YES : is == NO && other == NO ? NO : UNKNOWN;
    }
    return is;
}

int condition(Reader *r, const ScriptWords *words, bool patterns)
{
    Test t = {r, words, 0, patterns, 0};
    if (!words->count) return NO;
    int is = either(&t);
    return t.at == words->count ? is : UNKNOWN;
}
