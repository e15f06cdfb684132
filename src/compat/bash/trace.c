/* Reads what a run left. A trace line is
 *
 *     \1 (once for each depth)  process \2 file \2 line \2  text, which may have more lines
 *
 * and the text is what bash executed, with its variables expanded: an assignment, a command with its words,
 * the words of [[ ]]. All of it is the script's own doing, so that nothing here trusts it. */
#include "compat/bash/trace.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"
#include "base/utf8.h"

enum {
    ENTRIES_MOST = 400000,
    CALLS_MOST = 4000,
    WORDS_MOST = 20000,
    SOURCES_MOST = 100,
    SOURCE_BYTES = 1 << 20
};

/* ---- texts ---- */

const char *texts_keep(Texts *t, const char *text, int64_t bytes)
{
    char *copy = malloc((size_t)bytes + 1);
    CHECK(copy, "no memory for %lld bytes", (long long)bytes);
    if (bytes) memcpy(copy, text, (size_t)bytes);
    copy[bytes] = 0;
    ARRAY_RESERVE_OR_STOP(t->text, t->room, t->texts + 1);
    return t->text[t->texts++] = copy;
}

const char *texts_format(Texts *t, const char *format, ...)
{
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return texts_keep(t, line, (int64_t)strlen(line));
}

void texts_free(Texts *t)
{
    for (int i = 0; i < t->texts; i++) free(t->text[i]);
    free(t->text);
    *t = (Texts){ 0 };
}

/* Bytes of the character that begins here; 0: it is none, or one that a terminal obeys. */
static int character(const unsigned char *c, size_t left)
{
    uint32_t point;
    int bytes = utf8_decode(&point, c, (int64_t)left);
    return point < ' ' || (point >= 0x7f && point < 0xa0) || point == UTF8_BROKEN ? 0 : bytes;
}

const char *printable(Texts *t, const char *text, int most)
{
    char out[2048];
    int used = 0;
    if (most > (int)sizeof out - 8) most = sizeof out - 8;
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int n = character(c, strnlen((const char *)c, 4));
        if (used + (n ? n : 4) > most) {
            memcpy(out + used, "...", 3), used += 3;
            break;
        }
        if (n) memcpy(out + used, c, (size_t)n), used += n, c += n;
        else if (*c == '\n' || *c == '\t') out[used++] = ' ', c++;
        else used += snprintf(out + used, sizeof out - (size_t)used, "\\x%02x", *c), c++;
    }
    return texts_keep(t, out, used);
}

/* ---- the trace ---- */

/* The texts between \2; false: the line is none of ours. */
static bool read_entry(TraceEntry *e, char *p, char *end)
{
    char *field[3];
    e->depth = 0;
    for (; p < end && *p == 1; p++) e->depth++;
    for (int i = 0; i < 3; i++) {
        char *stop = memchr(p, 2, (size_t)(end - p));
        if (!stop) return false;
        field[i] = p, *stop = 0, p = stop + 1;
    }
    long pid = strtol(field[0], NULL, 10), line = strtol(field[2], NULL, 10);
    e->pid = pid > 0 && pid < INT_MAX ? (int)pid : 0;
    e->line = line > 0 && line < INT_MAX ? (int)line : 0;
    e->file = field[1], e->text = p;
    return e->depth > 0;
}

static bool is_ours(const TraceEntry *e)
{
    return !strcmp(e->text, "set -x") || !strcmp(e->text, "set +x") || !strcmp(e->text, "set +eu -x") ||
           (strstr(e->file, "/prelude") && strlen(e->file) < 300 && strstr(e->file, "jotun"));
}

static void read_trace(Run *run)
{
    Buffer *b = &run->result.trace;
    for (char *p = b->text, *end = b->text + b->bytes; p && p < end && run->entries < ENTRIES_MOST;) {
        char *next = p;
        do next = memchr(next, '\n', (size_t)(end - next)), next = next ? next + 1 : end;
        while (next < end && *next != 1);
        TraceEntry e = { .at = p - b->text };
        char *last = next > p && next[-1] == '\n' ? next - 1 : next; /* b has a NUL behind its end */
        *last = 0;
        bool known = read_entry(&e, p, last),
             last_cd = known && run->entries && is_ours(&e) && !strncmp(e.text, ": JOTUN_FAILED", 14);
        if (last_cd) e.file = run->entry[run->entries - 1].file, e.line = run->entry[run->entries - 1].line;
        if (known && !is_ours(&e)) {
            ARRAY_RESERVE_OR_STOP(run->entry, run->entry_room, run->entries + 1);
            run->entry[run->entries++] = e;
        }
        p = next;
    }
}

