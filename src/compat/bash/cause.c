/* What decides a word that another run gives otherwise: from the assignment that it comes from back to a
 * program that answers, a variable that nobody sets, a missing file or a condition; and what is empty behind
 * an option without a value. Both are read out of traces, for people: a wrong guess changes no value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/words.h"
#include "compat/bash/trace.h"

/* ---- pairs ---- */

static bool same_place(const TraceEntry *a, const TraceEntry *b)
{
    return a->line == b->line && !strcmp(a->file, b->file);
}

/* By place, then by the variable that is set, or else the first letter; then in the order of the run. */
static int by_place(const void *left, const void *right, bool in_order)
{
    const TraceEntry *a = *(const TraceEntry *const *)left, *b = *(const TraceEntry *const *)right;
    size_t n = assigned_letters(a->text), m = assigned_letters(b->text);
    int files = strcmp(a->file, b->file), texts = strncmp(a->text, b->text, n < m ? n + 1 : m + 1);
    if (files) return files;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    if (texts) return texts;
    if (n != m) return n < m ? -1 : 1;
    return !in_order || a == b ? 0 : a < b ? -1 : 1;
}

static int in_order(const void *left, const void *right)
{
    return by_place(left, right, true);
}

static TraceEntry **sorted(Run *run)
{
    TraceEntry **list = malloc(((size_t)run->entries + 1) * sizeof *list);
    CHECK(list, "no memory for %d entries of a trace", run->entries);
    for (int i = 0; i < run->entries; i++) list[i] = &run->entry[i], list[i]->twin = NULL;
    qsort(list, (size_t)run->entries, sizeof *list, in_order);
    return list;
}

void runs_pair(Run *run, Run *other)
{
    TraceEntry **a = sorted(run), **b = sorted(other);
    for (int i = 0, k = 0; i < run->entries && k < other->entries;) {
        int order = by_place(&a[i], &b[k], false);
        if (order == 0) a[i]->twin = b[k], b[k]->twin = a[i];
        i += order <= 0, k += order >= 0;
    }
    free(a);
    free(b);
}

static bool differs(const TraceEntry *e)
{
    return !e->twin || strcmp(e->twin->text, e->text);
}

/* ---- one entry ---- */

static const char *value_of(const char *text)
{
    const char *value = strchr(text, '=');
    return value ? value + 1 + (value[1] == '\'') : "";
}

/* Whether the entry sets a variable to a value that the word has. */
static bool sets_part(const TraceEntry *e, const char *word)
{
    const char *value = value_of(e->text);
    size_t n = strcspn(value, "'\n");
    return assigned_letters(e->text) && n && n < 256 && memmem(word, strlen(word), value, n);
}

/* The first word of a command, without its folder. */
static const char *command_of(char out[256], const char *text)
{
    size_t n = strcspn(text, " \t\n");
    const char *leaf = path_leaf(text, n);
    snprintf(out, 256, "%.*s", (int)(text + n - leaf), leaf);
    return out;
}

static bool is_answered(const Run *run, const char *name)
{
    if (!strcmp(name, "date")) return true; /* which is a function in runs with other answers */
    for (int i = 0; i < run->calls; i++)
        if (!strcmp(run->call[i].name, name)) return true;
    return false;
}

/* path: of a file that is missing, or says what the machine is. */
static bool reads_missing(char path[1024], const TraceEntry *e)
{
    for (const char *p = e->text; entry_reads(path, &p, e);)
        if (access(path, F_OK) || !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5)) return true;
    return false;
}

static bool is_test(const TraceEntry *e)
{
    return words_have("'[' [ [[ test", e->text, strcspn(e->text, " "));
}

static const char *describe(const Sources *s, const char *program, const TraceEntry *e, Texts *texts)
{
    size_t letters = assigned_letters(e->text);
    const char *file = source_shown(s, e->file);
    return texts_format(texts, "%.200s%s(%s:%d%s%.*s)", texts_printable(texts, program, 255, 200),
                        *program ? " " : "", *file ? file : "bash -c", e->line, letters ? ", " : "",
                        (int)(letters < 100 ? letters : 100), e->text);
}

/* The program whose output or exit code made an entry: itself, unless it is the call, or one of the
 * substitutions right before it. NULL: none did. */
static const char *program_before(const Sources *s, const Run *run, const Run *other, const TraceEntry *e,
                                  bool itself, Texts *texts)
{
    char program[256], path[1024];
    for (const TraceEntry *i = itself ? e : e - 1; i >= run->entry && i > e - 40; i--) {
        if (i != e && i->depth <= e->depth) break; /* deeper ones may be of a function, on other lines */
        command_of(program, i->text);
        bool missing = reads_missing(path, i);
        bool random = !strcmp(program, "awk") && strstr(i->text, "srand");
        if (is_answered(run, program) || is_answered(other, program) || missing || random)
            return describe(s, missing && is_test(i) ? path : program, e, texts);
    }
    if (strstr(e->text, "$(") || strchr(e->text, '`')) /* traced before what is inside */
        for (const TraceEntry *i = e + 1; i < run->entry + run->entries && i->depth > e->depth; i++) {
            command_of(program, i->text);
            if (is_answered(run, program) || is_answered(other, program))
                return describe(s, program, e, texts);
        }
    return NULL;
}

