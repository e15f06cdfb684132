/* Two passes over the lines of a text: the first measures at which column it is wrapped, the second joins
 * the lines whose break is such a wrap. */
#include "corpus/prose/reflow.h"

#include "corpus/prose/prose_line.h"
#include "text/unicode.h"

/* LONGEST: columns of a line above which nobody wraps; SHORTEST: a wrap below it is a list or verse */
enum { LONGEST = 160, SHORTEST = 40, MEAN_LEAST = 30, MEAN_MOST = 120 };

typedef struct {
    int  width;                 /* the column of the wrap; 0: the lines are not wrapped */
    bool verse;                 /* most lines within paragraphs begin with a capital */
} Wrap;

/* Lines within paragraphs: those that another line follows, by their lengths; those that follow one. */
typedef struct { int64_t of[LONGEST + 1], longer, lines, capitals; } LineLengths;

static bool is_text_line(const ProseLine *l) { return l->kind == LINE_PROSE || l->kind == LINE_ITEM; }

static void lengths_count(LineLengths *n, ProseReader reader)
{
    ProseLine before = { 0 }, l;
    for (; prose_line_next(&reader, &l); before = l) {
        if (l.kind != LINE_PROSE || !is_text_line(&before)) continue;
        if (before.columns > LONGEST) n->longer++;
        else n->of[before.columns]++, n->lines++;
        n->capitals += l.begins == BEGINS_CAPITAL;
    }
}

/* Of wrapped lines most are about as long as the longest: where fewer than half are, the text is a list, an
 * address book or verse of uneven lines, and nothing is joined. */
static Wrap wrap_find(ProseReader reader)
{
    LineLengths n = { 0 };
    Wrap wrap = { 0 };
    lengths_count(&n, reader);
    int64_t above = 0, full = 0;
    int     width = LONGEST;
    for (; width > 0 && (above += n.of[width]) * 20 <= n.lines; ) width--;
    for (int i = width * 3 / 4; i <= LONGEST; i++) full += n.of[i];
    wrap.verse = n.capitals * 5 > (n.lines + n.longer) * 3;
    if (n.lines && n.longer <= n.lines && width >= SHORTEST && 2 * full >= n.lines) wrap.width = width;
    return wrap;
}

/* "A. " is an item only if its lines hang: a wrapped line may begin with an initial as well. */
static bool is_lettered(const ProseLine *l)
{
    const char *body = l->text + l->body;
    return l->bytes - l->body > 3 && l->begins != BEGINS_NONE && body[1] == '.' && body[2] == ' ';
}

/* first: a is the first line of its paragraph, which may be indented further or less than the others. */
static bool line_joins(const Wrap *w, const ProseLine *a, const ProseLine *b, bool first)
{
    if (!w->width || b->kind != LINE_PROSE || !is_text_line(a)) return false;
    if (a->hard || a->columns > LONGEST) return false;
    bool item  = a->kind == LINE_ITEM || is_lettered(a);
    bool hangs = first && (item ? b->indent > a->indent : b->indent < a->indent);
    if (b->indent != a->indent && !hangs) return false;
    if (5 * (a->columns + 1 + b->word) <= 4 * w->width)
        return b->begins == BEGINS_SMALL && 2 * a->columns >= w->width && !a->ends;
    return b->begins != BEGINS_CAPITAL || !w->verse;
}

/* ---- writing ---- */

static bool is_cjk(uint32_t point) { return point >= 0x2E80 && (point < 0xAC00 || point > 0xD7A3); }

static Rune rune_before(const char *text, int64_t bytes)
{
    int64_t at = bytes;
    do at--;
    while (at > 0 && bytes - at < 4 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return rune_at((const uint8_t *)text + at, bytes - at);
}

/* A blank, but not after the hyphen or dash of a broken word, nor between characters of scripts that have
 * no blanks. A soft hyphen is gone when its line is. */
static Status join_put(Buffer *out, const ProseLine *b)
{
    Rune last = rune_before(out->text, out->bytes), before = { 0 };
    Rune next = rune_at((const uint8_t *)b->text + b->body, b->bytes - b->body);
    if (out->bytes > last.bytes) before = rune_before(out->text, out->bytes - last.bytes);
    bool hyphen = last.point == '-' && ((before.kind & (LETTER | NUMBER)) || before.point == '-');
    bool soft   = last.point == 0xAD, dash = last.point == 0x2014;
    bool unspaced = is_cjk(last.point) && is_cjk(next.point);
    if (soft) out->bytes -= last.bytes;
    if (!hyphen && !soft && !dash && !unspaced) TRY(buffer_add(out, " ", 1));
    return buffer_add(out, b->text + b->body, b->bytes - b->body);
}

static Status line_put(Buffer *out, const ProseLine *l, bool begun, int64_t blank)
{
    if (begun) TRY(buffer_add(out, "\n\n\n", 1 + (blank < 2 ? blank : 2)));
    return buffer_add(out, l->text, l->bytes);
}

Status reflow(Buffer *out, const char *text, int64_t bytes, Markup markup)
{
    ProseReader reader = { .text = text, .bytes = bytes, .markup = markup };
    ProseLine before = { 0 }, l;
    Wrap    wrap  = wrap_find(reader);
    int64_t begin = out->bytes, blank = 0;
    Status  status = OK;
    bool    first = true;
    while (status == OK && prose_line_next(&reader, &l)) {
        if (l.kind == LINE_BLANK) blank++;
        else if (line_joins(&wrap, &before, &l, first)) {
            status = join_put(out, &l);
            first  = false;
        } else {
            status = line_put(out, &l, out->bytes > begin, blank);
            first  = true;
        }
        if (l.kind != LINE_BLANK) blank = 0;
        before = l;
    }
    if (status != OK) out->bytes = begin;
    return status;
}

/* ---- what the lines of a file are ---- */

/* Records begin alike, "dokument 1", "dokument 2"; the lines of a paragraph do not. */
static bool begins_alike(const ProseLine *a, const ProseLine *b)
{
    const char *from = a->text + a->body, *to = b->text + b->body;
    int64_t a_bytes = a->bytes - a->body, b_bytes = b->bytes - b->body, i = 0;
    while (i < a_bytes && i < b_bytes && from[i] == to[i] && from[i] != ' ') i++;
    return i < a_bytes && i < b_bytes && from[i] == ' ' && to[i] == ' ';
}

LinesLook lines_look(const char *text, int64_t bytes)
{
    ProseReader reader = { .text = text, .bytes = bytes, .markup = MARKUP_TEXT };
    ProseLine before = { 0 }, l;
    int64_t lines = 0, gaps = 0, pairs = 0, runs_on = 0, columns = 0;
    for (; prose_line_next(&reader, &l); before = l) {
        if (l.kind == LINE_BLANK) continue;
        columns += l.columns;
        if (lines++ && before.kind == LINE_BLANK) gaps++;
        else if (lines > 1) pairs++;
        bool follows = l.kind == LINE_PROSE && (l.begins == BEGINS_SMALL || l.begins == BEGINS_UNCASED);
        runs_on += follows && is_text_line(&before) && !before.ends && !begins_alike(&before, &l);
    }
    int64_t mean = lines ? columns / lines : 0;
    if (gaps >= 4 && 20 * gaps >= lines) return LINES_TEXT;
    if (runs_on >= 4 && 3 * runs_on >= pairs && mean >= MEAN_LEAST && mean <= MEAN_MOST) return LINES_TEXT;
    return lines >= 100 || (lines >= 10 && mean >= 200) ? LINES_DOCUMENTS : LINES_UNSURE;
}
