/* Reads a text line by line and finds which lines must stay as they are: what is code, a table, a heading or
 * an item of a list, in the words of each markup. */
#include "corpus/prose/prose_line.h"

#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/words.h"
#include "text/unicode.h"

/* ---- the characters of a line ---- */

/* Columns of the character whose first byte this is, 0 of a continuation: from U+3000 to U+CFFF, which are
 * CJK's and Hangul, characters are as wide as two. */
static int columns_of(unsigned char byte)
{
    return (byte & 0xC0) == 0x80 ? 0 : byte >= 0xE3 && byte <= 0xEC ? 2 : 1;
}

/* Finds the end of the line at *at, which \n, \r\n or \r ends, and counts columns on the way. */
static void line_cut(ProseReader *r, ProseLine *l)
{
    const char *from = r->text + r->at, *stop = r->text + r->bytes, *p = from;
    int64_t columns = 0;
    for (; p < stop && *p != '\n' && *p != '\r'; p++) columns += columns_of((unsigned char)*p);
    const char *end = p;
    if (p < stop) p += p + 1 < stop && p[0] == '\r' && p[1] == '\n' ? 2 : 1;
    r->at = p - r->text;
    while (end > from && memchr(" \t\f\v", end[-1], 4)) end--, columns--;
    *l = (ProseLine){ .text = from, .bytes = end - from, .columns = columns };
}

static void indent_find(ProseLine *l)
{
    for (; l->body < l->bytes && memchr(" \t\f\v", l->text[l->body], 4); l->body++)
        l->indent += l->text[l->body] == '\t' ? 4 : 1;
    l->columns += l->indent - l->body;
}

static bool is_cjk(uint32_t point) { return point >= 0x2E80 && (point < 0xAC00 || point > 0xD7A3); }

/* The first word, and the first letter, before which quotes and other marks may stand. */
static void beginning_find(ProseLine *l)
{
    const uint8_t *p = (const uint8_t *)l->text + l->body, *stop = (const uint8_t *)l->text + l->bytes;
    bool any = false;                           /* a letter or digit was met */
    for (Rune rune; p < stop; p += rune.bytes) {
        rune = rune_at(p, stop - p);
        if (rune.kind & SPACE) break;
        l->word += columns_of(*p);
        if (is_cjk(rune.point)) {
            l->begins = any ? l->begins : BEGINS_UNCASED;
            break;
        }
        if (any || !(rune.kind & (LETTER | NUMBER))) continue;
        any = true;
        int both = rune.kind & (UPPER | LOWER);
        if (rune.kind & LETTER)
            l->begins = both == UPPER ? BEGINS_CAPITAL : both == LOWER ? BEGINS_SMALL : BEGINS_UNCASED;
    }
}

/* The character that ends at `at`, which is moved to its beginning. */
static uint32_t point_before(const char *text, int64_t *at)
{
    int64_t end = *at;
    do --*at;
    while (*at > 0 && end - *at < 4 && ((unsigned char)text[*at] & 0xC0) == 0x80);
    return rune_at((const uint8_t *)text + *at, end - *at).point;
}

/* Closing quotes and brackets may follow the mark that ends a sentence. */
static bool ends_sentence(const char *text, int64_t bytes)
{
    static const uint32_t closing[] = { '"', '\'', ')', ']', '*', '_', 0xBB, 0x2019, 0x201D, 0x300D, 0xFF09 },
                          ending[]  = { '.', '!', '?', ':', ';', '{', '}', 0x2026, 0x3002, 0xFF01, 0xFF1F };
    uint32_t point = 0;
    for (bool more = true; more && bytes > 0; ) {
        point = point_before(text, &bytes);
        more  = false;
        for (size_t i = 0; i < COUNT(closing); i++) more |= point == closing[i];
    }
    for (size_t i = 0; i < COUNT(ending); i++)
        if (point == ending[i]) return true;
    return false;
}

/* ---- what any markup keeps ---- */

/* A tab or three blanks between words align columns. */
static bool has_columns(const char *text, int64_t bytes)
{
    return memchr(text, '\t', (size_t)bytes) || memmem(text, (size_t)bytes, "   ", 3);
}