/* ---- the calls ---- */

typedef struct {
    char *at, *end;
    bool bad;
} Cursor;

static const char *next_text(Cursor *c)
{
    char *stop = c->at < c->end ? memchr(c->at, 0, (size_t)(c->end - c->at)) : NULL;
    const char *text = c->at;
    if (!stop) return c->bad = true, "";
    c->at = stop + 1;
    return text;
}

static int64_t next_number(Cursor *c, int64_t most)
{
    const char *text = next_text(c);
    char *end;
    long long number = strtoll(text, &end, 10);
    if (!*text || *end || number < 0 || number > most) c->bad = true, number = 0;
    return number;
}

static void next_processes(Cursor *c, CallRecord *call)
{
    char *p = (char *)(uintptr_t)next_text(c);
    for (char *end; call->pids < 32; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p) break;
        call->pid[call->pids++] = pid > 0 && pid < INT_MAX ? (int)pid : 0;
    }
}

static void read_call(Cursor *c, CallRecord *call)
{
    call->name = next_text(c), call->folder = next_text(c), call->traced = next_number(c, INT64_MAX);
    next_processes(c, call);
    call->words = (int)next_number(c, WORDS_MOST);
    call->word = calloc((size_t)call->words + 1, sizeof *call->word);
    CHECK(call->word, "no memory for %d words", call->words);
    for (int i = 0; i < call->words; i++) call->word[i] = next_text(c);
    call->files = (int)next_number(c, 16);
    for (int i = 0; i < call->files; i++) {
        call->file[i].path = next_text(c);
        call->file[i].bytes = next_number(c, c->end - c->at);
        call->file[i].text = c->at;
        if (call->file[i].bytes > c->end - c->at) c->bad = true;
        if (c->bad) {
            call->files = i;
            return;
        }
        c->at += call->file[i].bytes;
    }
}

static void read_calls(Run *run, Texts *texts)
{
    Buffer *b = &run->result.calls;
    Cursor c = { b->text, b->text + b->bytes, false };
    while (c.at < c.end && !c.bad) {
        const char *kind = next_text(&c);
        if (!strcmp(kind, "OLD")) {
            run->old_bash = true;
            return;
        }
        if (strcmp(kind, "CALL") || run->calls == CALLS_MOST) {
            c.bad = true;
            break;
        }
        CallRecord call = { 0 };
        read_call(&c, &call);
        for (int i = 0; i < call.files; i++)
            call.file[i].text = texts_keep(texts, call.file[i].text, call.file[i].bytes);
        ARRAY_RESERVE_OR_STOP(run->call, run->call_room, run->calls + 1);
        run->call[run->calls++] = call;
        if (c.bad) free(run->call[--run->calls].word);
    }
    run->damaged = c.bad;
}

void run_read(Run *run, Texts *texts)
{
    read_trace(run);
    read_calls(run, texts);
}

void run_close(Run *run)
{
    for (int i = 0; i < run->calls; i++) free(run->call[i].word);
    free(run->call);
    free(run->entry);
    run_free(&run->result);
    *run = (Run){ 0 };
}

/* ---- sources ---- */

