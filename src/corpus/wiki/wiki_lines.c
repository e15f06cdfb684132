/* From lines to paragraphs, in place: the write position never passes the read position. Headings wait
 * until a paragraph follows, so that a section of which nothing is left leaves no heading. */
#include "corpus/wiki/wikitext.h"

#include <string.h>
#include "text/unicode.h"

enum { LEVELS = 6, EMPTY_MOST = 24 };

typedef struct { const char *text; int64_t bytes; } LineSlice;

typedef struct {
    char      *out, *put;   /* beginning of the output; where the next byte is written */
    char      *line;        /* where the current paragraph begins */
    bool       running;     /* the last line was running text, which the next may continue */
    int        dropped;     /* level of the section that is removed; else 0 */
    int        headings;    /* headings that wait for a paragraph, outermost first */
    LineSlice  heading[LEVELS];
    int        level[LEVELS];
} Writer;

/* ---- tidying a line: removed markup leaves blanks, punctuation and empty parentheses ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static char last_byte(const Writer *w) { return w->put > w->line ? w->put[-1] : '\n'; }

/* If the output before `end` ends with a blank, a dash or punctuation that may be in empty parentheses:
 * its bytes; else 0. */
static int64_t removable_bytes(const Writer *w, const char *end)
{
    int64_t n = end - w->line;
    if (n >= 1 && memchr(" ,;:-/", end[-1], 6)) return 1;
    if (n >= 2 && !memcmp(end - 2, "·", 2)) return 2;
    return n >= 3 && (!memcmp(end - 3, "–", 3) || !memcmp(end - 3, "—", 3)) ? 3 : 0;
}

/* At ')': parentheses that contain only punctuation are removed, unless the '(' follows a word directly,
 * as in f(). The walk back is limited to EMPTY_MOST bytes, so time is linear. */
static void parenthesis_close(Writer *w)
{
    const char *end = w->put;
    for (int64_t n; w->put - end < EMPTY_MOST && (n = removable_bytes(w, end)); ) end -= n;
    bool empty = end > w->line && end[-1] == '(' && (end - 1 == w->line || end[-2] == ' ' || end[-2] == '(');
    if (empty) {
        w->put -= w->put - end + 1;
        return;
    }
    while (w->put > w->line + 1 && memchr(" ,;", w->put[-1], 3) && w->put[-2] != '(') w->put--;
    *w->put++ = ')';
}

/* Blanks before punctuation are left by removed markup; punctuation at the beginning of parentheses as
 * well. */
static void punctuation_put(Writer *w, const char *at, const char *end)
{
    bool ends = at + 1 == end || is_blank(at[1]) || (*at == ',' && (at[1] == ',' || at[1] == '.'));
    ends = ends && *at != ';';  /* French has a blank before a semicolon, which is kept */
    if (last_byte(w) == '(' && *at != '.') return;
    if (ends && last_byte(w) == ' ') w->put--;
    if (ends && last_byte(w) == ',') w->put--;  /* what was between two commas has been removed */
    *w->put++ = *at;
}

static const bool needs_tidying[256] = { [' '] = true, ['\t'] = true, ['\r'] = true, [')'] = true,
                                         [','] = true, [';'] = true, ['.'] = true };

/* Copies a line with tidying. Bytes between the special ones are moved at once, since they are most. */
static void tidy_put(Writer *w, LineSlice slice)
{
    const char *at = slice.text, *end = at + slice.bytes;
    while (at < end) {
        const char *plain = at;
        while (at < end && !needs_tidying[(uint8_t)*at]) at++;
        memmove(w->put, plain, (size_t)(at - plain));
        w->put += at - plain;
        if (at == end) break;
        if (*at == ')') parenthesis_close(w);
        else if (!is_blank(*at)) punctuation_put(w, at, end);
        else if (last_byte(w) != ' ' && last_byte(w) != '(' && last_byte(w) != '\n') *w->put++ = ' ';
        at++;
    }
    while (last_byte(w) == ' ') w->put--;
}

/* ---- paragraphs and headings ---- */

static void paragraph_put(Writer *w, LineSlice slice)
{
    w->line = w->put;
    tidy_put(w, slice);
    if (w->put > w->line) *w->put++ = '\n';
}

/* A line of running text continues the paragraph before it, unless a heading or an item is between them. */
static void text_put(Writer *w, LineSlice slice, bool item)
{
    for (int i = 0; i < w->headings; i++) paragraph_put(w, w->heading[i]);
    bool on = w->running && !item && !w->headings && w->put > w->out;
    w->headings = 0;
    w->running  = !item;
    if (!on) {
        paragraph_put(w, slice);
        return;
    }
    w->put[-1] = ' ';                   /* replaces the newline */
    tidy_put(w, slice);
    *w->put++ = '\n';
}

/* A heading replaces waiting headings of its level and below. Headings inside a removed section are
 * ignored. */
static void heading_process(Writer *w, LineSlice slice, int level)
{
    w->running = false;
    if (w->dropped && level > w->dropped) return;
    w->dropped = wiki_word_end(slice.text, slice.bytes) ? level : 0;
    while (w->headings && w->level[w->headings - 1] >= level) w->headings--;
    if (w->dropped || w->headings == LEVELS) return;
    w->heading[w->headings] = slice;
    w->level[w->headings++] = level;
}

/* ---- lines ---- */

static LineSlice trim(LineSlice p)
{
    while (p.bytes && is_blank(*p.text))              p.text++, p.bytes--;
    while (p.bytes && is_blank(p.text[p.bytes - 1]))  p.bytes--;
    return p;
}

static bool has_word(LineSlice p)
{
    for (int64_t at = 0; at < p.bytes; ) {
        Rune rune = rune_at((const uint8_t *)p.text + at, p.bytes - at);
        if (rune.kind & (LETTER | NUMBER)) return true;
        at += rune.bytes;
    }
    return false;
}

/* Equal numbers of = at both ends, with at least one byte between them. */
static int heading_level(LineSlice p)
{
    int level = 0;
    while (level < LEVELS && 2 * level + 2 < p.bytes && p.text[level] == '=' &&
           p.text[p.bytes - 1 - level] == '=')
        level++;
    return level;
}

/* A line without a letter or number is dropped, and ends the paragraph before it. */
static void line_process(Writer *w, LineSlice slice)
{
    LineSlice p = trim(slice);
    if (!has_word(p)) {
        w->running = false;
        return;
    }
    int level = heading_level(p);
    if (level) {
        heading_process(w, trim((LineSlice){ p.text + level, p.bytes - 2 * level }), level);
        return;
    }
    if (w->dropped) return;
    LineSlice all = p;
    while (memchr("*#:;", *p.text, 4)) p.text++, p.bytes--;
    text_put(w, trim(p), p.bytes < all.bytes);
}

int64_t wiki_lines(char *text, int64_t bytes)
{
    Writer w = { .out = text, .put = text, .line = text };
    for (const char *at = text, *stop = text + bytes; at < stop; ) {
        const char *end = memchr(at, '\n', (size_t)(stop - at));
        if (!end) end = stop;
        line_process(&w, (LineSlice){ at, end - at });
        at = end + 1;
    }
    return w.put - w.out;
}