static bool has_word(const char *text, int64_t bytes)
{
    const uint8_t *p = (const uint8_t *)text, *stop = p + bytes;
    for (Rune rune; p < stop; p += rune.bytes) {
        rune = rune_at(p, stop - p);
        if (rune.kind & (LETTER | NUMBER)) return true;
    }
    return false;
}

static bool is_space(const char *text, int64_t bytes, int64_t at)
{
    return at >= bytes || text[at] == ' ' || text[at] == '\t';
}

/* "- ", "* ", "+ ", a bullet, "12. ", "3) ", "a) ", "(a) " */
static bool is_item(const char *text, int64_t bytes)
{
    int64_t at = 0;
    if (has_beginning(text, bytes, "\xE2\x80\xA2")) return is_space(text, bytes, 3);
    if (strchr("-*+", *text)) return is_space(text, bytes, 1);
    if (*text == '(') at++;
    int64_t first = at;
    while (at < bytes && at - first < 3 && text[at] >= '0' && text[at] <= '9') at++;
    bool number = at > first;
    if (!number && at < bytes && (text[at] | 32) >= 'a' && (text[at] | 32) <= 'z') at++;
    if (at == first || at >= bytes) return false;
    bool closed = text[at] == ')' || (text[at] == '.' && number && first == 0);
    return closed && is_space(text, bytes, at + 1);
}

/* ---- regions, whose lines are kept up to their end ---- */

static void region_begin(ProseReader *r, const char *end, int64_t bytes)
{
    r->end       = end;
    r->end_bytes = bytes;
}

/* The lines of a region, with that which ends it. */
static bool region_has(ProseReader *r, const char *text, int64_t bytes)
{
    if (!r->end) return false;
    if (bytes >= r->end_bytes && !strncasecmp(text, r->end, (size_t)r->end_bytes)) r->end = NULL;
    return true;
}

static bool is_markdown_fixed(ProseReader *r, const ProseLine *l, const char *text, int64_t bytes)
{
    bool fence = has_beginning(text, bytes, "```") || has_beginning(text, bytes, "~~~");
    if (!r->begun && bytes == 3 && !memcmp(text, "---", 3)) region_begin(r, "---", 3);
    else if (fence) region_begin(r, text, 3);
    if (r->end) return true;
    bool code = r->before == LINE_BLANK || (r->before == LINE_FIXED && r->indent >= 4);
    if (l->indent >= 4 && !r->in_list && code) return true;
    return *text == '#' || *text == '<' || (*text == '[' && memmem(text, (size_t)bytes, "]:", 2));
}

/* A block below "::" or below a directive reaches as far as it is indented. */
static bool is_rest_fixed(ProseReader *r, const ProseLine *l, const char *text, int64_t bytes)
{
    if (r->below && l->indent > r->edge) return true;
    bool directive = has_beginning(text, bytes, ".. ") || (bytes == 2 && !memcmp(text, "..", 2));
    r->below = directive || has_ending(text, bytes, "::");
    r->edge  = l->indent;
    return directive;
}

static bool is_org_fixed(ProseReader *r, const ProseLine *l, const char *text, int64_t bytes)
{
    if (bytes >= 8 && !strncasecmp(text, "#+begin_", 8)) region_begin(r, "#+end_", 6);
    int64_t stars = 0;
    while (stars < bytes && text[stars] == '*') stars++;
    bool heading = stars && l->indent == 0 && is_space(text, bytes, stars);
    return r->end || heading || *text == '#' || *text == ':';
}

/* The bytes of "\begin{NAME}" where NAME is an environment whose lines are kept; 0 elsewhere. */
static int64_t tex_environment(const char *text, int64_t bytes)
{
    static const char kept[] = "verbatim verbatim* lstlisting minted Verbatim tabular tabular* array tabbing "
                               "longtable align align* equation equation* gather gather* multline multline* "
                               "eqnarray eqnarray* math displaymath verse tikzpicture thebibliography "
                               "filecontents algorithm algorithmic";
    const char *close = has_beginning(text, bytes, "\\begin{") ? memchr(text, '}', (size_t)bytes) : NULL;
    return close && words_have(kept, text + 7, (size_t)(close - text - 7)) ? close - text + 1 : 0;
}