static void add_source(Sources *s, const char *seen_as, const char *shown_as, const char *path, Texts *texts)
{
    FileMap map;
    struct stat about;
    if (s->sources == SOURCES_MOST || stat(path, &about) || !S_ISREG(about.st_mode) ||
        about.st_size > SOURCE_BYTES)
        return;
    if (file_map(&map, path) != OK) return;
    SourceText source = { .seen_as = texts_keep(texts, seen_as, (int64_t)strlen(seen_as)),
                          .shown_as = printable(texts, shown_as, 1000) };
    source.text = malloc(map.size + 1);
    CHECK(source.text, "no memory for %zu bytes", map.size);
    memcpy(source.text, map.data, map.size);
    int lines = 1;
    for (size_t i = 0; i < map.size; i++) {
        if (!source.text[i]) source.text[i] = ' ';
        lines += source.text[i] == '\n';
    }
    source.text[map.size] = 0;
    source.line = malloc(((size_t)lines + 1) * sizeof *source.line);
    CHECK(source.line, "no memory for %d lines", lines);
    source.line[source.lines++] = source.text;
    for (char *c = source.text; *c; c++)
        if (*c == '\n') source.line[source.lines++] = c + 1;
    source.line[source.lines] = source.text + map.size;
    file_unmap(&map);
    ARRAY_RESERVE_OR_STOP(s->source, s->room, s->sources + 1);
    s->source[s->sources++] = source;
}

static const SourceText *source_find(const Sources *s, const char *seen_as)
{
    for (int i = 0; i < s->sources; i++)
        if (!strcmp(s->source[i].seen_as, seen_as)) return &s->source[i];
    return NULL;
}

/* A name without a slash may be a file of the folder, or of PATH, which is no matter of ours. */
void sources_add(Sources *s, const Run *run, const char *script, const char *shown_as, const char *folder,
                 Texts *texts)
{
    char path[2048];
    if (!source_find(s, script)) add_source(s, script, shown_as, script, texts);
    const char *last = "";
    for (int i = 0; i < run->entries; i++) {
        const char *file = run->entry[i].file;
        if (!*file || !strcmp(file, last) || source_find(s, file)) {
            last = file;
            continue;
        }
        last = file;
        if (*file == '/') snprintf(path, sizeof path, "%s", file);
        else snprintf(path, sizeof path, "%s/%s", folder, file);
        add_source(s, file, file, path, texts);
    }
}

void sources_free(Sources *s)
{
    for (int i = 0; i < s->sources; i++) free(s->source[i].text), free(s->source[i].line);
    free(s->source);
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
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* The word in a text, not as a part of a longer one. */
static const char *find_word(const char *text, const char *word, size_t letters)
{
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[letters])) return at;
    return NULL;
}

static bool is_comment(const char *begin, const char *at)
{
    for (const char *c = begin; c < at; c++)
        if (*c == '#' && (c == begin || isspace((unsigned char)c[-1]))) return true;
    return false;
}

/* The line of the source nearest to `line` that has the word; 0: none has. */
static int nearest_line(const SourceText *source, const char *word, int line)
{
    size_t letters = strlen(word);
    int best = 0;
    for (const char *at = source->text; (at = find_word(at, word, letters)); at++) {
        int low = 0, high = source->lines;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (source->line[middle] <= at) low = middle;
            else high = middle;
        }
        if (is_comment(source->line[low], at)) continue;
        if (!best || abs(low + 1 - line) < abs(best - line)) best = low + 1;
    }
    return best;
}

/* The first command that had the word, with its value where one has both. */
static const TraceEntry *first_entry(const Run *run, int64_t traced, const char *word, const char *value)
{
    char both[512];
    size_t letters = strlen(word);
    const TraceEntry *found = NULL;
    snprintf(both, sizeof both, "%s %s", word, value ? value : "");
    for (int pass = value && strlen(word) + strlen(value) < sizeof both - 2 ? 0 : 1; !found && pass < 2;
         pass++)
        for (int i = 0; !found && i < run->entries && run->entry[i].at < traced; i++) {
            const char *text = run->entry[i].text;
            if (pass ? find_word(text, word, letters) != NULL : strstr(text, both) != NULL)
                found = &run->entry[i];
        }
    return found;
}

Place word_place(const Sources *s, const Run *run, int64_t traced, const char *word, const char *value)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(word[0] == '-' ? strcspn(word, "=") : strlen(word)), word);
    const TraceEntry *e = *name ? first_entry(run, traced, name, value) : NULL;
    const SourceText *source = e ? source_find(s, e->file) : NULL;
    int line = source && *name ? nearest_line(source, name, e->line) : 0;
    if (line) return (Place){ source->shown_as, line };
    for (int i = 0; *name && i < s->sources; i++) /* of bash -c, or made of parts */
        if ((line = nearest_line(&s->source[i], name, 0))) return (Place){ s->source[i].shown_as, line };
    return source ? (Place){ source->shown_as, e->line } : (Place){ "", 0 };
}

