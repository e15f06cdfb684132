/* The commands of a script. A stack of frames says whether the commands that are read count: those of an if
 * that holds do, those of a loop or of a function's definition do not. */
#include "conf/script/commands.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conf/script/execute.h"
#include "conf/script/functions.h"

enum { FRAMES = 64, HERES = 8 };
typedef enum { FRAME_IF, FRAME_CASE, FRAME_LOOP, FRAME_FUNCTION, FRAME_GROUP } FrameKind;

/* counts: of the commands around it; running: of those that are read now; taken: a branch was. pattern: of a
 * case, a pattern is next. unknown: a condition of an if is not known. name, body: of a function. */
typedef struct {
    FrameKind   kind;
    bool        counts, running, taken, pattern, unknown;
    const char *subject, *name, *body;
    int         line;
} Frame;
typedef struct {
    const char *word, *target;
    size_t      letters;
    bool        quoted, tabs;
} Here;

/* last: what the last command said, 1, 0 or -1; join: the sign before the next one, & for && or | for ||. */
typedef struct {
    Reader     *r;
    const char *p, *end, *counted;
    int         line, counted_line, last;
    char        join;
    bool        negated;
    const char *function_next; /* the name of a function whose body is next */
    Frame       frame[FRAMES];
    int         frames;
    Here        here[HERES];
    int         heres;
    const char *target; /* of > in the command that is read */
} Commands;

static int line_here(Commands *c)
{
    for (; c->counted < c->p; c->counted++) c->counted_line += *c->counted == '\n';
    return c->r->counted_line = c->counted_line;
}

static bool running(const Commands *c)
{
    return !c->frames || c->frame[c->frames - 1].running;
}

/* What keeps commands from running; NULL: they run. */
static const Frame *kept_by(const Commands *c)
{
    for (int i = 0; i < c->frames; i++)
        if (!c->frame[i].running) return &c->frame[i];
    return NULL;
}

static bool in_loop(const Commands *c) { return kept_by(c) && kept_by(c)->kind == FRAME_LOOP; }
static bool in_doubt(const Commands *c) { return kept_by(c) && kept_by(c)->unknown; }

static Frame *top(Commands *c, FrameKind kind)
{
    Frame *f = c->frames ? &c->frame[c->frames - 1] : NULL;
    return f && f->kind == kind ? f : NULL;
}

static void push(Commands *c, FrameKind kind, bool runs)
{
    if (c->frames == FRAMES) {
        reader_fail(c->r, line_here(c), "commands are nested more than %d deep", FRAMES);
        return;
    }
    bool counts = running(c);
    c->frame[c->frames++] =
        (Frame){.kind = kind, .counts = counts, .running = counts && runs, .line = line_here(c)};
}

static void pop(Commands *c, FrameKind kind, const char *word)
{
    if (top(c, kind)) {
        if (c->frame[--c->frames].unknown) doubt_ends(c->r);
    } else reader_fail(c->r, line_here(c), "%s has no beginning", word);
}

static void skip_blanks(Commands *c)
{
    for (;;) {
        if (c->p < c->end && strchr(" \t\r", *c->p)) c->p++;
        else if (c->end - c->p > 1 && c->p[0] == '\\' && c->p[1] == '\n') c->p += 2;
        else if (c->end - c->p > 2 && c->p[0] == '\\' && c->p[1] == '\r' && c->p[2] == '\n') c->p += 3;
        else if (c->p < c->end && *c->p == '#')
            while (c->p < c->end && *c->p != '\n') c->p++;
        else return;
    }
}

static bool is_word(const char *p, const char *e, const char *word)
{
    return (size_t)(e - p) == strlen(word) && !strncmp(p, word, (size_t)(e - p));
}

/* ---- reading a command ---- */

