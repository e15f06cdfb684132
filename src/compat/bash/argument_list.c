/* A file that is a list of arguments, as a person copies them out of a script: words between blanks and the
 * ends of lines, with quotes and backslashes, and comments. No bash reads it, since brackets may stand in it
 * as Python takes them: --moe-layer-freq ([0]*3). */
#include <ctype.h>
#include <string.h>
#include "base/buffer.h"
#include "base/words.h"
#include "compat/bash/trace.h"

typedef struct {
    const char *p, *end, *path;
    int line;
    Buffer word;
    Texts *texts;
} Reader;

/* Behind the mark with which some editors begin a file of UTF-8. */
static const char *behind_mark(const char *p, const char *end)
{
    return has_beginning(p, end - p, "\xef\xbb\xbf") ? p + 3 : p;
}

bool launch_is_list(const char *p, const char *end)
{
    p = behind_mark(p, end);
    for (;;) {
        while (p < end && (isspace((unsigned char)*p) || *p == '\\')) p++;
        if (p == end || *p != '#') break;
        while (p < end && *p != '\n') p++;
    }
    return end - p > 2 && p[0] == '-' && p[1] == '-';
}

/* "$NAME": of a variable in a word, which a list cannot set. */
static const char *name_variable(Reader *r, const char *at)
{
    size_t n = 1;
    if (!at) return "";
    while (at + n < r->end && (is_name_letter(at[n]) || at[n] == '{')) n++;
    return texts_format(r->texts, "%.*s, which a list of arguments gives no value", (int)n, at);
}

/* Bash's rules for what quotes and backslashes mean. */
static Status read_word(LaunchWord *out, Reader *r)
{
    const char *variable = NULL, *begin = r->p;
    bool shell = false; /* `command`, > file, 2>&1, | tee log */
    char quote = 0;
    int line = r->line, opened = 0;
    r->word.bytes = 0;
    for (; r->p < r->end && (quote || !isspace((unsigned char)*r->p)); r->p++) {
        char next = r->p + 1 < r->end ? r->p[1] : 0;
        bool escapes = *r->p == '\\' && next && (!quote || (quote == '"' && strchr("\"\\$`\n", next)));
        if (escapes && !quote && strchr("\r\n", next)) break;
        if (*r->p == quote || (!quote && strchr("\"'", *r->p))) {
            quote = quote ? 0 : *r->p, opened = r->line;
            continue;
        }
        bool names = *r->p == '$' && next && (isalnum((unsigned char)next) || strchr("_{(@*#", next));
        if (names && quote != '\'' && !variable) variable = r->p;
        bool pipes = !quote && !escapes && strchr("|&;>", *r->p) &&
                     (r->p == begin || strchr("12&", *begin) || strchr("&;|", *r->p));
        shell |= pipes || (*r->p == '`' && quote != '\'' && !escapes);
        r->p += escapes;
        r->line += *r->p == '\n';
        if (!escapes || *r->p != '\n') buffer_add_or_stop(&r->word, r->p, 1);
    }
    if (quote) return fail(BAD_FILE, "%s:%d: a %c is not closed", r->path, opened, quote);
    const char *text = texts_keep(r->texts, r->word.bytes ? r->word.text : "", r->word.bytes);
    if (shell)
        return fail(BAD_FILE,
                    "%s:%d: %.100s needs a shell, which does not read a list of arguments; leave it out, or "
                    "begin with the program, torchrun pretrain_gpt.py, which makes it a script",
                    r->path, line, text);
    *out = (LaunchWord){ text, r->path, line, !variable, name_variable(r, variable), text, "" };
    return OK;
}

Status argument_list_read(LaunchCall *call, Texts *texts, const char *path, const char *text, const char *end)
{
    Reader r = { .p = behind_mark(text, end), .end = end, .path = path, .line = 1, .texts = texts };
    Status status = OK;
    *call = (LaunchCall){ .program = "", .folder = "", .file = path, .line = 1 };
    call->word = texts_room(texts, (size_t)(end - text) * sizeof *call->word);
    while (r.p < r.end && status == OK) {
        bool between = *r.p == '\\' && (r.p + 1 == r.end || isspace((unsigned char)r.p[1]));
        if (isspace((unsigned char)*r.p) || between) r.line += *r.p++ == '\n';
        else if (*r.p == '#')
            while (r.p < r.end && *r.p != '\n') r.p++;
        else status = read_word(&call->word[call->words++], &r);
    }
    buffer_free(&r.word);
    return status;
}