/* Whether some assignment gave the variable this value. */
static bool had_value(const Run *run, const char *name, size_t letters, const char *value)
{
    for (int i = 0; i < run->entries; i++) {
        const char *text = run->entry[i].text;
        if (strncmp(text, name, letters) || text[letters] != '=') continue;
        size_t quoted = text[letters + 1] == '\'', n = strlen(value);
        if (!strncmp(text + letters + 1 + quoted, value, n) && strchr("'\n", text[letters + 1 + quoted + n]))
            return true;
    }
    return false;
}

static bool writes_file(const Run *run, const char *target, const char *end, const char *path)
{
    while (target < end && strchr(" \t\"'>|", *target)) target++;
    if (target < end && *target == '$') {
        const char *name = target + 1 + (target + 1 < end && target[1] == '{');
        size_t n = 0;
        while (name + n < end && (isalnum((unsigned char)name[n]) || name[n] == '_')) n++;
        if (n && had_value(run, name, n, path)) return true;
    }
    size_t letters = strcspn(target, " \t\"'\n;&|"), leaf = strlen(path_leaf(path, strlen(path)));
    return letters >= leaf && !strncmp(target + letters - leaf, path_leaf(path, strlen(path)), leaf);
}

Place file_place(const Sources *s, const Run *run, const char *path)
{
    for (int i = 0; i < s->sources; i++) {
        const SourceText *source = &s->source[i];
        for (int line = 0; line < source->lines; line++) {
            const char *begin = source->line[line], *end = source->line[line + 1];
            for (const char *at = begin; (at = memchr(at, '>', (size_t)(end - at))); at++)
                if (!is_comment(begin, at) && writes_file(run, at, end, path))
                    return (Place){ source->shown_as, line + 1 };
        }
    }
    return (Place){ "", 0 };
}

/* The entry before the call that is nearest to it, of its process or else of the nearest one above. */
static const TraceEntry *entry_of(const Sources *s, const Run *run, const CallRecord *call)
{
    for (int p = 0; p < call->pids; p++)
        for (int i = run->entries - 1; i >= 0; i--) {
            const TraceEntry *e = &run->entry[i];
            if (e->at < call->traced && e->pid == call->pid[p] && source_find(s, e->file)) return e;
        }
    return NULL;
}

Place call_place(const Sources *s, const Run *run, const CallRecord *call)
{
    const TraceEntry *e = entry_of(s, run, call);
    return e ? (Place){ source_shown(s, e->file), e->line } : (Place){ "", 0 };
}

/* ---- variables that nobody sets ---- */

static bool is_name_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* What bash sets itself, or every system's environment has. */
static bool is_common(const char *name)
{
    static const char *const names[] = {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "RANDOM", "SECONDS",
        "LINENO", "BASHPID", "UID", "EUID", "PPID", "IFS", "OSTYPE", "HOSTTYPE", "MACHTYPE", "SHLVL",
        "REPLY", "OPTARG", "OPTIND", "FUNCNAME", "PIPESTATUS", "LANG", "TERM", "TMPDIR", "DIRSTACK",
        "GROUPS", "COLUMNS", "LINES", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "_", NULL
    };
    for (const char *const *n = names; *n; n++)
        if (!strcmp(name, *n)) return true;
    return !strncmp(name, "BASH", 4) || !strncmp(name, "JOTUN_RUN", 9);
}

/* Whether the sources give the name a value anywhere: NAME=, NAME+=, NAME[...]=, for NAME, read NAME and the
 * like. */
static bool is_assigned(const Sources *s, const char *name)
{
    size_t letters = strlen(name);
    for (int i = 0; i < s->sources; i++)
        for (const char *text = s->source[i].text, *at = text; (at = strstr(at, name)); at += letters) {
            if (at > text && (is_name_letter(at[-1]) || strchr("$", at[-1]))) continue;
            const char *end = at + letters;
            if (is_name_letter(*end) || (at > text && at[-1] == '{')) continue;
            if (*end == '=' || !strncmp(end, "+=", 2) || *end == '[' || !strncmp(end, "++", 2) ||
                !strncmp(end, "--", 2))
                return true;
            const char *line = at;
            while (line > text && line[-1] != '\n' && line[-1] != ';') line--;
            static const char *const words[] = { "read",      "for",    "getopts", "mapfile",
                                                 "readarray", "printf", "local",   "declare",
                                                 "typeset",   "select", "let",     NULL };
            for (const char *const *w = words; *w; w++) {
                const char *hit = find_word(line, *w, strlen(*w));
                if (hit && hit < at) return true;
            }
        }
    return false;
}