/* << NAME, <<- NAME, <<< text, > file, 2>&1 */
static void redirect(Commands *c)
{
    bool here   = c->end - c->p > 1 && c->p[0] == '<' && c->p[1] == '<',
         string = here && c->end - c->p > 2 && c->p[2] == '<';
    bool out    = *c->p == '>';
    Here h      = {0};
    while (c->p < c->end && strchr("<>&|", *c->p)) c->p++;
    if (here && c->p < c->end && *c->p == '-') h.tabs = true, c->p++;
    skip_blanks(c);
    int         line = line_here(c);
    const char *word = c->p, *e = word_end(c->r, c->p, c->end, line);
    c->p = e;
    if (out && running(c)) c->target = expand_text(c->r, word, e, line);
    if (!here || string) return;
    h.quoted = memchr(word, '\'', (size_t)(e - word)) || memchr(word, '"', (size_t)(e - word)) ||
               memchr(word, '\\', (size_t)(e - word));
    while (word < e && strchr("'\"\\", *word)) word++;
    while (e > word && strchr("'\"", e[-1])) e--;
    h.word = word, h.letters = (size_t)(e - word);
    if (c->heres < HERES) c->here[c->heres++] = h;
    else reader_fail(c->r, line, "more than %d << in a command", HERES);
}

static void add_file(Commands *c, const Here *h, const char *body, const char *end, int line)
{
    Script     *s     = c->r->script;
    ScriptFile *grown = s->files < 64 ? realloc(s->file, (size_t)(s->files + 1) * sizeof *grown) : NULL;
    if (!grown) return;
    s->file = grown;
    const char *text =
        h->quoted ? reader_hold(c->r, body, (size_t)(end - body)) : expand_here(c->r, body, end, line);
    s->file[s->files++] = (ScriptFile){h->target, text, line};
}

/* The lines of each << whose command ended with this line. */
static void read_heres(Commands *c)
{
    for (int i = 0; i < c->heres; i++) {
        const Here *h    = &c->here[i];
        const char *body = c->p;
        int         line = line_here(c);
        for (bool found = false; !found;) {
            const char *at = c->p, *e = c->p < c->end ? memchr(c->p, '\n', (size_t)(c->end - c->p)) : NULL;
            if (c->p >= c->end) {
                reader_fail(c->r, line, "<<%.*s has no end", (int)h->letters, h->word);
                break;
            }
            if (!e) e = c->end;
            while (h->tabs && at < e && *at == '\t') at++;
            size_t letters = (size_t)(e - at) - (e > at && e[-1] == '\r');
            found          = letters == h->letters && !strncmp(at, h->word, letters);
            if (found && h->target && running(c)) add_file(c, h, body, c->p, line);
            c->p = e < c->end ? e + 1 : e;
        }
    }
    c->heres = 0;
}

static bool ends_command(const Commands *c)
{
    return c->p == c->end || strchr("\n;|)", *c->p) ||
           (*c->p == '&' && !(c->p + 1 < c->end && c->p[1] == '>'));
}

/* What follows a command: && and || say when the next one counts. */
static void take_sign(Commands *c)
{
    char sign    = c->p < c->end ? *c->p : 0;
    bool doubled = sign && c->p + 1 < c->end && c->p[1] == sign;
    c->join      = 0;
    if ((sign == '&' || sign == '|') && doubled) c->join = sign, c->p += 2;
    else if (sign == '&' || sign == '|') c->p++;
}

/* Inside [[ ]] signs are words and nothing is split. */
static void double_bracket(Commands *c, ScriptWords *f)
{
    while (c->p < c->end && c->r->status == OK) {
        skip_blanks(c);
        int         line = line_here(c);
        const char *p = c->p, *e = word_end(c->r, p, c->end, line);
        if (p < c->end && *p == '\n') {
            c->p++;
            continue;
        }
        if (e == p) e = p + 1 + (c->end - p > 1 && p[1] == p[0] && strchr("&|", *p) != NULL);
        if (e > c->end) return;
        c->p = e;
        words_add(c->r, f, running(c) ? tested_text(c->r, expand_text(c->r, p, e, line)) : "", line);
        if (is_word(p, e, "]]")) return;
    }
}

static bool starts_program(const ScriptWords *f)
{
    for (int i = 0; i < f->count; i++)
        if (ends_with(f->word[i].text, ".py")) return true;
    return false;
}

/* local NAME=value; declare is the same within a function. */
static bool makes_local(const ScriptWords *f)
{
    return f->count && is_any(f->word[0].text, "local declare typeset") &&
           !(f->count > 1 && f->word[1].text[0] == '-' && strchr(f->word[1].text, 'g'));
}

static bool is_name(const char *p, const char *e)
{
    if (p == e || isdigit((unsigned char)*p)) return false;
    while (p < e && (isalnum((unsigned char)*p) || *p == '_')) p++;
    return p == e;
}

