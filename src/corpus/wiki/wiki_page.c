#include "corpus/wiki/wiki_page.h"

#include <string.h>
#include "corpus/wiki/wiki_entity.h"
#include "corpus/wiki/wiki_words.h"
#include "text/unicode.h"

enum { DEPTH_MOST = 16, NS_MOST = 1 << 20 };

/* A walk over the elements of one page. `open` holds the names of those that are open; the page itself is the first. */
typedef struct {
    char       *text;
    int64_t     bytes, at;
    const char *why;
    JsonText    open[DEPTH_MOST];
    int64_t     from;                   /* where the text of the innermost open element begins */
    int         depth;
} Xml;

static bool broken(Xml *x, int64_t at, const char *why)
{
    x->at  = at;
    x->why = why;
    return false;
}

static bool is(JsonText name, const char *word)
{
    return name.bytes == (int64_t)strlen(word) && !memcmp(name.text, word, (size_t)name.bytes);
}

/* ---- entities ---- */

/* Of "amp" in "&amp;" */
static uint32_t entity_read(const char *name, int64_t bytes)
{
    static const struct { const char *name; char c; } rows[] =
        { { "lt", '<' }, { "gt", '>' }, { "amp", '&' }, { "quot", '"' }, { "apos", '\'' } };
    if (bytes > 1 && *name == '#') return entity_number(name + 1, bytes - 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is((JsonText){ name, bytes }, rows[i].name)) return (uint32_t)rows[i].c;
    return 0;
}

/* In place: no entity is shorter than its character */
static bool decode(Xml *x, JsonText *field)
{
    enum { NAME_MOST = 12 };
    char *start = x->text + (field->text - x->text), *in = start, *out = start, *end = start + field->bytes;
    while (in < end) {
        char   *amp = memchr(in, '&', (size_t)(end - in));
        size_t  plain = (size_t)((amp ? amp : end) - in);
        if (out != in) memmove(out, in, plain);
        in  += plain;
        out += plain;
        if (!amp) break;
        char *stop = memchr(in, ';', (size_t)(end - in < NAME_MOST ? end - in : NAME_MOST));
        uint32_t point = stop ? entity_read(in + 1, stop - in - 1) : 0;
        if (!point) return broken(x, in - x->text, "an & that is no entity of XML");
        out += rune_write((uint8_t *)out, point);
        in   = stop + 1;
    }
    field->bytes = out - start;
    return true;
}

/* ---- elements ---- */

static bool ns_read(Xml *x, JsonText digits, int *ns)
{
    bool minus = digits.bytes && *digits.text == '-';
    int value = 0;
    for (int64_t i = minus; i < digits.bytes && value < NS_MOST; i++) {
        if (digits.text[i] < '0' || digits.text[i] > '9') value = NS_MOST;
        else value = value * 10 + digits.text[i] - '0';
    }
    if (digits.bytes == minus || value >= NS_MOST) return broken(x, digits.text - x->text, "<ns> is no number");
    *ns = minus ? -value : value;
    return true;
}

/* The innermost element has ended with its text: is it one of ours? */
static bool element_take(Xml *x, WikiPage *p, JsonText text)
{
    JsonText name = x->open[x->depth - 1];
    bool in_page = x->depth == 2, in_revision = x->depth == 3 && is(x->open[1], "revision");
    if (in_page && is(name, "title"))     p->title = text;
    if (in_page && is(name, "id"))        p->id = text;
    if (in_page && is(name, "redirect"))  p->redirect = true;
    if (in_revision && is(name, "text"))  p->text = text;
    if (in_revision && is(name, "model")) p->wikitext = is(text, "wikitext");
    return in_page && is(name, "ns") ? ns_read(x, text, &p->ns) : true;
}

static bool element_open(Xml *x, WikiPage *p, JsonText name, int64_t behind, bool alone)
{
    if (is(name, "page") && x->depth) return broken(x, x->at, "a <page> within a page: the end of the one before is missing");
    if (x->depth == DEPTH_MOST) return broken(x, x->at, "elements within elements, deeper than a dump has them");
    x->open[x->depth++] = name;
    x->from = behind;
    if (!alone) return true;
    bool good = element_take(x, p, (JsonText){ x->text + behind, 0 });
    x->depth--;
    return good;
}

static bool element_close(Xml *x, WikiPage *p, JsonText name)
{
    JsonText open = x->open[x->depth - 1];
    if (name.bytes != open.bytes || memcmp(name.text, open.text, (size_t)open.bytes))
        return broken(x, x->at, "an end that is not that of the innermost element");
    bool good = element_take(x, p, (JsonText){ x->text + x->from, x->at - x->from });
    x->depth--;
    return good;
}

static bool name_ends(char c) { return memchr(" \t\r\n/>", c, 6) != NULL; }

/* At '<'. */
static bool tag_take(Xml *x, WikiPage *p)
{
    const char *tag = x->text + x->at, *end = memchr(tag, '>', (size_t)(x->bytes - x->at));
    if (!end) return broken(x, x->at, "a tag without its end");
    bool close = tag[1] == '/', alone = end[-1] == '/';
    JsonText name = { tag + 1 + close, 0 };
    while (!name_ends(name.text[name.bytes])) name.bytes++;
    if (!name.bytes || memchr("!?<&", *name.text, 4)) return broken(x, x->at, "a < that begins no element");
    int64_t behind = end + 1 - x->text;
    bool good = close ? element_close(x, p, name) : element_open(x, p, name, behind, alone);
    if (good) x->at = behind;
    return good;
}

static bool page_read(Xml *x, WikiPage *p)
{
    do {
        const char *tag = memchr(x->text + x->at, '<', (size_t)(x->bytes - x->at));
        if (!tag) return broken(x, x->bytes, "the page does not end");
        x->at = tag - x->text;
        if (!tag_take(x, p)) return false;
    } while (x->depth);
    if (!p->title.text) return broken(x, p->at, "a page without <title>");
    return decode(x, &p->title) && decode(x, &p->text);
}

/* ---- pages ---- */

/* Of the next "<page>", or behind the next "</page>" where `ends` count as well; -1: there is none */
static int64_t page_find(const char *block, int64_t bytes, int64_t at, bool ends)
{
    for (const char *found; at < bytes && (found = memmem(block + at, (size_t)(bytes - at), "page>", 5)); ) {
        int64_t here = found - block;
        at = here + 5;
        if (here >= 1 && found[-1] == '<') return here - 1;
        if (ends && here >= 2 && found[-1] == '/' && found[-2] == '<') return at;
    }
    return -1;
}

bool wiki_page_next(char *block, int64_t bytes, int64_t *at, WikiPage *page, const char **why)
{
    static const char nothing[] = "";
    int64_t start = page_find(block, bytes, *at, false);
    *why = NULL;
    if (start < 0) return false;
    Xml x = { .text = block, .bytes = bytes, .at = start };
    *page = (WikiPage){ .at = start, .wikitext = true, .id = { nothing, 0 }, .text = { block, 0 } };
    if (page_read(&x, page)) {
        *at = x.at;
        page->redirect = page->redirect || wiki_word_redirect(page->text.text, page->text.bytes);
        return true;
    }
    int64_t next = page_find(block, bytes, x.at > start + 6 ? x.at : start + 6, true);
    *at = next < 0 ? bytes : next;
    *why = x.why;
    page->at = x.at;
    return true;
}
