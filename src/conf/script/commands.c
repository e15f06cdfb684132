/* The commands of a script. A stack of frames says whether the commands that are read count: those of an if
 * that holds do, those of a loop or a function do not. */
#include "conf/script/commands.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 64, HERES = 8 };
typedef enum { FRAME_IF, FRAME_CASE, FRAME_LOOP, FRAME_FUNCTION, FRAME_GROUP } FrameKind;

/* counts: of the commands around it; running: of those that are read now; taken: a branch was. pattern: of a
 * case, a pattern is next. */
typedef struct {
    FrameKind   kind;
    bool        counts, running, taken, pattern;
    const char *subject;
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
    bool        negated, function_next;
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

/* Whether it is a loop that keeps commands from running. */
static bool in_loop(const Commands *c)
{
    for (int i = 0; i < c->frames; i++)
        if (!c->frame[i].running) return c->frame[i].kind == FRAME_LOOP;
    return false;
}

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
    if (top(c, kind)) c->frames--;
    else reader_fail(c->r, line_here(c), "%s has no beginning", word);
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

/* ---- what a command means ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The command that starts a program: what stands before and after it. Of several, one that trains is taken.
 */
static void take_program(Commands *c, const ScriptWords *f, int at)
{
    Script     *s       = c->r->script;
    const char *program = reader_hold(c->r, base_name(f->word[at].text), strlen(base_name(f->word[at].text)));
    if (s->program && strstr(s->program, "train") && !strstr(program, "train")) return;
    if (s->program && *s->program)
        reader_note(c->r, f->word[at].line, "%s is taken instead of the command before it", program);
    s->program        = program;
    s->launcher.count = s->arguments.count = 0;
    for (int i = 0; i < at; i++) words_add(c->r, &s->launcher, f->word[i].text, f->word[i].line);
    for (int i = at + 1; i < f->count; i++) words_add(c->r, &s->arguments, f->word[i].text, f->word[i].line);
}

static int nested(Commands *c, const char *text, int line)
{
    if (++c->r->depth > SCRIPT_DEPTH)
        reader_fail(c->r, line, "eval is nested more than %d deep", SCRIPT_DEPTH);
    else commands_read(c->r, text, text + strlen(text), line);
    c->r->depth--;
    return -1;
}

static int evaluated(Commands *c, const ScriptWords *f)
{
    size_t bytes = 1;
    for (int i = 1; i < f->count; i++) bytes += strlen(f->word[i].text) + 1;
    char  *joined = calloc(bytes + 1, 1);
    size_t used   = 0;
    if (!joined || bytes > SCRIPT_TEXT) {
        free(joined);
        reader_fail(c->r, f->word[0].line, "the text of eval is too long");
        return -1;
    }
    for (int i = 1; i < f->count; i++)
        used += (size_t)snprintf(joined + used, bytes + 1 - used, "%s%s", i > 1 ? " " : "", f->word[i].text);
    const char *text = reader_hold(c->r, joined, strlen(joined));
    free(joined);
    return nested(c, text, f->word[0].line);
}

static bool is_any(const char *word, const char *words)
{
    size_t letters = strlen(word);
    for (const char *a = words; letters && *a; a += strcspn(a, " "), a += *a == ' ')
        if (strcspn(a, " ") == letters && !strncmp(a, word, letters)) return true;
    return false;
}

/* The script of `bash -c SCRIPT`, wherever it stands: srun ... bash -c "..."; NULL: there is none. */
static const char *inner_script(const ScriptWords *f)
{
    for (int i = 0; i + 2 < f->count; i++)
        if (is_any(base_name(f->word[i].text), "bash sh"))
            for (int k = i + 1; k + 1 < f->count && f->word[k].text[0] == '-'; k++)
                if (f->word[k].text[1] != '-' && strchr(f->word[k].text, 'c')) return f->word[k + 1].text;
    return NULL;
}

static void set_given(Commands *c, const ScriptWords *f, int from)
{
    ScriptWords given = {0};
    for (int i = from; i < f->count; i++) words_add(c->r, &given, f->word[i].text, f->word[i].line);
    free(c->r->given.word);
    c->r->given = given;
}

static int execute(Commands *c, ScriptWords *f)
{
    const char *name = f->word[0].text, *inner;
    int         line = f->word[0].line;
    if (is_any(name, "[ [[ test")) {
        bool        brackets = *name == '[';
        ScriptWords words    = {f->word + 1, f->count - 1 - (brackets && f->count > 1), 0};
        return condition(c->r, &words, !strcmp(name, "[["));
    }
    if (is_any(name, "true :")) return 1;
    if (!strcmp(name, "false")) return 0;
    if (!strcmp(name, "eval")) return evaluated(c, f);
    if (!strcmp(name, "set") && f->count > 1 && !strcmp(f->word[1].text, "--")) set_given(c, f, 2);
    if (is_any(name, "source .") && f->count > 1) {
        char file[256];
        reader_note(c->r, line, "%s is not read", script_plain(file, sizeof file, f->word[1].text));
    }
    if (is_any(name,
               "echo printf cat cp mv rm ls sed grep set source . export mkdir cd module conda pip exit"))
        return -1;
    if ((inner = inner_script(f))) return nested(c, inner, line);
    for (int i = 0; i < f->count; i++)
        if (ends_with(f->word[i].text, ".py")) {
            take_program(c, f, i);
            return -1;
        }
    return -1;
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
        words_add(c->r, f, running(c) ? known_text(c->r, expand_text(c->r, p, e, line)) : "", line);
        if (is_word(p, e, "]]")) return;
    }
}