/* One word of a simple command; false: it defines a function. */
static bool read_word(Commands *c, ScriptWords *f, bool *assigns)
{
    int         line = line_here(c);
    const char *p = c->p, *sign, *e = word_end(c->r, p, c->end, line);
    size_t      name = assigned_name(p, e, &sign);
    if (running(c) && blank_ends_line(p, e, c->end) && starts_program(f)) {
        reader_fail(c->r, line, BLANK_ENDS_LINE);
        return false;
    }
    if (e < c->end && *e == '(' && name && e[-1] == '=') e = array_end(c->r, e, c->end, line);
    if (e == p || (e < c->end && *e == '(' && !name)) {
        if (e == p || f->count) {
            reader_fail(c->r, line, "%.20s is not understood", e);
            return false;
        }
        c->function_next = reader_hold(c->r, p, (size_t)(e - p));
        for (bool closed = false; e < c->end && !closed; e++) closed = *e == ')';
        c->p = e;
        return false;
    }
    c->p = e;
    if (e < c->end && strchr("<>", *e) && strspn(p, "0123456789") == (size_t)(e - p)) return true; /* 2> */
    if (name && *assigns) {
        if (running(c) && makes_local(f)) function_local(c->r, p, name);
        if (running(c)) assign(c->r, p, e, line);
        else if (in_loop(c)) assign_in_loop(c->r, p, e, line);
        if (in_doubt(c) || (running(c) && c->r->doubts)) assign_in_doubt(c->r, p, e, line);
        return true;
    }
    if (!f->count) c->r->testing = is_word(p, e, "[") || is_word(p, e, "test");
    if (running(c)) expand_fields(c->r, f, p, e, line);
    else {
        Function *called = f->count ? NULL : function_find(c->r, p, (size_t)(e - p));
        if (called && (in_loop(c) || in_doubt(c))) function_skip(c->r, called, in_loop(c), line);
        words_add(c->r, f, f->count ? "" : reader_hold(c->r, p, (size_t)(e - p)), line);
    }
    if (running(c) && *assigns && makes_local(f) && is_name(p, e)) {
        function_local(c->r, p, (size_t)(e - p));
        Variable *v = c->r->calls ? variable_find(c->r, p, (size_t)(e - p)) : NULL;
        if (v) v->values.count = 0, words_add(c->r, &v->values, "", line);
    }
    *assigns &= f->count && is_any(f->word[0].text, "export declare local readonly typeset");
    if (is_word(p, e, "[[") && f->count == 1) double_bracket(c, f);
    return true;
}

static void read_simple(Commands *c)
{
    ScriptWords f       = {0};
    bool        assigns = true, counts = running(c);
    char        join = c->join;
    c->target        = NULL;
    if (counts && ((join == '&' && c->last == 0) || (join == '|' && c->last != 0))) counts = false;
    if (!counts) push(c, FRAME_GROUP, false);
    for (skip_blanks(c); !ends_command(c) && c->r->status == OK; skip_blanks(c)) {
        if (strchr("<>&", *c->p)) redirect(c);
        else if (!read_word(c, &f, &assigns)) break;
    }
    for (int i = 0; i < c->heres; i++)
        if (!c->here[i].target) c->here[i].target = counts ? c->target : NULL;
    if (!counts && c->frames) c->frames--;
    c->r->testing = false;
    if (counts && c->r->status == OK) {
        c->last = f.count ? execute(c->r, &f, c->last) : 1;
        if (c->negated && c->last >= 0) c->last = !c->last;
    }
    c->negated = false;
    free(f.word);
    if (!c->function_next) take_sign(c);
}

/* ---- reserved words ---- */

static void decide(Commands *c)
{
    Frame *f = top(c, FRAME_IF);
    if (!f) {
        reader_fail(c->r, line_here(c), "then has no if");
        return;
    }
    bool asked = f->counts && !f->taken;
    if (asked && c->last < 0) {
        reader_note(c->r, line_here(c), "whether this condition holds is not known; it is taken as false");
        c->r->doubts += !f->unknown;
        f->unknown = true;
    }
    f->running = asked && c->last == 1;
    f->taken |= f->running;
}

