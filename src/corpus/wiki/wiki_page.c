/* A small XML reader for the dumps that MediaWiki writes. It keeps the names of the open elements, of
 * which there are few, and takes the text of those that matter when they end; the innermost text needs no
 * copy, since elements with text have no children. */
#include "corpus/wiki/wiki_page.h"

#include <stdlib.h>
#include <string.h>
#include "corpus/wiki/wikitext.h"
#include "text/unicode.h"

enum { DEPTH_MOST = 16, NS_MOST = 1 << 20 };

/* Position in the elements of one page. `open` holds the names of the open elements, the page itself
 * first. */
typedef struct {
    char       *text;
    int64_t     bytes, at;
    const char *why;
    JsonText    open[DEPTH_MOST];
    int64_t     from;   /* byte where the text of the innermost open element begins */
    int         depth;
} Xml;

static bool broken(Xml *x, int64_t at, const char *why)
{
    x->at  = at;
    x->why = why;
    return false;
}

static bool name_is(JsonText name, const char *word)
{
    return name.bytes == (int64_t)strlen(word) && !memcmp(name.text, word, (size_t)name.bytes);
}

/* ---- entities ---- */

/* The code point of "amp" of "&amp;": XML has only these five names. 0: unknown. */
static uint32_t entity_read(const char *name, int64_t bytes)
{
    if (bytes > 1 && *name == '#') return entity_number(name + 1, bytes - 1);
    int index = words_find("lt gt amp quot apos", name, (size_t)bytes);
    return index < 0 ? 0 : (uint32_t)"<>&\"'"[index];
}

/* Decodes in place, since no reference is shorter than the UTF-8 of its character. */
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
        out += utf8_encode((uint8_t *)out, point);
        in   = stop + 1;
    }
    field->bytes = out - start;
    return true;
}

/* ---- elements ---- */

/* Namespaces of dumps are small, also negative. A '<' follows, where strtol stops. */
static bool ns_read(Xml *x, JsonText digits, int *ns)
{
    char *end    = NULL;
    bool  begins = digits.bytes && strchr("-0123456789", *digits.text);
    long  value  = begins ? strtol(digits.text, &end, 10) : 0;
    if (end != digits.text + digits.bytes || value <= -NS_MOST || value >= NS_MOST)
        return broken(x, digits.text - x->text, "<ns> is no number");
    *ns = (int)value;
    return true;
}

/* Takes the text of the innermost element, which has ended, if it is one of those that are wanted. */
static bool element_read(Xml *x, WikiPage *p, JsonText text)
{
    JsonText name = x->open[x->depth - 1];
    bool in_page = x->depth == 2, in_revision = x->depth == 3 && name_is(x->open[1], "revision");
    if (in_page && name_is(name, "title"))     p->title = text;
    if (in_page && name_is(name, "id"))        p->id = text;
    if (in_page && name_is(name, "redirect"))  p->redirect = true;
    if (in_revision && name_is(name, "text"))  p->text = text;
    if (in_revision && name_is(name, "model")) p->wikitext = name_is(text, "wikitext");
    return in_page && name_is(name, "ns") ? ns_read(x, text, &p->ns) : true;
}

static bool element_open(Xml *x, WikiPage *p, JsonText name, int64_t after, bool alone)
{
    if (name_is(name, "page") && x->depth)
        return broken(x, x->at, "a <page> within a page: the end of the one before is missing");
    if (x->depth == DEPTH_MOST)
        return broken(x, x->at, "elements within elements, deeper than a dump has them");
    x->open[x->depth++] = name;
    x->from = after;
    if (!alone) return true;
    bool good = element_read(x, p, (JsonText){ x->text + after, 0 });
    x->depth--;
    return good;
}

static bool element_close(Xml *x, WikiPage *p, JsonText name)
{
    JsonText open = x->open[x->depth - 1];
    if (name.bytes != open.bytes || memcmp(name.text, open.text, (size_t)open.bytes))
        return broken(x, x->at, "an end that is not that of the innermost element");
    bool good = element_read(x, p, (JsonText){ x->text + x->from, x->at - x->from });
    x->depth--;
    return good;
}

static bool name_ends(char c) { return memchr(" \t\r\n/>", c, 6) != NULL; }

/* At '<'. name_ends stops at the end of the tag at the latest, since '>' ends a name. */
static bool tag_read(Xml *x, WikiPage *p)
{
    const char *tag = x->text + x->at, *end = memchr(tag, '>', (size_t)(x->bytes - x->at));
    if (!end) return broken(x, x->at, "a tag without its end");
    bool close = tag[1] == '/', alone = end[-1] == '/';
    JsonText name = { tag + 1 + close, 0 };
    while (!name_ends(name.text[name.bytes])) name.bytes++;
    if (!name.bytes || memchr("!?<&", *name.text, 4)) return broken(x, x->at, "a < that begins no element");
    int64_t after = end + 1 - x->text;
    bool good = close ? element_close(x, p, name) : element_open(x, p, name, after, alone);
    if (good) x->at = after;
    return good;
}

/* Entities are decoded only after the whole page was read, so that a broken page is unchanged up to the
 * fault. */
static bool page_read(Xml *x, WikiPage *p)
{
    do {
        const char *tag = memchr(x->text + x->at, '<', (size_t)(x->bytes - x->at));
        if (!tag) return broken(x, x->bytes, "the page does not end");
        x->at = tag - x->text;
        if (!tag_read(x, p)) return false;
    } while (x->depth);
    if (!p->title.text) return broken(x, p->at, "a page without <title>");
    return decode(x, &p->title) && decode(x, &p->text);
}

/* ---- pages ---- */

/* Byte of the next "<page>", or with `ends` the byte after the next "</page>" if that is first; -1: there
 * is none. It searches "page>", which both have. */
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

/* After a fault reading continues after the broken page: at the next <page> or </page>, whichever comes
 * first. */
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