/* The line of an entry; of an assignment that ends in another line all from its name on. */
static const char *entry_line(const Sources *s, const TraceEntry *e, int *bytes)
{
    const char *line = source_line(s, e->file, e->line, bytes);
    size_t letters = assigned_letters(e->text);
    if (!letters || !*bytes) return line;
    for (int above = 0, more; above < 50; above++) {
        const char *first = source_line(s, e->file, e->line - above, &more);
        if (!more || !memmem(first, (size_t)more, e->text, letters)) continue;
        *bytes += (int)(line - first);
        return first;
    }
    return line;
}

static bool names_variable(const Sources *s, const TraceEntry *e, const char *name, size_t letters)
{
    int bytes;
    const char *line = entry_line(s, e, &bytes);
    for (const char *at = line; (at = memmem(at, (size_t)(line + bytes - at), name, letters)); at++)
        if ((at == line || !is_name_letter(at[-1])) && !is_name_letter(at[letters])) return true;
    return false;
}

static const char *describe_unset(const SourceName *n, Place at, Texts *texts)
{
    if (!n->lost) return texts_format(texts, "$%s, which is not set (%s:%d)", n->name, at.file, at.line);
    return texts_format(texts, "$%s, which %s might set, a file that is missing (%s:%d)", n->name, n->lost,
                        at.file, at.line);
}

/* A variable that nobody sets, on the line of an assignment, or one of the machine's; NULL: it names none. */
static const char *unset_on_line(const Sources *s, const TraceEntry *e, Texts *texts)
{
    const char *file = source_shown(s, e->file);
    for (const SourceName *n = s->name; *file && n < s->name + s->names; n++) {
        if (!names_variable(s, e, n->name, strlen(n->name))) continue;
        if (n->unset) return describe_unset(n, (Place){ file, e->line }, texts);
        if (is_machine_name(n->name)) return describe(s, texts_format(texts, "$%s", n->name), e, texts);
    }
    return NULL;
}

/* ---- from one entry to the one that made it differ ---- */

static const char *describe_line(const Sources *s, const TraceEntry *e, Texts *texts)
{
    int bytes;
    const char *line = entry_line(s, e, &bytes);
    for (; bytes && strchr(" \t", *line); bytes--) line++;
    if (!bytes) line = e->text, bytes = (int)strlen(line);
    line = texts_printable(texts, line, bytes, 120);
    return describe(s, texts_format(texts, "the outcome of `%s`", line), e, texts);
}

/* The condition before an assignment that only one run makes. */
static const char *condition_cause(const Sources *s, const Run *base, const Run *other, const TraceEntry *at,
                                   Texts *texts)
{
    for (const TraceEntry *e = at - 1; e >= base->entry && e > at - 200; e--) {
        const char *program = program_before(s, base, other, e, true, texts);
        if (program) return program;
        bool test = is_test(e) || !strncmp(e->text, "((", 2) || !strncmp(e->text, "case ", 5);
        if (test && differs(e)) return describe_line(s, e, texts);
    }
    return NULL;
}

/* The variable that an entry sets, by read the last one. */
static const char *set_by(const TraceEntry *e, size_t *letters)
{
    const char *name = strncmp(e->text, "read ", 5) ? NULL : strrchr(e->text, ' ');
    *letters = name ? strlen(name + 1) : assigned_letters(e->text);
    return name ? name + 1 : e->text;
}

static const char *follow(const Sources *s, const Run *base, const Run *other, const TraceEntry *e,
                          bool itself, Texts *texts)
{
    for (int steps = 0, lines = 0; lines < 10; steps++) {
        const TraceEntry *from = NULL;
        const char *found = program_before(s, base, other, e, itself || steps, texts);
        if (!found) found = unset_on_line(s, e, texts);
        if (found) return found;
        if (steps && !e->twin && (found = condition_cause(s, base, other, e, texts))) return found;
        for (const TraceEntry *i = e - 1; i >= base->entry && !from; i--) {
            size_t letters;
            const char *name = set_by(i, &letters);
            if (letters && (differs(i) || i->answered) && names_variable(s, e, name, letters)) from = i;
        }
        if (!from && !e->twin) return condition_cause(s, base, other, e, texts);
        for (const TraceEntry *i = e - 1; !from && i >= base->entry && same_place(i, e); i--)
            if ((found = program_before(s, base, other, i, true, texts))) return found; /* A && N=1 || N=2 */
        if (!from) return steps ? describe_line(s, e, texts) : NULL;
        lines += !same_place(from, e); /* a loop has many entries */
        e = from;
    }
    return describe_line(s, e, texts);
}

bool entry_answered(const Sources *s, const Run *base, const Run *other, const TraceEntry *e)
{
    Texts texts = { 0 };
    bool answered = program_before(s, base, other, e, true, &texts) != NULL;
    texts_free(&texts);
    return answered;
}