static bool is_tex_fixed(ProseReader *r, const char *text, int64_t bytes)
{
    static const char alone[] = "begin end part chapter section subsection subsubsection paragraph "
                                "documentclass usepackage title author date maketitle label newcommand "
                                "renewcommand def input include bibliography bibliographystyle centering "
                                "caption hline includegraphics tableofcontents newpage clearpage";
    int64_t environment = tex_environment(text, bytes), letters = 1;
    /* "\end{NAME}" begins "\end{", whose NAME is that of \begin: a nested environment has another one. */
    bool formula = has_beginning(text, bytes, "\\[");
    if (environment && !memmem(text, (size_t)bytes, "\\end{", 5)) region_begin(r, text + 7, environment - 7);
    else if (formula && !memmem(text, (size_t)bytes, "\\]", 2)) region_begin(r, "\\]", 2);
    else if (bytes == 2 && !memcmp(text, "$$", 2)) region_begin(r, "$$", 2);
    if (r->end || formula || *text == '%') return true;
    while (*text == '\\' && letters < bytes && (text[letters] | 32) >= 'a' && (text[letters] | 32) <= 'z')
        letters++;
    return *text == '\\' && letters > 1 && words_have(alone, text + 1, (size_t)letters - 1);
}

static bool is_fixed(ProseReader *r, const ProseLine *l, const char *text, int64_t bytes)
{
    const char *name = r->markup == MARKUP_TEX && has_beginning(text, bytes, "\\end{") ? text + 5 : text;
    if (region_has(r, name, bytes - (name - text))) return true;
    switch (r->markup) {
    case MARKUP_MARKDOWN: if (is_markdown_fixed(r, l, text, bytes)) return true; break;
    case MARKUP_REST:     if (is_rest_fixed(r, l, text, bytes)) return true;     break;
    case MARKUP_ORG:      if (is_org_fixed(r, l, text, bytes)) return true;      break;
    case MARKUP_TEX:      if (is_tex_fixed(r, text, bytes)) return true;         break;
    default: break;
    }
    return *text == '|' || *text == '>' || has_columns(text, bytes) || !has_word(text, bytes);
}

/* ---- the next line ---- */

static ProseLineKind kind_of(ProseReader *r, const ProseLine *l)
{
    const char *text = l->text + l->body;
    int64_t bytes = l->bytes - l->body;
    if (!bytes) return LINE_BLANK;
    if (is_fixed(r, l, text, bytes)) return LINE_FIXED;
    bool tex_item = r->markup == MARKUP_TEX && has_beginning(text, bytes, "\\item");
    return tex_item || is_item(text, bytes) ? LINE_ITEM : LINE_PROSE;
}

static bool has_hard_break(const ProseReader *r, const ProseLine *l)
{
    const char *rest = l->text + l->bytes, *stop = r->text + r->at;
    bool blanks = stop - rest > 2 && rest[0] == ' ' && rest[1] == ' ';
    if (r->markup == MARKUP_MARKDOWN) return blanks || has_ending(l->text, l->bytes, "\\");
    return r->markup == MARKUP_TEX && has_ending(l->text, l->bytes, "\\\\");
}

bool prose_line_next(ProseReader *r, ProseLine *l)
{
    if (r->at >= r->bytes) return false;
    line_cut(r, l);
    indent_find(l);
    l->kind = kind_of(r, l);
    if (l->kind == LINE_PROSE || l->kind == LINE_ITEM) {
        beginning_find(l);
        l->ends = ends_sentence(l->text, l->bytes);
        l->hard = has_hard_break(r, l);
    }
    if (l->kind == LINE_ITEM) r->in_list = true;
    else if (l->kind != LINE_BLANK && l->indent == 0 && r->before == LINE_BLANK) r->in_list = false;
    if (l->kind != LINE_BLANK) r->indent = l->indent;
    r->before = l->kind;
    r->begun  = true;
    return true;
}
