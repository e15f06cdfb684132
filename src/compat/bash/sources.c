/* The files whose lines a trace names, as they are on this machine: lines, names, and where a word is
 * written. They are read as texts, since only bash understands them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/words.h"
#include "compat/bash/trace.h"

enum { SOURCES_MOST = 100, SOURCE_BYTES = 1 << 20 };

bool is_name_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- names ---- */

static bool has(const char *begin, const char *end, const char *what)
{
    return memmem(begin, (size_t)(end - begin), what, strlen(what)) != NULL;
}

/* "$NAME" as the operand of a test, or with a default; at: behind the $. */
static bool is_tested(const char *line, const char *at, const char *end)
{
    bool inside = false;
    if (at[0] == '{' && *end && strchr(":-=+?", *end)) return true; /* ${NAME:-12} */
    for (const char *c = line; c < at; c++) {
        if (c[0] == '-' && (c == line || c[-1] != '-') && strchr("znv", c[1]) &&
            isspace((unsigned char)c[2]) && at - c < 8)
            return true;
        if (c[0] == '[' && isspace((unsigned char)c[1])) inside = true;
        if (c > line && c[0] == ']' && isspace((unsigned char)c[-1])) inside = false;
    }
    return inside || find_word(line, at, "case") != NULL;
}

/* Whether "$NAME" is compared as a number, which being unset is not. at: the $. */
static bool is_compared(const char *line, const char *at, const char *end)
{
    static const char *const operators[] = { "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };
    end += strspn(end, "}\" ");
    while (at > line && strchr("\" ", at[-1])) at--;
    for (int i = 0; i < COUNT(operators); i++)
        if (!strncmp(end, operators[i], 3) || (at - line >= 3 && !strncmp(at - 3, operators[i], 3)))
            return true;
    return false;
}

/* NAME=, NAME+=, NAME[...]=, NAME++, for NAME, read NAME and the like, and (( NAME = 1 )). */
static bool is_assigned(const char *line, const char *at, const char *end, bool calculated)
{
    static const char *const words[] = { "read",  "for",     "getopts", "mapfile", "readarray", "printf",
                                         "local", "declare", "typeset", "select",  "let",       "coproc" };
    if (calculated) end += strspn(end, " ");
    if ((*end == '=' && !(calculated && end[1] == '=')) || *end == '[' || !strncmp(end, "+=", 2) ||
        !strncmp(end, "++", 2) || !strncmp(end, "--", 2))
        return true;
    for (const char *c = line; c < at; c++)
        if (*c == ';') line = c + 1;
    for (int i = 0; i < COUNT(words); i++)
        if (find_word(line, at, words[i])) return true;
    return false;
}

/* Open parentheses behind this letter: a bit for each, the innermost last, whether it calculates. That is one
 * of (( )), but not of a command there: for ((i = 0; i < $(nproc); i++)) */
static uint64_t parentheses(uint64_t open, const char *line, const char *at)
{
    if (*at == ')') return open >> 1;
    if (*at != '(') return open;
    return open << 1 | (at[1] == '(' || ((open & 1) && (at == line || at[-1] != '$')));
}

SourceName *source_name(const Sources *s, const char *name)
{
    for (int i = 0; i < s->names; i++)
        if (!strcmp(s->name[i].name, name)) return &s->name[i];
    return NULL;
}

static void add_name(Sources *s, const char *text, size_t letters, SourceName seen, Texts *texts)
{
    char name[128];
    if (letters >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)letters, text);
    seen.read |= is_machine_name(name); /* also without a $: ${SEED[RANDOM % 8]} */
    if (!seen.read && !seen.tested && !seen.counted && !seen.assigned) return;
    SourceName *n = source_name(s, name);
    if (!n) {
        ARRAY_RESERVE_OR_STOP(s->name, s->name_room, s->names + 1);
        n = &s->name[s->names++];
        *n = (SourceName){ .name = texts_keep(texts, text, (int64_t)letters) };
    }
    if (!n->place.line && (seen.read || seen.tested || seen.counted)) n->place = seen.place;
    n->read |= seen.read, n->assigned |= seen.assigned;
    n->tested |= seen.tested, n->counted |= seen.counted;
}

/* What a line does with each of its names. Inside of (( )) they need no $. open: the parentheses before the
 * line, and behind it; keys: what stands behind a [ may be a key, and no name. */