static bool starts_program(const ScriptWords *f)
{
    for (int i = 0; i < f->count; i++)
        if (ends_with(f->word[i].text, ".py")) return true;
    return false;
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
        while (e < c->end && strchr("( )", *e)) e++;
        c->p = e, c->function_next = true;
        return false;
    }
    c->p = e;
    if (e < c->end && strchr("<>", *e) && strspn(p, "0123456789") == (size_t)(e - p)) return true; /* 2> */
    if (name && *assigns) {
        if (running(c)) assign(c->r, p, e, line);
        else if (in_loop(c)) assign_in_loop(c->r, p, e, line);
        return true;
    }
    if (!f->count) c->r->testing = is_word(p, e, "[") || is_word(p, e, "test");
    if (running(c)) expand_fields(c->r, f, p, e, line);
    else words_add(c->r, f, "", line);
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
        c->last = f.count ? execute(c, &f) : 1;
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
    if (asked && c->last < 0)
        reader_note(c->r, line_here(c), "whether this condition holds is not known; it is taken as false");
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
        c->p = word_end(c->r, c->p, c->end, line_here(c));
        while (c->p < c->end && strchr("( )", *c->p)) c->p++;
        c->function_next = true;
    } else if (!strcmp(word, "{")) {
        if (c->function_next) not_followed(c, FRAME_FUNCTION, "a function");
        else push(c, FRAME_GROUP, true);
        c->function_next = false;
    } else if (!strcmp(word, "}")) pop(c, top(c, FRAME_FUNCTION) ? FRAME_FUNCTION : FRAME_GROUP, word);
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
    else if (sign == '(') c->p++, push(c, FRAME_GROUP, true);
    else if (sign == ')') c->p++, pop(c, FRAME_GROUP, ")");
    else if (strchr("<>", sign)) redirect(c);
    else if (strchr("&|", sign)) take_sign(c);
    else if (sign == ';') c->p++;
    else return false;
    return true;
}

void commands_read(Reader *r, const char *begin, const char *end, int line)
{
    Commands *c = calloc(1, sizeof *c);
    if (!c) {
        reader_fail(r, line, "no memory to read it");
        return;
    }
    *c = (Commands){
        .r = r, .p = begin, .end = end, .counted = begin, .counted_line = line, .line = line, .last = 1};
    for (skip_blanks(c); c->p < c->end && r->status == OK; skip_blanks(c)) {
        Frame *f = top(c, FRAME_CASE);
        if (*c->p == '\n' || !f || !f->pattern) {
            if (read_sign(c)) continue;
            if (reserved(c, c->p, word_end(r, c->p, c->end, line_here(c)))) continue;
            read_simple(c);
        } else read_patterns(c, f);
    }
    if (r->status == OK && c->frames)
        reader_fail(r, c->frame[c->frames - 1].line, "what begins here has no end");
    free(c);
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
