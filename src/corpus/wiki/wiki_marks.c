/* Matches opening and closing marks with a stack. The stack is a linked list through the `end` fields
 * of the open marks, so it takes no memory of its own. Searches that could run over the same text again
 * and again remember how far they came, which keeps the pass linear. */
#include "corpus/wiki/wikitext.h"

#include <stdlib.h>
#include <string.h>
#include "base/array.h"

/* ---- tags: a name that is not in the table makes the '<' plain text, so that formulas and code are not
 * damaged ---- */

enum { NAME_MOST = 16, ATTRIBUTES_MOST = 2048 };

static const struct { TagKind kind; const char *names; } kinds[] = {
    { TAG_WHOLE,    "ref references gallery timeline math chem ce score graph chart mapframe maplink"
                    " hiero imagemap inputbox syntaxhighlight source pre templatedata templatestyles"
                    " indicator categorytree includeonly style script section charinsert phonos languages"
                    " dynamicpagelist" },
    { TAG_VERBATIM, "nowiki" },
    { TAG_TABLE,    "table" },
    { TAG_BREAK,    "br p div li ul ol dl dt dd hr blockquote center h1 h2 h3 h4 h5 h6 tr td th caption"
                    " tbody thead tfoot" },
    { TAG_POEM,     "poem" },
    { TAG_SUPER,    "sup" },
    { TAG_INLINE,   "sub small big span b i u s em strong del ins strike abbr cite code tt kbd samp var"
                    " dfn font q bdi bdo mark rb rp rt rtc ruby time data wbr a noinclude onlyinclude"
                    " section translate tvar label input nobr noparse img" },
};

static bool is_name_char(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
}

/* A linear search is enough: names are short and most tags are among the first rows. */
static void kind_by_name(Tag *tag, const char *name, size_t bytes)
{
    for (int i = 0; i < COUNT(kinds); i++) {
        int index = words_find(kinds[i].names, name, bytes);
        if (index < 0) continue;
        tag->kind = kinds[i].kind;
        tag->row  = 100 * i + index;
        return;
    }
}

/* A tag ends at '>'. A '<' before that means that it is no tag; otherwise many '<' in a row would each
 * search for the same '>', which takes quadratic time. */
