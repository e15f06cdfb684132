/* HTML to text in one pass: tags set how the next text is separated from that before it. */
#include "corpus/prose/html_to_text.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/utf8.h"
#include "base/words.h"
#include "corpus/wiki/wikitext.h"

/* What separates two stretches of text, weakest first. */
typedef enum { NOTHING, BLANK, CELL, LINE, PARAGRAPH } Separator;

enum { SKIPPED = 7, NAME_LETTERS = 16 };
/* Removed with their content, up to the first closing tag of the name */
static const char *const skipped[SKIPPED] = { "script", "style", "template", "noscript", "svg", "title",
                                              "nav" };

static const struct { const char *names; Separator separator; } elements[] = {
    { "p div h1 h2 h3 h4 h5 h6 blockquote ul ol dl table pre section article header footer aside main figure "
      "figcaption form fieldset address hr center body details", PARAGRAPH },
    { "br li dt dd tr caption option legend summary", LINE },
    { "td th", CELL },
};

typedef struct {
    Buffer     *out;
    const char *html;
    int64_t     bytes, at, begin;       /* begin: bytes of `out` before the text */
    Separator   separator;              /* before the next text */
    bool        item;                   /* the next text begins an item of a list */
    int         pre;                    /* open elements of that name */
    bool        endless[SKIPPED];       /* no closing tag of this name is left */
    bool        unquoted, untagged;     /* a quote, or a tag, was found that nothing closes */
} Html;

/* ---- text ---- */

static bool is_white(char c) { return memchr(" \t\r\n\f", c, 5) != NULL; }

static Status separator_put(Html *h)
{
    static const char *const text[] = { "", " ", " | ", "\n", "\n\n" };
    Buffer *out = h->out;
    Separator s = h->separator;
    bool empty = out->bytes == h->begin, item = h->item;
    h->separator = NOTHING;
    h->item      = false;
    while (s >= LINE && out->bytes > h->begin && is_white(out->text[out->bytes - 1])) out->bytes--;
    if (!empty && s) TRY(buffer_add_text(out, text[s]));
    return item ? buffer_add(out, "- ", 2) : OK;
}

static void separate(Html *h, Separator s)
{
    if (s > h->separator) h->separator = s;
}

static Status text_put(Html *h, const char *text, int64_t bytes)
{
    if (h->separator || h->item) TRY(separator_put(h));
    return buffer_add(h->out, text, bytes);
}

/* A character reference. &amp; is one character, whatever follows. */
static Status reference_put(Html *h)
{
    uint8_t  utf8[4];
    int64_t  length = 0;
    const char *text = h->html + h->at;
    bool     amp   = has_beginning(text, h->bytes - h->at, "&amp;");
    uint32_t point = amp ? '&' : entity_at(text, h->bytes - h->at, &length);
    if (amp) length = 5;
    else if (!length) point = '&', length = 1;
    h->at += length;
    if (point == 0xA0 && !h->pre) {
        separate(h, BLANK);
        return OK;
    }
    return text_put(h, (const char *)utf8, utf8_encode(utf8, point));
}

/* Up to the next tag or reference. */
static Status stretch_put(Html *h)
{
    int64_t from = h->at;
    const char *html = h->html;
    while (h->at < h->bytes && html[h->at] != '<' && html[h->at] != '&') {
        if (h->pre || !is_white(html[h->at])) {
            h->at++;
            continue;
        }
        if (h->at > from) TRY(text_put(h, html + from, h->at - from));
        separate(h, BLANK);
        from = ++h->at;
    }
    return h->at > from ? text_put(h, html + from, h->at - from) : OK;
}

/* ---- tags ---- */

/* The byte after the > of the tag at `at`, which may be in quotes; 0: there is none. A quote that is never
 * closed is no quote, and neither are those after it, so that time is linear. */
static int64_t tag_end(Html *h)
{
    char quote = 0;
    const char *html = h->html;
    for (int64_t i = h->at + 1; !h->unquoted && i < h->bytes; i++) {
        if (quote) quote = html[i] == quote ? 0 : quote;
        else if (html[i] == '>') return i + 1;
        else if ((html[i] == '"' || html[i] == '\'') && html[i - 1] == '=') quote = html[i];
    }
    h->unquoted = true;
    const char *end = h->untagged ? NULL : memchr(html + h->at, '>', (size_t)(h->bytes - h->at));
    h->untagged = !end;
    return end ? end - html + 1 : 0;
}

