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
#include "base/array.h"
#include "base/utf8.h"

enum { ENTRIES_MOST = 400000, CALLS_MOST = 4000, WORDS_MOST = 20000 };

/* ---- texts ---- */

void *texts_room(Texts *t, size_t bytes)
{
    void *room = calloc(1, bytes + 1);
    CHECK(room, "no memory for %zu bytes", bytes);
    ARRAY_RESERVE_OR_STOP(t->item, t->room, t->items + 1);
    return t->item[t->items++] = room;
}

const char *texts_keep(Texts *t, const char *text, int64_t bytes)
{
    return memcpy(texts_room(t, (size_t)bytes), text, (size_t)bytes);
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

const char *texts_join(Texts *t, const char *text, int64_t bytes, const char *middle, const char *end)
{
    char *out = texts_room(t, (size_t)bytes + strlen(middle) + strlen(end));
    memcpy(out, text, (size_t)bytes);
    stpcpy(stpcpy(out + bytes, middle), end);
    return out;
}

void texts_free(Texts *t)
{
    for (int i = 0; i < t->items; i++) free(t->item[i]);
    free(t->item);
    *t = (Texts){ 0 };
}

const char *texts_printable(Texts *t, const char *text, int64_t bytes, int most)
{
    Buffer out = { 0 };
    for (const char *c = text, *end = text + bytes; c < end && *c;) {
        uint32_t point;
        int n = utf8_decode(&point, (const uint8_t *)c, end - c);
        bool shown = point >= ' ' && (point < 0x7f || point >= 0xa0) && point != UTF8_BROKEN;
        if (out.bytes + (shown ? n : 4) > most) {
            buffer_add_text_or_stop(&out, "...");
            break;
        }
        if (shown) buffer_add_or_stop(&out, c, n);
        else if (*c == '\n' || *c == '\t') buffer_add_or_stop(&out, " ", 1);
        else CHECK(buffer_format(&out, "\\x%02x", (uint8_t)*c) == OK, "%s", fail_text());
        c += shown ? n : 1;
    }
    text = texts_keep(t, out.bytes ? out.text : "", out.bytes);
    buffer_free(&out);
    return text;
}

/* ---- the trace ---- */

static int number(const char *text)
{
    long n = strtol(text, NULL, 10);
    return n > 0 && n < INT_MAX ? (int)n : 0;
}

/* Cuts the texts between \2; false: the line is none of ours. */
static bool read_entry(TraceEntry *e, char *line)
{
    e->depth = (int)strspn(line, "\1");
    line += e->depth;
    char *pid = strsep(&line, "\2"), *file = line ? strsep(&line, "\2") : NULL,
         *at = line ? strsep(&line, "\2") : NULL;
    if (!e->depth || !line) return false;
    e->pid = number(pid), e->line = number(at), e->file = file, e->text = line;
    return true;
}

static bool is_ours(const TraceEntry *e)
{
    return !strcmp(e->text, "set -x") || !strcmp(e->text, "set +x") || !strncmp(e->text, "JOTUN_LAST=", 11) ||
           (strstr(e->file, "/prelude") && strlen(e->file) < 300 && strstr(e->file, "jotun"));
}

/* Copies of the machine's files have paths of their own below `folder`, which are taken away. */
static void show_as_here(const char *text, const char *folder)
{
    size_t n = strlen(folder);
    char *to = (char *)(uintptr_t)text;
    for (const char *from = text, *hit; n && from; from = hit ? hit + n : NULL) {
        hit = strstr(from, folder);
        size_t kept = hit ? (size_t)(hit - from) : strlen(from) + 1;
        memmove(to, from, kept);
        to += kept;
    }
}

static void read_trace(Run *run)
{
    RunOutput *r = run->output;
    char *p = r->text[RUN_TRACE], *begin = p, *end = p + r->bytes[RUN_TRACE];
    ARRAY_RESERVE_OR_STOP(run->entry, run->entry_room, 1);
    while (p < end && run->entries < ENTRIES_MOST) {
        char *next = p;
        do next = memchr(next, '\n', (size_t)(end - next)), next = next ? next + 1 : end;
        while (next < end && *next != 1);
        TraceEntry e = { .at = p - begin };
        if (next > p && next[-1] == '\n') next[-1] = 0;
        bool known = read_entry(&e, p), ours = known && is_ours(&e);
        p = next;
        if (ours && run->entries && !strncmp(e.text, ": JOTUN_FAILED", 14)) { /* of the last cd */
            e.file = run->entry[run->entries - 1].file, e.line = run->entry[run->entries - 1].line;
            ours = is_ours(&e);
        }
        if (!known || ours) continue;
        show_as_here(e.file, r->moved), show_as_here(e.text, r->moved);
        ARRAY_RESERVE_OR_STOP(run->entry, run->entry_room, run->entries + 1);
        run->entry[run->entries++] = e;
    }
}

/* ---- the calls ---- */

typedef struct {
    char *at, *end;
    const char *moved;
    bool bad;
} Cursor;

static const char *next_text(Cursor *c)
{
    char *stop = c->at < c->end ? memchr(c->at, 0, (size_t)(c->end - c->at)) : NULL;
    const char *text = c->at;
    if (!stop) return c->bad = true, "";
    c->at = stop + 1;
    show_as_here(text, c->moved);
    return text;
}

static int64_t next_number(Cursor *c, int64_t most)
{
    const char *text = next_text(c);
    char *end;
    long long n = strtoll(text, &end, 10);
    if (*text && !*end && n >= 0 && n <= most) return n;
    c->bad = true;
    return 0;
}

static void read_call(Cursor *c, CallRecord *call, Texts *texts)
{
    call->name = next_text(c), call->folder = next_text(c), call->traced = next_number(c, INT64_MAX);
    for (char *pid = (char *)(uintptr_t)next_text(c), *one; call->pids < 32 && (one = strsep(&pid, " "));)
        if (*one) call->pid[call->pids++] = number(one);
    call->words = (int)next_number(c, WORDS_MOST);
    call->word = texts_room(texts, (size_t)call->words * sizeof *call->word);
    for (int i = 0; i < call->words; i++) call->word[i] = next_text(c);
    call->files = (int)next_number(c, 16);
    for (int i = 0; i < call->files; i++) {
        call->file[i].path = next_text(c);
        call->file[i].text = next_text(c);
    }
}

/* Whether a call comes after another by the numbers of the processes that one parent has started for them:
 * what runs in the background writes its record at any time. Numbers far apart may have started again. */
static bool is_later(const CallRecord *a, const CallRecord *b)
{
    int i = a->pids - 1, k = b->pids - 1;
    while (i >= 0 && k >= 0 && a->pid[i] == b->pid[k]) i--, k--;
    return i >= 0 && k >= 0 && a->pid[i] > b->pid[k] && a->pid[i] - b->pid[k] < 200;
}

static void read_calls(Run *run, Texts *texts)
{
    RunOutput *r = run->output;
    Cursor c = { r->text[RUN_CALLS], r->text[RUN_CALLS] + r->bytes[RUN_CALLS], r->moved, false };
    while (c.at < c.end && !c.bad) {
        const char *kind = next_text(&c);
        CallRecord call = { 0 };
        if (!strcmp(kind, "OLD")) {
            run->old_bash = true;
            return;
        }
        c.bad |= strcmp(kind, "CALL") || run->calls == CALLS_MOST;
        if (!c.bad) read_call(&c, &call, texts);
        if (c.bad) break;
        ARRAY_RESERVE_OR_STOP(run->call, run->call_room, run->calls + 1);
        int at = run->calls++;
        for (; at && is_later(&run->call[at - 1], &call); at--) run->call[at] = run->call[at - 1];
        run->call[at] = call;
    }
    run->damaged = c.bad;
}

void run_read(Run *run, Texts *texts)
{
    read_trace(run);
    read_calls(run, texts);
    show_as_here(run->output->text[RUN_PRINTED], run->output->moved);
}

void run_close(Run *run)
{
    free(run->call);
    free(run->entry);
    run_output_free(run->output);
    *run = (Run){ 0 };
}

/* ---- their words ---- */

size_t assigned_letters(const char *text)
{
    size_t n = 0;
    if (isdigit((unsigned char)*text)) return 0;
    while (is_name_letter(text[n])) n++;
    return n && (text[n] == '=' || !strncmp(text + n, "+=", 2)) ? n : 0;
}

bool entry_reads(char path[1024], const char **p, const TraceEntry *e)
{
    static const char *const readers[] = { "cat ", "head ",   "tail ", "grep ", "sed ",  "awk ", "jq ",
                                           "wc ",  "source ", ". ",    "[ ",    "'[' ",  "[[ ",  "test ",
                                           "ls ",  "sort ",   "cut ",  "stat ", "uniq ", "egrep " };
    bool reads = false;
    for (int i = 0; i < COUNT(readers); i++) reads |= !strncmp(e->text, readers[i], strlen(readers[i]));
    for (++*p; reads && **p; ++*p) {
        size_t n = **p == '/' && strchr(" '", (*p)[-1]) ? strcspn(*p, " \t\n'\"") : 0;
        if (n && n < 1024) return snprintf(path, 1024, "%.*s", (int)n, *p), true;
    }
    return false;
}

static bool is_launcher_module(const char *module)
{
    return !strncmp(module, "torch.distributed.", 18) || !strncmp(module, "deepspeed.launcher", 18) ||
           !strncmp(module, "accelerate.commands", 19);
}

int program_word(const CallRecord *c)
{
    static const char *const names[] = { "torchrun", "deepspeed", "accelerate", "horovodrun",
                                         "ipython",  "ray",       NULL };
    bool runs = is_python_name(c->name);
    for (const char *const *n = names; *n; n++) runs |= !strcmp(c->name, *n);
    for (int i = 0; runs && i < c->words; i++) {
        size_t n = strlen(c->word[i]);
        if (!strcmp(c->word[i], "-c") && is_python_name(c->name)) return -1;
        if (n >= 3 && !strcmp(c->word[i] + n - 3, ".py") && c->word[i][0] != '-') return i;
        bool module = !strcmp(c->word[i], "-m") || !strcmp(c->word[i], "--module");
        if (module && i + 1 < c->words && !is_launcher_module(c->word[i + 1])) return i + 1;
        i += module;
    }
    return -1;
}