/* "$NAME" as the operand of a test, or with a default: being unset has a meaning there. */
static bool is_tested(const char *text, const char *at, const char *end)
{
    if (at[0] == '{' && *end && strchr(":-=+?", *end)) return true; /* ${NAME:-12} */
    const char *line = at;
    while (line > text && line[-1] != '\n') line--;
    for (const char *c = line; c < at; c++)
        if ((c[0] == '-' && (c == line || c[-1] != '-') && strchr("znv", c[1]) &&
             isspace((unsigned char)c[2]) && at - c < 8) ||
            (c[0] == '[' && isspace((unsigned char)c[1])))
            return true;
    return find_word(line, "case", 4) && find_word(line, "case", 4) < at;
}

static bool is_counted(const char *text, const char *at)
{
    const char *line = at;
    while (line > text && line[-1] != '\n') line--;
    for (const char *c = line; c < at; c++)
        if (c[0] == '(' && c[1] == '(') return true;
    return false;
}

static bool is_given(const char *name, const char *const *given, int count)
{
    size_t letters = strlen(name);
    for (int i = 0; i < count; i++)
        if (!strncmp(given[i], name, letters) && given[i][letters] == '=') return true;
    return false;
}

/* Calls with each name that the sources read; `tested` where it is tested there or has a default. */
static void each_read(const Sources *s,
                      void (*see)(void *, const char *name, bool tested, bool counted, const SourceText *,
                                  const char *at),
                      void *context)
{
    char name[128];
    for (int i = 0; i < s->sources; i++)
        for (const char *text = s->source[i].text, *at = text; (at = strchr(at, '$'));) {
            at++;
            const char *begin = at + (*at == '{');
            size_t letters = 0;
            while (is_name_letter(begin[letters])) letters++;
            if (!letters || isdigit((unsigned char)*begin) || letters >= sizeof name) continue;
            if (at - 2 >= text && at[-2] == '\\') continue;
            const char *line = at;
            while (line > text && line[-1] != '\n') line--;
            if (is_comment(line, at - 1)) continue;
            memcpy(name, begin, letters), name[letters] = 0;
            see(context, name, is_tested(text, at, begin + letters), is_counted(text, at), &s->source[i], at);
        }
}

/* Names inside of (( )), which need no $ there. */
static void each_counted(const Sources *s,
                         void (*see)(void *, const char *, bool, bool, const SourceText *, const char *),
                         void *context)
{
    char name[128];
    for (int i = 0; i < s->sources; i++)
        for (const char *at = s->source[i].text; (at = strstr(at, "(("));) {
            const char *end = at + strcspn(at, "\n"), *close = memmem(at, (size_t)(end - at), "))", 2);
            for (at += 2; close && at < close; at++) {
                size_t n = 0;
                while (is_name_letter(at[n])) n++;
                if (n && n < sizeof name && !isdigit((unsigned char)*at) && !strchr("${", at[-1])) {
                    snprintf(name, sizeof name, "%.*s", (int)n, at);
                    see(context, name, false, true, &s->source[i], at);
                }
                at += n ? n - 1 : 0;
            }
        }
}

typedef struct {
    UnsetNames *out;
    UnsetNames tested;
    Texts *texts;
} Reading;

static int find_name(const UnsetNames *n, const char *name)
{
    for (int i = 0; i < n->names; i++)
        if (!strcmp(n->name[i].name, name)) return i;
    return -1;
}

static void see_name(void *context, const char *name, bool tested, bool counted, const SourceText *source,
                     const char *at)
{
    Reading *r = context;
    UnsetNames *list = tested ? &r->tested : r->out;
    int i = find_name(list, name), line = 1;
    if (i >= 0) {
        list->name[i].counted |= counted;
        return;
    }
    while (line < source->lines && source->line[line] <= at) line++;
    ARRAY_RESERVE_OR_STOP(list->name, list->room, list->names + 1);
    name = texts_keep(r->texts, name, (int64_t)strlen(name));
    list->name[list->names++] = (UnsetName){ name, counted, source->shown_as, line, false };
}

