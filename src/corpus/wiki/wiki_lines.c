#include "corpus/wiki/wiki_lines.h"

#include <stdbool.h>
#include <string.h>
#include "corpus/wiki/wiki_words.h"
#include "text/unicode.h"

enum { LEVELS = 6, EMPTY_MOST = 24 };

typedef struct { const char *text; int64_t bytes; } TextSlice;

typedef struct {
    char   *out, *put;                  /* where the text and the next byte begin */
    char   *line;                       /* where the paragraph at hand begins */
    bool    running;                    /* the last line was running text, which may go on */
    int     dropped;                    /* level of the section that goes; else 0 */
    int     headings;                   /* that wait for a paragraph, outermost first */
    TextSlice   heading[LEVELS];
    int     level[LEVELS];
} Writer;

/* ---- one line, tidied ---- */

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static char last(const Writer *w) { return w->put > w->line ? w->put[-1] : '\n'; }

/* Bytes of the blank, dash or sign at the end of what is put, of those that may stand in empty parentheses; else 0 */
static int64_t hollow(const Writer *w, const char *end)
{
    int64_t n = end - w->line;
    if (n >= 1 && memchr(" ,;:-/", end[-1], 6)) return 1;
    if (n >= 2 && !memcmp(end - 2, "·", 2)) return 2;
    return n >= 3 && (!memcmp(end - 3, "–", 3) || !memcmp(end - 3, "—", 3)) ? 3 : 0;
}

/* At ')': one that closes nothing but signs takes the '(' with it, unless that stands at a word as in f() */
static void parenthesis_close(Writer *w)
{
    const char *end = w->put;
    for (int64_t n; w->put - end < EMPTY_MOST && (n = hollow(w, end)); ) end -= n;
    bool empty = end > w->line && end[-1] == '(' && (end - 1 == w->line || end[-2] == ' ' || end[-2] == '(');
    if (empty) {
        w->put -= w->put - end + 1;
        return;
    }
    while (w->put > w->line + 1 && memchr(" ,;", w->put[-1], 3) && w->put[-2] != '(') w->put--;
    *w->put++ = ')';
}

static void sign_put(Writer *w, const char *at, const char *end)
{
    bool ends = at + 1 == end || blank(at[1]) || (*at == ',' && (at[1] == ',' || at[1] == '.'));
    ends = ends && *at != ';';                                  /* French has a blank before a semicolon */
    if (last(w) == '(' && *at != '.') return;
    if (ends && last(w) == ' ') w->put--;
    if (ends && last(w) == ',') w->put--;                       /* what stood between is gone */
    *w->put++ = *at;
}

static const bool tidied[256] = { [' '] = true, ['\t'] = true, ['\r'] = true, [')'] = true, [','] = true, [';'] = true, ['.'] = true };

static void tidy(Writer *w, TextSlice piece)
{
    const char *at = piece.text, *end = at + piece.bytes;
    while (at < end) {
        const char *plain = at;
        while (at < end && !tidied[(uint8_t)*at]) at++;
        memmove(w->put, plain, (size_t)(at - plain));
        w->put += at - plain;
        if (at == end) break;
        if (*at == ')') parenthesis_close(w);
        else if (!blank(*at)) sign_put(w, at, end);
        else if (last(w) != ' ' && last(w) != '(' && last(w) != '\n') *w->put++ = ' ';
        at++;
    }
    while (last(w) == ' ') w->put--;
}

/* ---- paragraphs and headings ---- */

static void paragraph_put(Writer *w, TextSlice piece)
{
    w->line = w->put;
    tidy(w, piece);
    if (w->put > w->line) *w->put++ = '\n';
}

static void text_put(Writer *w, TextSlice piece, bool item)
{
    for (int i = 0; i < w->headings; i++) paragraph_put(w, w->heading[i]);
    bool on = w->running && !item && !w->headings && w->put > w->out;
    w->headings = 0;
    w->running  = !item;
    if (!on) {
        paragraph_put(w, piece);
        return;
    }
    w->put[-1] = ' ';                   /* instead of its end */
    tidy(w, piece);
    *w->put++ = '\n';
}

static void heading_take(Writer *w, TextSlice piece, int level)
{
    w->running = false;
    if (w->dropped && level > w->dropped) return;
    w->dropped = wiki_word_end(piece.text, piece.bytes) ? level : 0;
    while (w->headings && w->level[w->headings - 1] >= level) w->headings--;
    if (w->dropped || w->headings == LEVELS) return;
    w->heading[w->headings] = piece;
    w->level[w->headings++] = level;
}

/* ---- lines ---- */

static TextSlice trimmed(TextSlice p)
{
    while (p.bytes && blank(*p.text))              p.text++, p.bytes--;
    while (p.bytes && blank(p.text[p.bytes - 1]))  p.bytes--;
    return p;
}

static bool has_word(TextSlice p)
{
    for (int64_t at = 0; at < p.bytes; ) {
        Rune rune = rune_at((const uint8_t *)p.text + at, p.bytes - at);
        if (rune.kind & (LETTER | NUMBER)) return true;
        at += rune.bytes;
    }
    return false;
}

static int heading_level(TextSlice p)
{
    int level = 0;
    while (level < LEVELS && 2 * level + 2 < p.bytes && p.text[level] == '=' && p.text[p.bytes - 1 - level] == '=') level++;
    return level;
}

static void line_take(Writer *w, TextSlice piece)
{
    TextSlice p = trimmed(piece);
    if (!has_word(p)) {
        w->running = false;
        return;
    }
    int level = heading_level(p);
    if (level) {
        heading_take(w, trimmed((TextSlice){ p.text + level, p.bytes - 2 * level }), level);
        return;
    }
    if (w->dropped) return;
    TextSlice all = p;
    while (memchr("*#:;", *p.text, 4)) p.text++, p.bytes--;
    text_put(w, trimmed(p), p.bytes < all.bytes);
}

int64_t wiki_lines(char *text, int64_t bytes)
{
    Writer w = { .out = text, .put = text, .line = text };
    for (const char *at = text, *stop = text + bytes; at < stop; ) {
        const char *end = memchr(at, '\n', (size_t)(stop - at));
        if (!end) end = stop;
        line_take(&w, (TextSlice){ at, end - at });
        at = end + 1;
    }
    return w.put - w.out;
}