static void read_case(Commands *c)
{
    skip_blanks(c);
    int         line    = line_here(c);
    const char *p       = c->p;
    c->p                = word_end(c->r, p, c->end, line);
    const char *subject = running(c) ? known_text(c->r, expand_text(c->r, p, c->p, line)) : "";
    skip_blanks(c);
    while (c->p < c->end && *c->p == '\n') c->p++, skip_blanks(c);
    p    = c->p;
    c->p = word_end(c->r, p, c->end, line);
    if (!is_word(p, c->p, "in")) reader_fail(c->r, line, "case has no in");
    push(c, FRAME_CASE, false);
    if (c->r->status != OK) return;
    c->frame[c->frames - 1].subject = subject;
    c->frame[c->frames - 1].pattern = true;
}

/* a|b) or (a|b) */
static void read_patterns(Commands *c, Frame *f)
{
    bool holds = false;
    int  line  = line_here(c);
    if (c->p < c->end && *c->p == '(') c->p++;
    for (;;) {
        skip_blanks(c);
        const char *p = c->p;
        c->p          = word_end(c->r, p, c->end, line);
        if (is_word(p, c->p, "esac")) {
            c->frames--;
            return;
        }
        if (f->counts) holds |= text_matches(c->r, f->subject, expand_text(c->r, p, c->p, line));
        skip_blanks(c);
        if (c->p < c->end && *c->p == '|') c->p++;
        else break;
    }
    if (c->p >= c->end || *c->p != ')') {
        reader_fail(c->r, line, "a pattern of case has no )");
        return;
    }
    c->p++;
    f->pattern = false;
    f->running = f->counts && !f->taken && holds;
    f->taken |= f->running;
}

static void not_followed(Commands *c, FrameKind kind, const char *what)
{
    if (running(c)) reader_note(c->r, line_here(c), "%s is not followed", what);
    push(c, kind, false);
}

/* Whether the word is reserved, and what it does. */
static bool reserved(Commands *c, const char *p, const char *e)
{
    Frame            *f = top(c, FRAME_IF);
    static const char words[] =
        "if then elif else fi for while until select do done case esac function { } ! time";
    char word[16];
    snprintf(word, sizeof word, "%.*s", (int)(e - p), p);
    if (e - p > 8 || !is_any(word, words)) return false;
    c->p    = e;
    c->join = 0;
    if (!strcmp(word, "if")) push(c, FRAME_IF, true);
    else if (!strcmp(word, "then")) decide(c);
    else if (f && !strcmp(word, "elif")) f->running = f->counts && !f->taken;
    else if (f && !strcmp(word, "else")) f->running = f->counts && !f->taken, f->taken = true;
    else if (!strcmp(word, "fi")) pop(c, FRAME_IF, word);
    else if (!strcmp(word, "done")) pop(c, FRAME_LOOP, word);
    else if (!strcmp(word, "esac")) pop(c, FRAME_CASE, word);
    else if (!strcmp(word, "case")) read_case(c);
    else if (!strcmp(word, "do"))
        ;
    else if (!strcmp(word, "!")) c->negated = !c->negated;
    else if (!strcmp(word, "time"))
        ;
    else if (!strcmp(word, "function")) {
        skip_blanks(c);
        p    = c->p;
        c->p = word_end(c->r, c->p, c->end, line_here(c));
        c->function_next = reader_hold(c->r, p, (size_t)(c->p - p));
        skip_blanks(c);
        while (c->p + 1 < c->end && c->p[0] == '(' && c->p[1] == ')') c->p += 2;
    } else if (!strcmp(word, "{")) {
        push(c, c->function_next ? FRAME_FUNCTION : FRAME_GROUP, !c->function_next);
        if (c->function_next && c->r->status == OK)
            c->frame[c->frames - 1].name = c->function_next, c->frame[c->frames - 1].body = e;
        c->function_next = NULL;
    } else if (!strcmp(word, "}")) {
        Frame *g = top(c, FRAME_FUNCTION);
        if (g && g->counts && g->name) function_define(c->r, (Function){g->name, g->body, p, g->line, false});
        pop(c, g ? FRAME_FUNCTION : FRAME_GROUP, word);
    }
    else if (is_any(word, "elif else")) reader_fail(c->r, line_here(c), "%s has no if", word);
    else not_followed(c, FRAME_LOOP, "a loop");
    return true;
}