void unset_names(UnsetNames *out, const Sources *s, const char *const *given, int count, Texts *texts)
{
    Reading r = { out, { 0 }, texts };
    each_read(s, see_name, &r);
    each_counted(s, see_name, &r);
    int kept = 0;
    for (int i = 0; i < out->names; i++) {
        const char *name = out->name[i].name;
        if (is_common(name) || is_given(name, given, count) || find_name(&r.tested, name) >= 0 ||
            is_assigned(s, name))
            continue;
        out->name[kept++] = out->name[i];
    }
    out->names = kept;
    free(r.tested.name);
}

void unset_names_add_site(UnsetNames *out, const Sources *s, const char *name, Texts *texts)
{
    if (find_name(out, name) >= 0 || is_assigned(s, name)) return;
    for (int i = 0; i < s->sources; i++) {
        int line = nearest_line(&s->source[i], name, 0);
        if (!line) continue;
        ARRAY_RESERVE_OR_STOP(out->name, out->room, out->names + 1);
        name = texts_keep(texts, name, (int64_t)strlen(name));
        out->name[out->names++] = (UnsetName){ name, false, s->source[i].shown_as, line, true };
        return;
    }
}

bool sources_name(const Sources *s, const char *name)
{
    for (int i = 0; i < s->sources; i++)
        if (nearest_line(&s->source[i], name, 0)) return true;
    return false;
}

static void see_one(void *context, const char *name, bool tested, bool counted, const SourceText *source,
                    const char *at)
{
    (void)tested, (void)counted, (void)source, (void)at;
    const char **wanted = context;
    if (!strcmp(name, wanted[0])) wanted[1] = name;
}

bool sources_read(const Sources *s, const char *name)
{
    const char *wanted[2] = { name, NULL };
    if (!is_common(name)) each_read(s, see_one, wanted);
    return wanted[1] != NULL;
}

/* ---- what decides a word ---- */

/* NAME= or NAME+= at the beginning of an entry; 0: it is no assignment. */
static size_t assigned_letters(const char *text)
{
    size_t n = 0;
    if (isdigit((unsigned char)*text)) return 0;
    while (is_name_letter(text[n])) n++;
    return n && (text[n] == '=' || !strncmp(text + n, "+=", 2)) ? n : 0;
}

static bool same_place(const TraceEntry *a, const TraceEntry *b)
{
    return a->line == b->line && !strcmp(a->file, b->file);
}

/* Entry `at` of `run` in the other one: the same place, as often met before. */
static const TraceEntry *twin(const Run *run, int at, const Run *other)
{
    int before = 0;
    size_t letters = assigned_letters(run->entry[at].text);
    for (int i = 0; i < at; i++)
        before += same_place(&run->entry[i], &run->entry[at]) &&
                  !strncmp(run->entry[i].text, run->entry[at].text, letters + 1);
    for (int i = 0; i < other->entries; i++)
        if (same_place(&other->entry[i], &run->entry[at]) &&
            !strncmp(other->entry[i].text, run->entry[at].text, letters + 1) && before-- == 0)
            return &other->entry[i];
    return NULL;
}

static const char *value_of(const char *text)
{
    const char *value = strchr(text, '=');
    return value ? value + 1 + (value[1] == '\'') : "";
}

static bool shares(const char *word, const char *value)
{
    size_t n = strcspn(value, "'\n");
    char part[256];
    if (!n || n >= sizeof part) return false;
    memcpy(part, value, n), part[n] = 0;
    return strstr(word, part) != NULL;
}

/* The first word of a command, without its folder. */
static void command_of(char *out, size_t size, const char *text)
{
    size_t n = strcspn(text, " \t\n");
    const char *begin = text;
    for (const char *c = text; c < text + n; c++)
        if (*c == '/') begin = c + 1;
    snprintf(out, size, "%.*s", (int)(text + n - begin), begin);
}

