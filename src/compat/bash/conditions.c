/* Conditions that answers decide. Other answers need not change the outcome: [ $GPUS -ge 64 ] is false for 4
 * and for 6. So each such condition gets its other outcome by a change of the script's text, and the script
 * runs again: where a word then differs, what this machine answers decides it.
 *
 *     if [ $GPUS -ge 64 ]; then        if ! [ $GPUS -ge 64 ]; then
 *     case $(hostname) in gpu*)        case jotun in *|gpu*)
 *     N=$((GPUS > 8 ? 2 : 1))          N=$((GPUS <= 8 ? 2 : 1))
 *     while [ $GPUS -ge 64 ]           while false && [ $GPUS -ge 64 ]
 *
 * A condition is one of those if its operands differ between two runs, a program answers within it, or it
 * names a variable of which the same is true. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/buffer.h"
#include "compat/bash/trace.h"

typedef struct {
    const char *from, *to;
} Span;

/* A variable that has depended on answers, and whether it does at this entry. */
typedef struct {
    const char *text;
    size_t letters;
    bool now;
} Name;

typedef struct {
    Edit *edit;
    int edits, most;
    const Sources *s;
    Run *base, *other;
    Texts *texts;
    Name *name; /* [names] */
    int names, room;
    int inside;
    bool compared; /* both runs reach a program */
} Search;

/* ---- variables ---- */

static Name *find_name(const Search *f, const char *text, size_t letters)
{
    for (int i = 0; i < f->names; i++)
        if (f->name[i].letters == letters && !memcmp(f->name[i].text, text, letters)) return &f->name[i];
    return NULL;
}

static bool names_any(const Search *f, const char *text, const char *end)
{
    for (const char *p = text, *next; p < end; p = next) {
        for (next = p; next < end && is_name_letter(*next);) next++;
        const Name *name = next > p ? find_name(f, p, (size_t)(next - p)) : NULL;
        if (name && name->now) return true;
        if (next == p) next++;
    }
    return false;
}

static void set_name(Search *f, const char *text, size_t letters, bool answered)
{
    Name *name = find_name(f, text, letters);
    if (name) name->now = answered;
    if (name || !answered) return;
    ARRAY_RESERVE_OR_STOP(f->name, f->room, f->names + 1);
    f->name[f->names++] = (Name){ text, letters, true };
}

/* NAME of NAME=..., export NAME=..., for NAME in; *letters 0: the entry sets none. */
static const char *name_set(const char *text, size_t *letters)
{
    static const char *const words[] = { "export ", "local ", "declare ", "typeset ", "readonly ", "for " };
    for (int i = 0; i < COUNT(words); i++) {
        size_t n = strlen(words[i]);
        if (strncmp(text, words[i], n)) continue;
        for (text += n; *text == '-'; text += strspn(text, " ")) text += strcspn(text, " ");
        for (*letters = 0; is_name_letter(text[*letters]);) ++*letters;
        return text;
    }
    *letters = assigned_letters(text);
    return text;
}

/* Whether an entry's line names such a variable, behind the one that it sets: N=$((GPUS * 8)); M=2. One that
 * reads words depends on all programs of its line: nvidia-smi | while read N. */
static bool line_names(const Search *f, const TraceEntry *e, const char *name, size_t letters, bool reads)
{
    int bytes;
    const char *line = source_line(f->s, e->file, e->line, &bytes), *end = line + bytes, *at = line;
    while (letters && (at = memmem(at, (size_t)(end - at), name, letters)) && !strchr("=+", at[letters]))
        at++;
    const char *stop = letters && at ? memchr(at, ';', (size_t)(end - at)) : NULL;
    if (reads && names_any(f, line, end)) return true; /* read N <<< "$GPUS" */
    for (int i = 0; reads && i < f->base->calls; i++)
        if (find_word(line, end, f->base->call[i].name)) return true;
    if (!stop) stop = end;
    return (at && names_any(f, at + letters, stop)) ||
           names_any(f, e->text + letters, e->text + strlen(e->text));
}

