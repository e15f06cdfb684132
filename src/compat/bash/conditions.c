/* Conditions that answers decide. Other answers need not change the outcome: [ $GPUS -ge 64 ] is false for 4
 * and for 6. So each such condition gets its other outcome by a change of the script's text, and the script
 * runs again: where a word then differs, what this machine answers decides it.
 *
 *     if [ $GPUS -ge 64 ]; then        if ! [ $GPUS -ge 64 ]; then
 *     case $(hostname) in gpu*)        case jotun in *|gpu*)
 *     N=$((GPUS > 8 ? 2 : 1))          N=$((GPUS > 8 ==0? 2 : 1))
 *
 * A condition is one of those if its operands differ between two runs, a program answers within it, or it
 * names a variable of which the same is true. Those of loops stay as they are: they might never end. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/buffer.h"
#include "compat/bash/trace.h"

typedef struct {
    const char *from, *to;
} Span;

typedef struct {
    Edit *edit;
    int edits, most;
    const Sources *s;
    Run *base, *other;
    Texts *texts;
    Span *name; /* [names] of variables that depend on answers, at this entry */
    int names, room;
    int inside;
    bool compared; /* both runs reach a program */
} Search;

/* ---- variables ---- */

static bool names_any(const Span *name, int names, const char *text, const char *end)
{
    for (const char *p = text, *next; p < end; p = next) {
        for (next = p; next < end && is_name_letter(*next);) next++;
        for (int i = 0; i < names; i++)
            if (next - p == name[i].to - name[i].from && !memcmp(p, name[i].from, (size_t)(next - p)))
                return true;
        if (next == p) next++;
    }
    return false;
}

static void set_name(Search *f, const char *name, size_t letters, bool answered)
{
    int i = 0;
    while (i < f->names &&
           ((size_t)(f->name[i].to - f->name[i].from) != letters || memcmp(f->name[i].from, name, letters)))
        i++;
    if (i < f->names && !answered) f->name[i] = f->name[--f->names];
    if (i < f->names || !answered) return;
    ARRAY_RESERVE_OR_STOP(f->name, f->room, f->names + 1);
    f->name[f->names++] = (Span){ name, name + letters };
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

/* Whether an entry's line names such a variable, behind the one that it sets: N=$((GPUS * 8)); M=2 */
static bool line_names(const Search *f, const TraceEntry *e, const char *name, size_t letters)
{
    int bytes;
    const char *line = source_line(f->s, e->file, e->line, &bytes), *end = line + bytes, *at = line;
    while (letters && (at = memmem(at, (size_t)(end - at), name, letters)) && at[letters] != '=' &&
           at[letters] != '+')
        at++;
    const char *stop = letters && at ? memchr(at, ';', (size_t)(end - at)) : NULL;
    return (letters && at && names_any(f->name, f->names, at + letters, stop ? stop : end)) ||
           names_any(f->name, f->names, e->text + letters, e->text + strlen(e->text));
}

static void follow_names(Search *f, TraceEntry *e)
{
    size_t letters;
    const char *name = name_set(e->text, &letters);
    bool reads = !strncmp(e->text, "read ", 5) || !strncmp(e->text, "mapfile ", 8) ||
                 !strncmp(e->text, "readarray ", 10);
    if (!letters && !reads) return;
    bool differs = e->twin ? strcmp(e->twin->text, e->text) != 0 : f->compared;
    e->answered |= differs || entry_answered(f->s, f->base, f->other, e) || line_names(f, e, name, letters);
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

/* In the lines around the entry's, where the shell may count it: the one that has most of its words. */
static Span find_condition(const SourceText *t, const TraceEntry *e, int kind)
{
    const char *open = kinds[kind].open;
    Span best = { NULL, NULL };
    int most = -100;
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
            if (score > most) most = score, best = span;
        }
    }
    return best;
}

static bool is_of_loop(const SourceText *t, const char *at)
{
    while (at > t->text && (isspace((unsigned char)at[-1]) || at[-1] == '!')) at--;
    return (at - t->text >= 5 && (!strncmp(at - 5, "while", 5) || !strncmp(at - 5, "until", 5))) ||
           (at - t->text >= 3 && !strncmp(at - 3, "for", 3));
}

static void add_edit(Search *f, const SourceText *t, const char *from, const char *to, const char *text,
                     const TraceEntry *e)
{
    for (int i = 0; i < f->edits; i++)
        if (f->edit[i].from == from && !strcmp(f->edit[i].text, text)) return;
    if (f->edits < f->most)
        f->edit[f->edits] = (Edit){
            t, from, to, text, e ? entry_cause(f->s, f->base, f->other, e, f->texts) : "", f->inside
        };
    f->edits++;
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

static void find_conditions(Search *f, const TraceEntry *e)
{
    const SourceText *t = source_find(f->s, e->file);
    int kind = 0;
    while (kind < COUNT(kinds) && strncmp(e->text, kinds[kind].traced, strlen(kinds[kind].traced))) kind++;
    if (!t || kind == COUNT(kinds) || strstr(e->text, "/latest")) return;
    Span span = find_condition(t, e, kind);
    if (!span.from || is_of_loop(t, span.from)) return;
    bool differs = e->twin && strcmp(e->twin->text, e->text);
    if (!differs && !entry_answered(f->s, f->base, f->other, e) &&
        !names_any(f->name, f->names, span.from, span.to))
        return;
    if (kind == CASE) add_case(f, t, span, e);
    else add_edit(f, t, span.from, span.from, "! ", e);
}

/* condition ? a : b, in any line that has such a name */
static void find_choices(Search *f)
{
    const TraceEntry *last = f->base->entry + f->base->entries;
    for (const SourceText *t = f->s->source; t < f->s->source + f->s->sources; t++)
        for (const char *at = t->text; (at = strstr(at, "((")); at += 2) {
            const char *end = strstr(at, "))"), *mark = end ? memchr(at, '?', (size_t)(end - at)) : NULL;
            const TraceEntry *e = mark ? f->base->entry : last;
            for (; e < last; e++) {
                Span name = { e->text, e->text + assigned_letters(e->text) };
                if (e->answered && names_any(&name, 1, at, mark)) break;
            }
            if (mark && (e < last || names_any(f->name, f->names, at, mark)))
                add_edit(f, t, mark, mark, "==0", e < last ? e : NULL);
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
    }
    find_choices(&f);
    free(f.name);
    return f.edits;
}