static void find_names(Sources *s, uint64_t *open, const char *line, const char *end, bool keys, Place place,
                       Texts *texts)
{
    if (!(*open & 1)) *open = 0; /* one that is only in a text does not count any longer */
    for (const char *p = line, *next; p < end; p = next) {
        for (next = p; next < end && is_name_letter(*next);) next++;
        if (next == p) *open = parentheses(*open, line, next++);
        if (!is_name_letter(*p) || isdigit((unsigned char)*p)) continue;
        const char *dollar = p - (p > line && p[-1] == '{') - 1;
        bool brace = p > line && p[-1] == '{', read = dollar >= line && *dollar == '$';
        bool bare = !read && !brace, calculated = (*open & 1) && !(keys && p > line && p[-1] == '[');
        if (read && dollar > line && dollar[-1] == '\\') continue;
        bool compared = read && is_compared(line, dollar, next),
             tested = read && !compared && is_tested(line, p - brace, next);
        add_name(s, p, (size_t)(next - p),
                 (SourceName){ .place = place,
                               .read = read && !tested,
                               .tested = tested,
                               .counted = compared || calculated,
                               .assigned = bare && is_assigned(line, p, next, calculated) },
                 texts);
    }
}

/* What bash sets itself, or every system's environment has. */
bool is_common_name(const char *name)
{
    static const char *const names[] = {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "RANDOM", "SECONDS",
        "LINENO", "UID", "EUID", "PPID", "IFS", "OSTYPE", "HOSTTYPE", "MACHTYPE", "SHLVL", "REPLY",
        "OPTARG", "OPTIND", "FUNCNAME", "PIPESTATUS", "LANG", "TERM", "TMPDIR", "DIRSTACK", "GROUPS",
        "COLUMNS", "LINES", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "COPROC", "_"
    };
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(name, names[i])) return true;
    return !strncmp(name, "BASH", 4) || !strncmp(name, "JOTUN_RUN", 9);
}

bool is_machine_name(const char *name)
{
    return words_have("RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME BASHPID PPID HOSTNAME", name,
                      strlen(name));
}

bool source_reads_unset(const SourceName *n)
{
    return (n->read || n->counted) && !n->tested && !n->assigned && !is_common_name(n->name);
}

/* ---- files ---- */

static const char *comment_in(const char *line, const char *end)
{
    for (const char *c = line; c < end; c++)
        if (*c == '#' && (c == line || isspace((unsigned char)c[-1]))) return c;
    return end;
}

static void add_source(Sources *s, const char *seen_as, const char *shown_as, const char *path, Texts *texts)
{
    FileMap map;
    struct stat about;
    if (s->sources == SOURCES_MOST || stat(path, &about) || !S_ISREG(about.st_mode) ||
        about.st_size > SOURCE_BYTES || file_map(&map, path) != OK)
        return;
    char *real = realpath(path, NULL);
    SourceText t = { .path = texts_keep(texts, real ? real : path, (int64_t)strlen(real ? real : path)),
                     .seen_as = texts_keep(texts, seen_as, (int64_t)strlen(seen_as)),
                     .shown_as = texts_printable(texts, shown_as, (int64_t)strlen(shown_as), 1000),
                     .text = texts_room(texts, map.size),
                     .lines = 1 };
    for (size_t i = 0; i < map.size; i++) {
        t.text[i] = map.data[i] ? (char)map.data[i] : ' ';
        t.lines += t.text[i] == '\n';
    }
    free(real);
    t.line = texts_room(texts, ((size_t)t.lines + 1) * sizeof *t.line);
    t.line[0] = t.text, t.line[t.lines] = t.text + map.size;
    for (int i = 1; i < t.lines; i++) t.line[i] = strchr(t.line[i - 1], '\n') + 1;
    uint64_t open = 0;
    bool keys = has(t.text, t.line[t.lines], " -A ");
    for (int i = 0; i < t.lines; i++)
        find_names(s, &open, t.line[i], comment_in(t.line[i], t.line[i + 1]), keys,
                   (Place){ t.shown_as, i + 1 }, texts);
    file_unmap(&map);
    ARRAY_RESERVE_OR_STOP(s->source, s->room, s->sources + 1);
    s->source[s->sources++] = t;
}

const SourceText *source_find(const Sources *s, const char *seen_as)
{
    for (int i = 0; i < s->sources; i++)
        if (!strcmp(s->source[i].seen_as, seen_as)) return &s->source[i];
    return NULL;
}

/* A name without a slash may be a file of the folder, or of PATH, which is no matter of ours. Many scripts go
 * to their own folder first. */
void sources_add(Sources *s, const Run *run, const char *script, const char *shown_as, const char *folder,
                 Texts *texts)
{
    char path[2048];
    const char *last = "";
    if (!source_find(s, script)) add_source(s, script, shown_as, script, texts);
    for (int i = 0; i < run->entries; last = run->entry[i++].file) {
        const char *file = run->entry[i].file;
        if (!*file || !strcmp(file, last) || source_find(s, file)) continue;
        snprintf(path, sizeof path, "%s%s%s", *file == '/' ? "" : folder, *file == '/' ? "" : "/", file);
        if (access(path, F_OK) != 0)
            snprintf(path, sizeof path, "%.*s%s", (int)(path_leaf(script, strlen(script)) - script), script,
                     file);
        add_source(s, file, file, path, texts);
    }
}