static bool is_answered(const Run *run, const char *name)
{
    for (int i = 0; i < run->calls; i++)
        if (!strcmp(run->call[i].name, name)) return true;
    return false;
}

/* A reader of a file that is not there, in whose place another run had one. */
static bool reads_missing(const char *command, const char *text)
{
    static const char *const readers[] = { "cat", "head", "tail", "grep", "sed",    "awk", "jq",
                                           "wc",  "[",    "[[",   "test", "source", ".",   NULL };
    bool reads = false;
    for (const char *const *r = readers; *r; r++)
        reads |= !strcmp(command, *r) || (*command == '\'' && !strcmp(*r, "[") && command[1] == '[');
    for (const char *p = text; reads && (p = strstr(p, " /"));) {
        char path[1024];
        struct stat about;
        size_t n = strcspn(++p, " \t\n'\"");
        snprintf(path, sizeof path, "%.*s", (int)(n < sizeof path ? n : 0), p);
        if (*path && stat(path, &about) != 0) return true;
    }
    return false;
}

/* The program whose output or exit code made entry `at`: of the substitutions right before it, or its own. */
static bool program_before(char *out, size_t size, const Run *run, const Run *other, int at, bool own)
{
    for (int i = own ? at : at - 1; i >= 0 && i > at - 40; i--) {
        command_of(out, size, run->entry[i].text);
        bool inner = i == at || (run->entry[i].depth > run->entry[at].depth &&
                                 same_place(&run->entry[i], &run->entry[at]));
        if (!inner && i < at) break;
        if (is_answered(run, out) || is_answered(other, out) || reads_missing(out, run->entry[i].text))
            return true;
    }
    return false;
}

static bool names_variable(const Sources *s, const TraceEntry *e, const char *name, size_t letters)
{
    int bytes;
    const char *line = source_line(s, e->file, e->line, &bytes);
    for (const char *at = line; (at = memmem(at, (size_t)(line + bytes - at), name, letters)); at++)
        if ((at == line || !is_name_letter(at[-1])) && !is_name_letter(at[letters])) return true;
    return false;
}

static const char *describe(const Sources *s, const char *program, const TraceEntry *e, Texts *texts)
{
    size_t letters = assigned_letters(e->text);
    const char *file = source_shown(s, e->file);
    return texts_format(texts, "%.200s%s(%s:%d%s%.*s)", printable(texts, program, 200), *program ? " " : "",
                        *file ? file : "bash -c", e->line, letters ? ", " : "",
                        (int)(letters < 100 ? letters : 100), e->text);
}

/* The condition before an assignment that only one run makes. */
static const char *condition_cause(const Sources *s, const Run *base, const Run *other, int at, Texts *texts)
{
    char program[256];
    for (int i = at - 1; i >= 0 && i > at - 200; i--) {
        const TraceEntry *e = &base->entry[i], *t = twin(base, i, other);
        if (program_before(program, sizeof program, base, other, i, true))
            return describe(s, program, e, texts);
        bool test = e->text[0] == '[' || e->text[0] == '\'' || !strncmp(e->text, "test ", 5) ||
                    !strncmp(e->text, "((", 2) || !strncmp(e->text, "case ", 5);
        if (test && (!t || strcmp(t->text, e->text)))
            return describe(s, printable(texts, e->text, 120), e, texts);
    }
    return describe(s, "", &base->entry[at], texts);
}

/* A variable that nobody sets, on the line of an assignment; "": it names none. */
static const char *unset_on_line(const Sources *s, const TraceEntry *e, const UnsetNames *unset, Texts *texts)
{
    for (int i = 0; i < unset->names; i++) {
        const char *name = unset->name[i].name, *file = source_shown(s, e->file);
        if (!*file || !names_variable(s, e, name, strlen(name))) continue;
        return texts_format(texts, "$%s, which is not set (%s:%d)", name, file, e->line);
    }
    return "";
}