const char *entry_cause(const Sources *s, const Run *base, const Run *other, const TraceEntry *e,
                        Texts *texts)
{
    char program[256];
    bool itself = !is_answered(base, command_of(program, e->text)); /* not torchrun t.py ${A[N]} */
    const char *cause = follow(s, base, other, e, itself, texts);
    return cause ? cause : describe_line(s, e, texts);
}

/* The last assignment of a value that the word has, and that the other run does not make so: first one whose
 * other value is in the other word. */
static const TraceEntry *origin(const Run *run, const char *word, const char *changed)
{
    for (int pass = 0; pass < 2; pass++)
        for (const TraceEntry *e = run->entry + run->entries - 1; e >= run->entry; e--) {
            bool fits = pass || !e->twin || !changed || sets_part(e->twin, changed);
            if (fits && differs(e) && sets_part(e, word)) return e;
        }
    return NULL;
}

const char *word_cause(const Sources *s, const Run *base, const Run *other, const char *word,
                       const char *changed, Texts *texts)
{
    const SourceName *names = s->name, *end = s->name + s->names;
    const TraceEntry *from;
    const char *found;
    for (const SourceName *n = names; changed && n < end; n++)
        if (n->unset && strstr(changed, n->name) && !strstr(word, n->name))
            return describe_unset(n, n->place, texts);
    if ((from = origin(base, word, changed))) return entry_cause(s, base, other, from, texts);
    if (changed && (from = origin(other, changed, NULL))) /* a value that is empty here */
        return entry_cause(s, other, base, from, texts);
    for (const TraceEntry *e = base->entry + base->entries - 1; e >= base->entry; e--) /* the call itself */
        if (find_word(e->text, e->text + strlen(e->text), word) &&
            (found = follow(s, base, other, e, false, texts)))
            return found;
    for (const SourceName *n = names; n < end; n++) {
        if (n->unset && n->counted) return describe_unset(n, n->place, texts);
        if ((n->read || n->counted) && is_machine_name(n->name))
            return texts_format(texts, "$%s (%s:%d)", n->name, n->place.file, n->place.line);
    }
    return "what this machine answers";
}

/* ---- what is empty ---- */

const char *last_value(const Run *run, const TraceEntry *at, const char *name, size_t letters, Texts *texts)
{
    for (const TraceEntry *e = at - 1; e >= run->entry; e--) {
        if (assigned_letters(e->text) != letters || strncmp(e->text, name, letters)) continue;
        const char *value = value_of(e->text);
        return texts_keep(texts, value, (int64_t)strcspn(value, "'\n"));
    }
    return "";
}

size_t variable_at(const char *p, const char *end, const char **name)
{
    size_t n = 0;
    if (p >= end || *p != '$') return 0;
    *name = p + 1 + (p + 1 < end && p[1] == '{');
    while (*name + n < end && is_name_letter((*name)[n])) n++;
    return n;
}

/* The source of NAME's last empty assignment, if that is another variable's or a positional parameter's
 * value. */
static const char *emptied_by(const Sources *s, const Run *run, const char *name, size_t letters,
                              Texts *texts)
{
    for (const TraceEntry *e = run->entry + run->entries - 1; e >= run->entry; e--) {
        if (assigned_letters(e->text) != letters || strncmp(e->text, name, letters) || *value_of(e->text))
            continue;
        int bytes;
        size_t n = 0;
        const char *line = source_line(s, e->file, e->line, &bytes), *inner = NULL;
        /* TAG=$(git describe) */
        for (const TraceEntry *i = e + 1; i < run->entry + run->entries && i < e + 4; i++)
            if (!strncmp(i->text, ": JOTUN_FAILED ", 15) && same_place(i, e))
                return texts_format(texts, ", which %s:%d sets by %s, and that failed with exit code %.*s",
                                    source_shown(s, e->file), e->line,
                                    texts_printable(texts, line, bytes, 120), (int)strcspn(i->text + 15, " "),
                                    i->text + 15);
        for (const char *p = line; p < line + bytes && !n; p++) n = variable_at(p, line + bytes, &inner);
        return texts_format(texts, ", which %s:%d sets to %s%.*s", source_shown(s, e->file), e->line,
                            n ? "$" : "nothing", (int)n, n ? inner : "");
    }
    return "";
}

const char *word_lacks(const Sources *s, const Run *run, Place place, const char *word, Texts *texts)
{
    int bytes = 0;
    const char *line = "", *name = NULL;
    for (int i = 0; i < s->sources; i++)
        if (!strcmp(s->source[i].shown_as, place.file))
            line = source_line(s, s->source[i].seen_as, place.line, &bytes);
    size_t letters = strcspn(word, "=");
    const char *end = line + bytes, *at = bytes ? memmem(line, (size_t)bytes, word, letters) : NULL;
    if (!at) return "";
    for (at += letters; at < end && strchr(" \t=\"'", *at); at++) {}
    size_t n = variable_at(at, end, &name);
    if (!n) return "";
    return texts_format(texts, "$%.*s%s (%s:%d)", (int)n, name, emptied_by(s, run, name, n, texts),
                        place.file, place.line);
}