static void follow_names(Search *f, TraceEntry *e)
{
    size_t letters;
    const char *name = name_set(e->text, &letters);
    bool reads = !strncmp(e->text, "read ", 5) || !strncmp(e->text, "mapfile ", 8) ||
                 !strncmp(e->text, "readarray ", 10);
    if (!letters && !reads) return;
    e->answered |= (e->twin ? strcmp(e->twin->text, e->text) != 0 : f->compared) ||
                   entry_answered(f->s, f->base, f->other, e) || line_names(f, e, name, letters, reads);
    if (letters) set_name(f, name, letters, e->answered);
    for (const char *p = e->text; reads && *p; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        for (letters = 0; is_name_letter(p[letters]);) letters++;
        if (letters && p > e->text) set_name(f, p, letters, e->answered);
    }
}

/* ---- conditions ---- */

static const struct {
    const char *traced, *open, *close;
} kinds[] = { { "'[' ", "[ ", " ]" }, { "[ ", "[ ", " ]" },      { "test ", "test ", "\n" },
              { "[[ ", "[[ ", " ]]" }, { "((", "((", "))" }, { "case ", "case ", " in" } };
enum { CASE = COUNT(kinds) - 1 };

/* Words of the traced condition that the source has as well. */
static int words_in(const char *traced, Span span)
{
    char word[64];
    int count = 0;
    for (const char *p = traced; *p; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
        count += *word && memmem(span.from, (size_t)(span.to - span.from), word, strlen(word)) != NULL;
    }
    return count;
}

enum { LIKE_MOST = 4 };

/* In the lines around the entry's, where the shell may count it: the one that has most of its words, or those
 * that have as many. Returns how many they are. */
static int find_condition(Span best[LIKE_MOST], const SourceText *t, const TraceEntry *e, int kind)
{
    const char *open = kinds[kind].open;
    int most = -100, count = 0;
    for (int line = e->line + 1; line > e->line - 6; line--) {
        if (line < 1 || line > t->lines) continue;
        for (const char *at = t->line[line - 1];
             (at = memmem(at, (size_t)(t->line[line] - at), open, strlen(open))); at++) {
            const char *end = t->line[t->lines], *close = strstr(at, kinds[kind].close);
            bool word = at == t->text || !(is_name_letter(at[-1]) || strchr("$[({-/.", at[-1])) ||
                        (at[-1] == '(' && kind != 4);
            if (!word || (close && close - at > 2000)) continue;
            Span span = { at, close ? close + strlen(kinds[kind].close) : end };
            int score = 10 * words_in(e->text, span) - abs(line - e->line) - 3 * (line > e->line);
            if (score > most) most = score, count = 0;
            if (score == most && count < LIKE_MOST) best[count++] = span;
        }
    }
    return count;
}

/* Whether a condition follows this word. */
static bool is_behind(const SourceText *t, const char *at, const char *word)
{
    const char *begin = at - strlen(word);
    while (at > t->text && (isspace((unsigned char)at[-1]) || at[-1] == '!')) at--, begin--;
    return begin >= t->text && !strncmp(begin, word, strlen(word));
}

static void add_edit(Search *f, const SourceText *t, const char *from, const char *to, const char *text,
                     const TraceEntry *e)
{
    for (int i = 0; i < f->edits && i < f->most; i++)
        if (f->edit[i].from == from && !strcmp(f->edit[i].text, text)) return;
    if (f->edits >= f->most) {
        f->edits = f->most + 1;
        return;
    }
    const char *cause = entry_cause(f->s, f->base, f->other, e, f->texts);
    f->edit[f->edits++] = (Edit){ t, from, to, text, cause, f->inside };
}

/* Each branch of a case is reached once: its pattern becomes *, and the word one that no pattern has. */
static void add_case(Search *f, const SourceText *t, Span word, const TraceEntry *e)
{
    const char *end = t->line[t->lines], *p = word.to, *from = word.from + 5, *to = word.to - 3;
    for (int depth = 0; p < end && depth >= 0; p += strspn(p, ";&")) {
        while (p < end && (isspace((unsigned char)*p) || *p == '(')) p++;
        while (*p == '#') p += strcspn(p, "\n"), p += strspn(p, " \t\r\n");
        const char *close = p + strcspn(p, ")\n");
        if (close >= end || *close != ')' || !strncmp(p, "esac", 4)) break;
        const char *other = texts_keep(f->texts, to, p - to);
        add_edit(f, t, from, p, texts_join(f->texts, "jotun", 5, other, "*|"), e);
        for (p = close + 1; p < end; p++) {
            bool begins = !is_name_letter(p[-1]) && p[-1] != '$';
            if (begins && !strncmp(p, "case ", 5)) depth++;
            if (begins && !strncmp(p, "esac", 4) && --depth < 0) break;
            if (!depth && (!strncmp(p, ";;", 2) || !strncmp(p, ";&", 2))) break;
        }
    }
    add_edit(f, t, from, to, "jotun", e);
}