/* The lower-case name of the tag at `at`; "" where it is a comment or declaration. */
static void tag_name(char name[NAME_LETTERS], const Html *h, bool closing)
{
    int64_t at = h->at + 1 + closing;
    int letters = 0;
    for (char c; at < h->bytes && letters < NAME_LETTERS - 1; at++) {
        c = h->html[at];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (!letter && (c < '0' || c > '9' || !letters)) break;
        name[letters++] = letter ? (char)(c | 32) : c;
    }
    name[letters] = 0;
}

/* The position of the next "</name"; -1: there is none. */
static int64_t closing_find(const Html *h, const char *name)
{
    int64_t length = (int64_t)strlen(name);
    for (const char *p = h->html + h->at, *stop = h->html + h->bytes; stop - p > length + 2; p++) {
        p = memmem(p, (size_t)(stop - p), "</", 2);
        if (!p || stop - p < length + 2) return -1;
        if (!strncasecmp(p + 2, name, (size_t)length)) return p - h->html;
    }
    return -1;
}

/* Moves past an element that is removed with its content: true if the tag at `at` begins one. */
static bool skip_content(Html *h, const char *name)
{
    for (int i = 0; i < SKIPPED; i++) {
        if (strcmp(name, skipped[i]) != 0 || h->endless[i]) continue;
        int64_t end = closing_find(h, name);
        h->endless[i] = end < 0;
        if (end < 0) continue;
        h->at = end;
        int64_t behind = tag_end(h);
        h->at = behind ? behind : h->bytes;
        return true;
    }
    return false;
}

/* Only the beginning of a cell separates, so that nothing follows the last one of a row. */
static void tag_apply(Html *h, const char *name, bool closing)
{
    for (int i = 0; i < COUNT(elements); i++) {
        bool cell = elements[i].separator == CELL;
        if (words_have(elements[i].names, name, strlen(name)) && !(cell && closing))
            separate(h, elements[i].separator);
    }
    if (!strcmp(name, "li") && !closing) h->item = true;
    if (!strcmp(name, "pre")) h->pre += closing ? -(h->pre > 0) : 1;
}

/* The first line end in <pre> is not part of its text. */
static void pre_begin(Html *h)
{
    if (h->at < h->bytes && h->html[h->at] == '\r') h->at++;
    if (h->at < h->bytes && h->html[h->at] == '\n') h->at++;
}

/* A comment, declaration or tag. *text: the < is a character of the text. */
static void tag_take(Html *h, bool *text)
{
    char name[NAME_LETTERS];
    const char *html = h->html + h->at;
    int64_t left = h->bytes - h->at;
    bool closing = left > 1 && html[1] == '/';
    *text = false;
    if (has_beginning(html, left, "<!--")) {
        const char *end = memmem(html + 4, (size_t)left - 4, "-->", 3);
        h->at = end ? end + 3 - h->html : h->bytes;
        return;
    }
    tag_name(name, h, closing);
    bool other = left > 1 && (html[1] == '!' || html[1] == '?');
    int64_t end = *name || other ? tag_end(h) : 0;
    *text = !end;
    if (!end || (!closing && skip_content(h, name))) return;
    tag_apply(h, name, closing);
    h->at = end;
    if (!closing && !strcmp(name, "pre")) pre_begin(h);
}

Status html_to_text(Buffer *out, const char *html, int64_t bytes)
{
    Html h = { .out = out, .html = html, .bytes = bytes, .begin = out->bytes };
    Status status = OK;
    while (status == OK && h.at < bytes) {
        bool text = false;
        if (html[h.at] == '<') tag_take(&h, &text);
        else if (html[h.at] == '&') status = reference_put(&h);
        else status = stretch_put(&h);
        if (text) status = text_put(&h, html + h.at++, 1);
    }
    while (out->bytes > h.begin && is_white(out->text[out->bytes - 1])) out->bytes--;
    if (status != OK) out->bytes = h.begin;
    return status;
}