/* (( ... )): its result is not used but as a condition */
static void read_sum(Commands *c)
{
    int64_t     value;
    int         line = line_here(c);
    const char *p = c->p + 2, *e = p;
    while (e + 1 < c->end && !(e[0] == ')' && e[1] == ')')) e++;
    if (e + 1 >= c->end) {
        reader_fail(c->r, line, "(( is not closed");
        return;
    }
    c->p = e + 2;
    if (!running(c)) return;
    const char *text = known_text(c->r, expand_text(c->r, p, e, line));
    c->last          = arithmetic(c->r, &value, text, line) ? value != 0 : -1;
    take_sign(c);
}

/* Between commands; false: one begins. */
static bool read_sign(Commands *c)
{
    Frame *f       = top(c, FRAME_CASE);
    char   sign    = *c->p;
    bool   doubled = c->p + 1 < c->end && c->p[1] == sign;
    if (sign == '\n') {
        c->p++;
        read_heres(c);
    } else if (sign == ';' && f && doubled) {
        c->p += 2;
        f->running = false, f->pattern = true;
    } else if (sign == '(' && doubled) read_sum(c);
    else if (sign == '(' && c->function_next) { /* a shell of its own: it sets nothing here */
        c->p++;
        c->function_next = NULL;
        not_followed(c, FRAME_FUNCTION, "a function in ( )");
    } else if (sign == '(') c->p++, push(c, FRAME_GROUP, true);
    else if (sign == ')') c->p++, pop(c, top(c, FRAME_FUNCTION) ? FRAME_FUNCTION : FRAME_GROUP, ")");
    else if (strchr("<>", sign)) redirect(c);
    else if (strchr("&|", sign)) take_sign(c);
    else if (sign == ';') c->p++;
    else return false;
    return true;
}

static int read_all(Reader *r, const char *begin, const char *end, int line, const Frame *around)
{
    Commands *c = calloc(1, sizeof *c);
    if (!c) {
        reader_fail(r, line, "no memory to read it");
        return -1;
    }
    *c = (Commands){
        .r = r, .p = begin, .end = end, .counted = begin, .counted_line = line, .line = line, .last = 1};
    if (around) c->frame[c->frames++] = *around;
    for (skip_blanks(c); c->p < c->end && r->status == OK && !r->returning; skip_blanks(c)) {
        Frame *f = top(c, FRAME_CASE);
        if (*c->p == '\n' || !f || !f->pattern) {
            if (read_sign(c)) continue;
            if (reserved(c, c->p, word_end(r, c->p, c->end, line_here(c)))) continue;
            read_simple(c);
        } else read_patterns(c, f);
    }
    int inside = around != NULL, last = c->last;
    if (r->status == OK && c->frames > inside && !r->returning)
        reader_fail(r, c->frame[c->frames - 1].line, "what begins here has no end");
    for (; c->frames > inside; c->frames--)
        if (c->frame[c->frames - 1].unknown) doubt_ends(r);
    free(c);
    return last;
}

int commands_read(Reader *r, const char *begin, const char *end, int line)
{
    return read_all(r, begin, end, line, NULL);
}

void commands_skip(Reader *r, const char *begin, const char *end, int line, bool in_a_loop)
{
    Frame around = {.kind = in_a_loop ? FRAME_LOOP : FRAME_IF, .unknown = !in_a_loop, .line = line};
    read_all(r, begin, end, line, &around);
}

void arguments_read(Reader *r)
{
    int         line   = 1;
    const char *p      = r->begin;
    r->script->program = "";
    while (p < r->end && r->status == OK) {
        line += *p == '\n';
        if (isspace((unsigned char)*p) || (*p == '\\' && p + 1 < r->end && isspace((unsigned char)p[1]))) p++;
        else if (*p == '#')
            while (p < r->end && *p != '\n') p++;
        else {
            const char *e = p;
            while (e < r->end && !isspace((unsigned char)*e) && r->status == OK) {
                const char *next = word_end(r, e, r->end, line);
                e                = next > e ? next : e + 1;
            }
            expand_fields(r, &r->script->arguments, p, e, line);
            for (; p < e; p++) line += *p == '\n';
        }
    }
}