/* The condition of a loop is true once before it counts, and false at once. */
static void add_condition(Search *f, const SourceText *t, const char *at, const TraceEntry *e)
{
    bool until = is_behind(t, at, "until");
    if (is_behind(t, at, "for")) return;
    if (!until && !is_behind(t, at, "while")) {
        add_edit(f, t, at, at, "! ", e);
        return;
    }
    add_edit(
        f, t, at, at,
        until ? "! { [ -z \"${jotun-}\" ] && jotun=1; } && " : "{ [ -z \"${jotun-}\" ] && jotun=1; } || ", e);
    add_edit(f, t, at, at, until ? "true || " : "false && ", e);
}

static bool is_same_line(const TraceEntry *a, const TraceEntry *b)
{
    return a->line == b->line && !strcmp(a->file, b->file);
}

static void find_conditions(Search *f, const TraceEntry *e)
{
    const SourceText *t = source_find(f->s, e->file);
    int kind = 0;
    while (kind < COUNT(kinds) && strncmp(e->text, kinds[kind].traced, strlen(kinds[kind].traced))) kind++;
    if (!t || kind == COUNT(kinds) || strstr(e->text, "/latest")) return;
    Span like[LIKE_MOST];
    int likes = find_condition(like, t, e, kind), nth = 0; /* [ $A = 1 ] && [ $B = 1 ] */
    for (const TraceEntry *b = e; nth + 1 < likes && b-- > f->base->entry && is_same_line(b, e);)
        nth += !strncmp(b->text, kinds[kind].traced, strlen(kinds[kind].traced));
    bool differs = e->twin && strcmp(e->twin->text, e->text);
    if (!likes || (!differs && !entry_answered(f->s, f->base, f->other, e) &&
                   !names_any(f, like[nth].from, like[nth].to)))
        return;
    if (kind == CASE) add_case(f, t, like[nth], e);
    else add_condition(f, t, like[nth].from, e);
}

/* What grep finds in an answer, or whether a file is there, decides as a condition does by if, && and ||:
 * if nvidia-smi | grep -q H100; then */
static void find_searches(Search *f, const TraceEntry *e)
{
    static const char *const searches[] = { "grep ", "egrep ", "fgrep ", "cmp ",  "diff ",
                                            "ls ",   "cat ",   "stat ",  "shopt " };
    const SourceText *t = source_find(f->s, e->file);
    bool searches_text = false, answered;
    for (int i = 0; i < COUNT(searches); i++)
        searches_text |= !strncmp(e->text, searches[i], strlen(searches[i]));
    if (!searches_text || !t || e->line < 1 || e->line > t->lines) return;
    const char *begin = t->line[e->line - 1], *end = t->line[e->line];
    answered = names_any(f, begin, end) || entry_answered(f->s, f->base, f->other, e);
    for (int i = 0; i < f->base->calls && !answered; i++)
        answered = find_word(begin, end, f->base->call[i].name) != NULL;
    for (const char *p = begin; answered && p + 2 < end; p++) {
        bool first = p == begin || isspace((unsigned char)p[-1]) || p[-1] == ';';
        size_t letters = !strncmp(p, "if ", 3) ? 3 : !strncmp(p, "elif ", 5) ? 5 : 0;
        if (first && letters) add_edit(f, t, p + letters, p + letters, "! ", e);
        if (!strncmp(p, "&&", 2)) add_edit(f, t, p, p + 2, "||", e);
        if (!strncmp(p, "||", 2)) add_edit(f, t, p, p + 2, "&&", e);
    }
}

/* Comparisons in arithmetic, of bash or of a program that calculates, in a line that has such a name; there
 * only with a number behind them, since < and > may be redirections. */