/* From an assignment that differs back to the one that made it differ. */
static const char *follow(const Sources *s, const Run *base, const Run *other, const UnsetNames *unset,
                          int at, Texts *texts)
{
    char program[256];
    for (int steps = 0; steps < 10; steps++) {
        const TraceEntry *e = &base->entry[at];
        if (program_before(program, sizeof program, base, other, at, true))
            return describe(s, program, e, texts);
        const char *variable = unset_on_line(s, e, unset, texts);
        if (*variable) return variable;
        int from = -1;
        for (int i = at - 1; i >= 0 && from < 0; i--) {
            const TraceEntry *t;
            size_t letters = assigned_letters(base->entry[i].text);
            if (!letters || !names_variable(s, e, base->entry[i].text, letters)) continue;
            t = twin(base, i, other);
            if (!t || strcmp(t->text, base->entry[i].text)) from = i;
        }
        if (from < 0 && !twin(base, at, other)) return condition_cause(s, base, other, at, texts);
        if (from < 0) { /* A && N=1 || N=2 */
            for (int i = at - 1; i >= 0 && same_place(&base->entry[i], e); i--)
                if (program_before(program, sizeof program, base, other, i, true))
                    return describe(s, program, &base->entry[i], texts);
            return describe(s, "", e, texts);
        }
        at = from;
    }
    return describe(s, "", &base->entry[at], texts);
}

const char *word_cause(const Sources *s, const Run *base, const Run *other, const UnsetNames *unset,
                       const char *word, const char *changed, Texts *texts)
{
    char program[256];
    for (int i = 0; changed && i < unset->names; i++)
        if (strstr(changed, unset->name[i].name) && !strstr(word, unset->name[i].name))
            return texts_format(texts, "$%s, which is not set (%s:%d)", unset->name[i].name,
                                unset->name[i].file, unset->name[i].line);
    for (int pass = 0; pass < 2; pass++)
        for (int i = base->entries - 1; i >= 0; i--) {
            const char *text = base->entry[i].text;
            if (!assigned_letters(text) || !shares(word, value_of(text))) continue;
            const TraceEntry *t = twin(base, i, other);
            if (t && !strcmp(t->text, text)) continue;
            if (!pass && t && changed && !shares(changed, value_of(t->text))) continue;
            return follow(s, base, other, unset, i, texts);
        }
    for (int i = changed ? other->entries - 1 : -1; i >= 0; i--) { /* a value that is empty here */
        const char *text = other->entry[i].text;
        if (!assigned_letters(text) || !shares(changed, value_of(text))) continue;
        const TraceEntry *t = twin(other, i, base);
        if (!t || strcmp(t->text, text)) return follow(s, other, base, unset, i, texts);
    }
    for (int i = base->entries - 1; i >= 0; i--) /* in the words of the call itself */
        if (find_word(base->entry[i].text, word, strlen(word)) &&
            program_before(program, sizeof program, base, other, i, false))
            return describe(s, program, &base->entry[i], texts);
    for (int i = 0; i < unset->names; i++)
        if (unset->name[i].counted)
            return texts_format(texts, "$%s, which is not set (%s:%d)", unset->name[i].name,
                                unset->name[i].file, unset->name[i].line);
    return "what this machine answers";
}

/* ---- what is empty ---- */

/* "$NAME" or "${NAME}" or "$1" at p. */
static size_t variable_at(const char *p, const char *end, const char **name)
{
    if (p >= end || *p != '$') return 0;
    bool brace = p + 1 < end && p[1] == '{';
    const char *begin = p + 1 + brace;
    size_t n = 0;
    while (begin + n < end && is_name_letter(begin[n])) n++;
    *name = begin;
    return n;
}

/* The source of NAME's last empty assignment, if that is another variable's or a positional parameter's
 * value. */
static const char *emptied_by(const Sources *s, const Run *run, const char *name, size_t letters,
                              Texts *texts)
{
    for (int i = run->entries - 1; i >= 0; i--) {
        const TraceEntry *e = &run->entry[i];
        if (assigned_letters(e->text) != letters || strncmp(e->text, name, letters) || *value_of(e->text))
            continue;
        int bytes;
        const char *line = source_line(s, e->file, e->line, &bytes), *inner = NULL;
        for (const char *p = line; p < line + bytes; p++) {
            size_t n = variable_at(p, line + bytes, &inner);
            if (n)
                return texts_format(texts, ", which %s:%d sets to $%.*s", source_shown(s, e->file), e->line,
                                    (int)n, inner);
        }
        return texts_format(texts, ", which %s:%d sets to nothing", source_shown(s, e->file), e->line);
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