Tag tag_at(const char *text, int64_t bytes)
{
    Tag tag = { .closing = bytes > 1 && text[1] == '/' };
    char name[NAME_MOST];
    int64_t at = 1 + tag.closing, length = 0;
    while (at < bytes && length < NAME_MOST && is_name_char(text[at])) {
        char c = text[at++];
        name[length++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    if (!length || at == bytes || !memchr(" \t\n/>", text[at], 5)) return tag;
    int64_t most = bytes < at + ATTRIBUTES_MOST ? bytes : at + ATTRIBUTES_MOST;
    while (at < most && text[at] != '>' && text[at] != '<') at++;
    if (at == most || text[at] == '<') return tag;
    kind_by_name(&tag, name, (size_t)length);
    tag.name  = (int)length;
    tag.bytes = at + 1;
    tag.alone = text[at - 1] == '/' && !tag.closing;
    return tag;
}

/* ---- marks ---- */

enum { NOTHING = -1 };

/* While a mark is open, its `end` is -2 - index of the open mark below it on the stack; -1 (NOTHING)
 * ends the stack, and after the pass means unclosed. */
typedef struct {
    Marks      *marks;
    const char *text;
    int64_t     bytes, at;
    int64_t     top;                /* the innermost open mark, or NOTHING */
    int64_t     open[MARK_KINDS];   /* how many of each are on the stack */
    int64_t     blank, blank_next;  /* the last blank line before `at`, the first after it */
    /* The last single [ that is open, or NOTHING: [http://x words] */
    int64_t     single;
    bool        comments_end;       /* no comment is closed after `at` */
    Status      status;
} MarkScan;

static bool byte_is(const MarkScan *s, int64_t at, char c)
{
    return at >= 0 && at < s->bytes && s->text[at] == c;
}

static void mark_add(MarkScan *s, int64_t from, int64_t after, MarkKind kind)
{
    Marks *m = s->marks;
    s->status = ARRAY_RESERVE(m->mark, m->capacity, m->count + 1);
    if (s->status == OK) m->mark[m->count++] = (Mark){ from, after, kind };
}

/* ---- the stack ---- */

static void push(MarkScan *s, int64_t from, MarkKind kind)
{
    mark_add(s, from, -2 - s->top, kind);
    if (s->status != OK) return;
    s->top = s->marks->count - 1;
    s->open[kind]++;
}

static MarkKind top_kind(const MarkScan *s)
{
    return s->top == NOTHING ? MARK_KINDS : s->marks->mark[s->top].kind;
}

static void pop(MarkScan *s, int64_t after)
{
    Mark *mark = &s->marks->mark[s->top];
    s->open[mark->kind]--;
    s->top = -2 - mark->end;
    mark->end = after;
}

static void close_kind(MarkScan *s, MarkKind kind, int64_t after)
{
    if (!s->open[kind]) return;
    while (top_kind(s) != kind) pop(s, NOTHING);
    pop(s, after);
}

/* ---- lines ---- */

/* Is the line before `at` empty but for blanks and, with `colons`, the colons that indent a table? */
static bool line_starts(const MarkScan *s, int64_t at, bool colons)
{
    while (byte_is(s, at - 1, ' ') || byte_is(s, at - 1, '\t') || (colons && byte_is(s, at - 1, ':'))) at--;
    return at == 0 || s->text[at - 1] == '\n';
}

/* Continues from the last blank line found, so that all calls together pass over the text once. */
static void blank_find(MarkScan *s)
{
    while (s->blank_next < s->at) {
        s->blank = s->blank_next;
        const char *from = s->text + (s->blank + 1), *end = s->text + s->bytes, *found;
        while ((found = memchr(from, '\n', (size_t)(end - from))) && found + 1 < end && found[1] != '\n')
            from = found + 1;
        s->blank_next = found && found + 1 < end ? found - s->text : s->bytes;
    }
}

/* ---- brackets and braces ---- */

static int64_t run_length(MarkScan *s, char c)
{
    int64_t from = s->at;
    while (byte_is(s, s->at, c)) s->at++;
    return s->at - from;
}

/* Of an odd run of [ the outermost is a single bracket. */
static void links_open(MarkScan *s)
{
    int64_t run = run_length(s, '[');
    if (run % 2) s->single = s->at - run;
    for (int64_t from = s->at - run + run % 2; from < s->at; from += 2) push(s, from, MARK_LINK);
}

/* A blank line ends all links that were opened before it. */
static void links_close(MarkScan *s)
{
    int64_t from = s->at, run = run_length(s, ']');
    blank_find(s);
    if (run % 2) {                              /* [[a [b]]] */
        if (s->top != NOTHING && s->single > s->marks->mark[s->top].from) from++;
        s->single = NOTHING;
    }
    for (; run >= 2 && top_kind(s) == MARK_LINK; run -= 2, from += 2) {
        while (top_kind(s) == MARK_LINK && s->marks->mark[s->top].from < s->blank) pop(s, NOTHING);
        if (top_kind(s) == MARK_LINK) pop(s, from + 2);
    }
}

/* Of a run of braces the innermost three are a parameter if the number is odd; a single { begins a table
 * only before | at the start of a line. */
static void braces_open(MarkScan *s)
{
    int64_t from = s->at, run = run_length(s, '{');
    if (run == 1) {
        if (byte_is(s, s->at, '|') && line_starts(s, from, true)) push(s, from, MARK_TABLE);
        return;
    }
    for (; run >= 2 && run != 3; from += 2, run -= 2) push(s, from, MARK_TEMPLATE);
    if (run == 3) push(s, from, MARK_PARAMETER);
}

/* Links inside a table or template that were not closed are unclosed; }}} closes a parameter only if it is
 * the innermost. */
static void braces_close(MarkScan *s)
{
    int64_t from = s->at, run = run_length(s, '}');
    if (byte_is(s, from - 1, '|') && s->open[MARK_TABLE] && line_starts(s, from - 1, false)) {
        while (top_kind(s) == MARK_LINK) pop(s, NOTHING);
        if (run == 1 || top_kind(s) == MARK_TABLE) {
            close_kind(s, MARK_TABLE, ++from);
            run--;
        }
    }
    while (run >= 2 && s->open[MARK_TEMPLATE] + s->open[MARK_PARAMETER]) {
        while (top_kind(s) != MARK_TEMPLATE && top_kind(s) != MARK_PARAMETER) pop(s, NOTHING);
        int64_t taken = top_kind(s) == MARK_PARAMETER && run >= 3 ? 3 : 2;
        pop(s, from += taken);
        run -= taken;
    }
}

/* ---- comments and tags ---- */

/* Once no end was found, none is searched again. */
static void comment_read(MarkScan *s)
{
    const char *end = s->comments_end
                          ? NULL : memmem(s->text + s->at + 4, (size_t)(s->bytes - s->at - 4), "-->", 3);
    s->comments_end = !end;
    mark_add(s, s->at, end ? end + 3 - s->text : NOTHING, MARK_COMMENT);
    s->at = end ? end + 3 - s->text : s->at + 4;
}

/* The byte after the closing tag of the tag that opened at `from`; NOTHING where there is none, or where
 * another tag of the name opens first. So no two searches for one name pass over the same text. */
static int64_t tag_end(const MarkScan *s, int64_t from, const Tag *open)
{
    const char *found, *name = s->text + from + 1;
    for (int64_t at = from + open->bytes;
         (found = memchr(s->text + at, '<', (size_t)(s->bytes - at))); at++) {
        at = found - s->text;
        const char *other = found + 1 + (s->bytes - at > 1 && found[1] == '/');
        /* Most tags have another name and need not be parsed. */
        if (s->text + s->bytes - other < open->name || strncasecmp(other, name, (size_t)open->name)) continue;
        Tag tag = tag_at(found, s->bytes - at);
        if (tag.kind != TAG_NONE && tag.row == open->row && tag.closing) return at + tag.bytes;
        if (tag.kind != TAG_NONE && tag.row == open->row && !tag.alone)  return NOTHING;
    }
    return NOTHING;
}

static void angle_read(MarkScan *s)
{
    if (s->bytes - s->at >= 4 && !memcmp(s->text + s->at, "<!--", 4)) {
        comment_read(s);
        return;
    }
    Tag tag = tag_at(s->text + s->at, s->bytes - s->at);
    int64_t from = s->at++;
    if (tag.kind == TAG_TABLE) {
        if (tag.closing)     close_kind(s, MARK_HTML_TABLE, from + tag.bytes);
        else if (!tag.alone) push(s, from, MARK_HTML_TABLE);
    } else if ((tag.kind == TAG_WHOLE || tag.kind == TAG_VERBATIM) && !tag.closing && !tag.alone) {
        int64_t after = tag_end(s, from, &tag);
        mark_add(s, from, after, MARK_TAG);
        s->at = after < 0 ? from + tag.bytes : after;
    }
}

/* ---- the pass ---- */

static const bool opens_or_closes[256] = { ['{'] = true, ['}'] = true, ['['] = true, [']'] = true,
                                           ['<'] = true };

Status marks_find(Marks *marks, const char *text, int64_t bytes)
{
    MarkScan s = { .marks = marks, .text = text, .bytes = bytes, .top = NOTHING, .single = NOTHING,
                   .blank = -1, .blank_next = -1 };
    marks->count = 0;
    while (s.status == OK) {
        while (s.at < bytes && !opens_or_closes[(uint8_t)text[s.at]]) s.at++;
        if (s.at >= bytes) break;
        switch (text[s.at]) {
        case '{': braces_open(&s);  break;
        case '}': braces_close(&s); break;
        case '[': links_open(&s);   break;
        case ']': links_close(&s);  break;
        default:  angle_read(&s);   break;
        }
    }
    while (s.status == OK && s.top != NOTHING) pop(&s, NOTHING);
    return s.status;
}

void marks_free(Marks *marks)
{
    free(marks->mark);
    *marks = (Marks){ 0 };
}