static void find_comparisons(Search *f, const SourceText *t, const char *line, const char *end,
                             const TraceEntry *e)
{
    static const char *const operators[][2] = { { ">=", "<" },       { "<=", ">" }, { "==", "!=" },
                                                { "!=", "==" },      { ">", "<=" }, { "<", ">=" },
                                                { " ? ", " || 1 ? " } };
    static const char *const openings[] = { "$((", "let ", "awk ", "bc ", "expr " };
    const char *open = NULL;
    for (int i = 0; i < COUNT(openings) && !open; i++)
        open = memmem(line, (size_t)(end - line), openings[i], strlen(openings[i]));
    if (!open && memchr(line, '?', (size_t)(end - line))) open = memmem(line, (size_t)(end - line), "((", 2);
    if (!open) return; /* other (( )) are conditions */
    for (const char *p = open; p < end; p++) {
        int k = 0;
        while (k < COUNT(operators) && strncmp(p, operators[k][0], strlen(operators[k][0]))) k++;
        if (k == COUNT(operators)) continue;
        const char *next = p + strlen(operators[k][0]), *value = next + strspn(next, " ");
        bool other = *p != ' ' && (strchr("<>=&-", p[-1]) || strchr("<>=&(", *next));
        if (!other && (strchr("$(", *open) || isdigit((unsigned char)*value)))
            add_edit(f, t, p, next, operators[k][1], e);
        if (*p == ' ') add_edit(f, t, p, next, " && 0 ? ", e);
        p = next - 1;
    }
}

/* ${SIZE[$GPU]}, ${SEED[RANDOM % 8]}: by all values in the place of one, and in arithmetic, S[RANDOM % 8], by
 * their sum, since other numbers may choose the same again. */
static void find_subscripts(Search *f, const SourceText *t, const char *line, const char *end,
                            const TraceEntry *e)
{
    for (const char *open = line; (open = memchr(open, '[', (size_t)(end - open))); open++) {
        const char *name = open, *close = memchr(open, ']', (size_t)(end - open));
        while (name > line && is_name_letter(name[-1])) name--;
        if (name == open || !close || !names_any(f, open, close)) continue;
        bool set = close[1] == '=' ? close[2] != '=' : strchr("+-*/%", close[1]) && strchr("=+-", close[2]);
        bool braced = name - line >= 2 && !strncmp(name - 2, "${", 2);
        if (braced) add_edit(f, t, open + 1, close, "*", e);
        else if (!set && memmem(line, (size_t)(name - line), "((", 2))
            add_edit(f, t, name, close + 1,
                     texts_format(f->texts, "(${%.*s[*]/%%/+}0)", (int)(open - name), name), e);
    }
}

/* In the lines of an entry: those that a backslash continues, and of an array all down to its end. */
static void find_choices(Search *f, const TraceEntry *e)
{
    const SourceText *t = source_find(f->s, e->file);
    size_t letters = assigned_letters(e->text);
    int from = e->line, to = e->line;
    if (!t || from < 1 || to > t->lines) return;
    for (int line = from; letters && e->text[letters + 1] == '(' && line > 0 && line > to - 200; line--) {
        from = line;
        if (memmem(t->line[line - 1], (size_t)(t->line[line] - t->line[line - 1]), e->text, letters + 2))
            break;
    }
    while (to < t->lines && t->line[to] - t->text > 1 && t->line[to][-2] == '\\') to++;
    for (int line = from; line <= to; line++) {
        const char *begin = t->line[line - 1], *end = t->line[line];
        if (!names_any(f, begin, end)) continue;
        find_comparisons(f, t, begin, end, e);
        find_subscripts(f, t, begin, end, e);
    }
}

int conditions_find(Edit *edit, int edits, int most, int inside, const Sources *s, Run *base, Run *other,
                    Texts *texts)
{
    Search f = { .edit = edit,
                 .edits = edits,
                 .most = most,
                 .inside = inside,
                 .s = s,
                 .base = base,
                 .other = other,
                 .texts = texts,
                 .compared = inside < 0 && calls_of(base) && calls_of(other) };
    runs_pair(base, other);
    for (const SourceName *n = s->name; n < s->name + s->names; n++)
        if (n->unset || is_machine_name(n->name)) set_name(&f, n->name, strlen(n->name), true);
    for (TraceEntry *e = base->entry; e < base->entry + base->entries; e++) {
        follow_names(&f, e);
        find_conditions(&f, e);
        find_searches(&f, e);
        find_choices(&f, e);
    }
    free(f.name);
    return f.edits;
}