void sources_free(Sources *s)
{
    free(s->source);
    free(s->name);
    *s = (Sources){ 0 };
}

const char *source_shown(const Sources *s, const char *seen_as)
{
    const SourceText *source = source_find(s, seen_as);
    return source ? source->shown_as : "";
}

const char *source_line(const Sources *s, const char *seen_as, int line, int *bytes)
{
    const SourceText *source = source_find(s, seen_as);
    *bytes = 0;
    if (!source || line < 1 || line > source->lines) return "";
    *bytes = (int)(source->line[line] - source->line[line - 1]);
    if (*bytes && source->line[line - 1][*bytes - 1] == '\n') --*bytes;
    return source->line[line - 1];
}

/* ---- where a word is written ---- */

static bool is_letter(char c)
{
    return is_name_letter(c) || c == '-' || c == '.';
}

const char *find_word(const char *text, const char *end, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, n)); at++)
        if ((at == text || !is_letter(at[-1])) && (at + n == end || !is_letter(at[n]))) return at;
    return NULL;
}

/* The line of the source nearest to `line` that has the word; 0: none has. */
static int nearest_line(const SourceText *source, const char *word, int line)
{
    const char *end = source->line[source->lines];
    int best = 0, low = 0;
    for (const char *at = source->text; (at = find_word(at, end, word)); at++) {
        while (source->line[low + 1] <= at) low++;
        if (comment_in(source->line[low], at) < at) continue;
        if (!best || abs(low + 1 - line) < abs(best - line)) best = low + 1;
    }
    return best;
}

/* The first command before the call that had the word, with its value where one has both. */
static const TraceEntry *first_entry(const Run *run, int64_t traced, const char *word, const char *value)
{
    char both[512];
    bool fits = value && snprintf(both, sizeof both, "%s %s", word, value) < (int)sizeof both;
    for (int pass = fits ? 0 : 1; pass < 2; pass++)
        for (int i = 0; i < run->entries && run->entry[i].at < traced; i++) {
            const char *text = run->entry[i].text;
            if (pass ? find_word(text, text + strlen(text), word) : strstr(text, both)) return &run->entry[i];
        }
    return NULL;
}

Place word_place(const Sources *s, const Run *run, int64_t traced, const char *word, const char *value)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(word[0] == '-' ? strcspn(word, "=") : strlen(word)), word);
    const TraceEntry *e = *name ? first_entry(run, traced, name, value) : NULL;
    const SourceText *source = e ? source_find(s, e->file) : NULL;
    int line = source ? nearest_line(source, name, e->line) : 0;
    if (line) return (Place){ source->shown_as, line };
    for (int i = 0; *name && i < s->sources; i++) /* of bash -c, or made of parts */
        if ((line = nearest_line(&s->source[i], name, 0))) return (Place){ s->source[i].shown_as, line };
    return source ? (Place){ source->shown_as, e->line } : (Place){ "", 0 };
}

/* Whether some assignment gave the variable this value. */
static bool had_value(const Run *run, const char *name, size_t letters, const char *value)
{
    size_t n = strlen(value);
    for (int i = 0; i < run->entries; i++) {
        const char *text = run->entry[i].text;
        if (strncmp(text, name, letters) || text[letters] != '=') continue;
        text += letters + 1, text += *text == '\'';
        if (!strncmp(text, value, n) && strchr("'\n", text[n])) return true;
    }
    return false;
}

/* target: behind a > */
static bool writes_file(const Run *run, const char *target, const char *path)
{
    const char *leaf = path_leaf(path, strlen(path)), *name = target += strspn(target, " \t\"'>|");
    size_t n = 0, letters = strcspn(target, " \t\"'\n;&|"), end = strlen(leaf);
    if (*target == '$')
        for (name += 1 + (target[1] == '{'); is_name_letter(name[n]);) n++;
    return (n && had_value(run, name, n, path)) ||
           (letters >= end && !strncmp(target + letters - end, leaf, end));
}

Place file_place(const Sources *s, const Run *run, const char *path)
{
    for (const SourceText *t = s->source; t < s->source + s->sources; t++)
        for (int line = 0; line < t->lines; line++) {
            const char *end = comment_in(t->line[line], t->line[line + 1]);
            for (const char *at = t->line[line]; (at = memchr(at, '>', (size_t)(end - at))); at++)
                if (writes_file(run, at, path)) return (Place){ t->shown_as, line + 1 };
        }
    return (Place){ "", 0 };
}

/* By the entry before the call that is nearest to it. */
Place call_place(const Sources *s, const Run *run, const CallRecord *call)
{
    for (int p = 0; p < call->pids; p++)
        for (int i = run->entries - 1; i >= 0; i--) {
            const TraceEntry *e = &run->entry[i];
            if (e->at < call->traced && e->pid == call->pid[p] && source_find(s, e->file))
                return (Place){ source_shown(s, e->file), e->line };
        }
    return (Place){ "", 0 };
}
