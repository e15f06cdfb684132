/* The first step of stripping wikitext: removes inline markup in one pass over the text, with the ends of
 * marks from wiki_marks.c, and appends what is kept to the output; wiki_lines.c then makes paragraphs of
 * it. Nothing is ever inserted or moved in the output, only cut off at its end, so the pass is linear. */
#include "corpus/wiki/wiki_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "corpus/wiki/wikitext.h"
#include "text/unicode.h"

/* Longest link target, template name, argument name and magic word, in bytes. The limits bound each look
 * ahead, so that text full of unclosed marks stays linear. */
enum { TARGET_MOST = 600, NAME_MOST = 80, KEY_MOST = 24, MAGIC_MOST = 64 };

/* A template of which text is kept, from its first argument to its end. The text of an argument that is
 * not wanted is cut off the output when the argument ends, so no text is ever moved; else nested templates
 * would take quadratic time. */
typedef struct {
    const WikiTemplate *row;
    int64_t             end;                /* byte of its }} */
    int64_t             output, argument;   /* bytes of the output before its text and before the argument */
    int                 position, last;     /* position of the argument; the last one that is kept */
    bool                wanted, kept;       /* this argument is; any before it was */
} Frame;

typedef struct {
    Buffer     *out;
    const char *text;
    int64_t     bytes, at, limit;   /* limit: end of the innermost template */
    Marks       marks;
    int64_t     mark;               /* index of the first mark at or after `at` */
    Frame      *frame;
    int64_t     frames, frames_capacity;
    int64_t     links;              /* open links whose words are being emitted */
    bool        external, poem;     /* within [http://x words]; within <poem> */
    Status      status;
} Wiki;

static bool byte_is(const Wiki *w, int64_t at, char c) { return at < w->limit && w->text[at] == c; }

static void emit(Wiki *w, const char *text, int64_t bytes)
{
    if (w->status == OK) w->status = buffer_add(w->out, text, bytes);
}

static void emit_words(Wiki *w, const char *words) { emit(w, words, (int64_t)strlen(words)); }

/* The mark that opens at the current position, if any. The index only moves forward. */
static const Mark *mark_at_position(Wiki *w)
{
    const Marks *m = &w->marks;
    while (w->mark < m->count && m->mark[w->mark].from < w->at) w->mark++;
    return w->mark < m->count && m->mark[w->mark].from == w->at ? &m->mark[w->mark] : NULL;
}

/* ---- marks that never close ---- */

static void line_drop(Wiki *w)
{
    const char *end = memchr(w->text + w->at, '\n', (size_t)(w->limit - w->at));
    w->at = end ? end - w->text : w->limit;
}

/* Drops the rest of the line and the following lines that look like arguments or table cells. */
static void rest_drop(Wiki *w)
{
    for (int64_t next = w->at; ; ) {
        w->at = next;
        line_drop(w);
        for (next = w->at + 1; byte_is(w, next, ' ') || byte_is(w, next, '\t'); ) next++;
        if (!byte_is(w, next, '|') && !byte_is(w, next, '!') && !byte_is(w, next, '}')) return;
    }
}

/* ---- templates ---- */

static Frame *frame_top(Wiki *w) { return &w->frame[w->frames - 1]; }

/* Reads the name of an argument: "name =" makes it a named one (*position 0), "2 =" gives its position.
 * Returns the byte after it, or `at` where there is no name. */
static int64_t key_read(const Wiki *w, int64_t at, int *position)
{
    int64_t from = at, number = 0, most = at + KEY_MOST < w->limit ? at + KEY_MOST : w->limit;
    bool digits = true;
    while (at < most && memchr(" \t\n", w->text[at], 3)) at++;
    int64_t key = at;
    for (; at < most && !memchr("=|{}[]<\n", w->text[at], 8); at++) {
        char c = w->text[at];
        if (c >= '0' && c <= '9') number = number < 1000 ? 10 * number + c - '0' : number;
        else digits = digits && c == ' ';
    }
    if (at >= most || w->text[at] != '=' || at == key) return from;
    *position = digits ? (int)number : 0;
    return at + 1;
}

/* With WIKI_LAST each wanted argument replaces the one before it. */
static void argument_begin(Wiki *w)
{
    Frame *f = frame_top(w);
    int position = f->position + 1;
    int64_t after = key_read(w, w->at, &position);
    if (after == w->at) f->position++;                             /* no name: the next position */
    w->at = after;
    f->wanted = position >= f->row->first && position <= f->last;
    if (f->wanted && f->row->last == WIKI_LAST) {
        w->out->bytes = f->output;
        f->kept = false;
    }
    f->argument = w->out->bytes;
    if (f->wanted) emit_words(w, f->kept ? f->row->between : f->row->before);
}

/* {{convert|5|to|7|km|mi}}: the word of a range is followed by another number, so two more arguments are
 * kept. */
static void convert_extend(Wiki *w, Frame *f)
{
    int64_t from = f->argument + (int64_t)strlen(f->row->between);
    if (f->position == f->last && from <= w->out->bytes &&
        wiki_word_range(w->out->text + from, w->out->bytes - from))
        f->last += 2;
}

static void argument_end(Wiki *w)
{
    Frame *f = frame_top(w);
    if (f->argument < 0 || w->status != OK) return;
    if (!f->wanted) w->out->bytes = f->argument;
    else if (f->row->last == WIKI_CONVERT) convert_extend(w, f);
    f->kept = f->kept || f->wanted;
}

static void frame_push(Wiki *w, const WikiTemplate *row, int64_t end)
{
    if ((w->status = ARRAY_RESERVE(w->frame, w->frames_capacity, w->frames + 1)) != OK) return;
    w->frame[w->frames++] = (Frame){ .row = row, .end = end, .output = w->out->bytes, .argument = -1,
                                     .last = row->last == WIKI_CONVERT ? row->first + 1 : row->last };
    w->limit = end;
}

static void frame_pop(Wiki *w)
{
    Frame *f = frame_top(w);
    argument_end(w);
    if (f->kept) emit_words(w, f->row->after);
    w->at = f->end + 2;
    w->frames--;
    w->limit = w->frames ? frame_top(w)->end : w->bytes;
}

/* The end of the template name: at "|", at the end of the template, or after the ":" of a parser function. */
static int64_t name_read(const Wiki *w, int64_t from, int64_t end)
{
    int64_t at = from, most = from + NAME_MOST < end ? from + NAME_MOST : end;
    while (at < most && !memchr("|{}[]<:", w->text[at], 7)) at++;
    return at < most && w->text[at] == ':' ? at + 1 : at;
}

/* Only templates with a row in wiki_templates.def get a frame; all others are skipped as a whole. */
static void template_open(Wiki *w, const Mark *m)
{
    int64_t from = m->from + 2, end = m->end - 2, at = name_read(w, from, end);
    bool function = w->text[at - 1] == ':' && at > from, ends = at == end || w->text[at] == '|';
    const WikiTemplate *row = m->kind == MARK_TEMPLATE && (function || ends)
                                  ? wiki_word_template(w->text + from, at - from) : NULL;
    if (!row || !row->last) {
        if (row && at == end) emit_words(w, row->before);
        w->at = m->end;
        return;
    }
    frame_push(w, row, end);
    w->at = at;
    if (function && w->status == OK) argument_begin(w);
}

/* ---- links ---- */

/* A link with or without its end: a target, then words. A target that contains markup is none, and all is
 * words. */
static void link_open(Wiki *w, const Mark *m)
{
    int64_t from = m->from + 2, end = m->end < 0 ? w->limit : m->end - 2, at = from;
    int64_t most = from + TARGET_MOST < end ? from + TARGET_MOST : end;
    const char *colon = NULL;
    while (at < most && !memchr("|[]{}<\n", w->text[at], 7)) {
        if (w->text[at] == ':' && !colon) colon = w->text + at;
        at++;
    }
    if (colon && colon > w->text + from && wiki_word_hidden(w->text + from, colon - w->text - from)) {
        w->at = m->end;
        if (m->end >= 0) return;
        w->at = from;
        line_drop(w);
        return;
    }
    bool words = at < most && w->text[at] == '|' && at + 1 < end;
    w->at = words ? at + 1 : from + byte_is(w, from, ':');
    w->links += m->end >= 0;
    if (m->end >= 0 && at + 1 == end && w->text[at] == '|') {         /* [[a|]] is [[a]] */
        emit(w, w->text + w->at, at - w->at);
        w->at = end;
    }
}

static int64_t protocol_length(const char *text, int64_t bytes)
{
    static const char *const protocols[] = { "http://", "https://", "//", "ftp://", "ftps://", "mailto:",
                                             "news:", "irc://", "git://", "tel:", "magnet:", "urn:" };
    for (size_t i = 0; i < COUNT(protocols); i++) {
        int64_t length = (int64_t)strlen(protocols[i]);
        if (bytes > length && !strncasecmp(text, protocols[i], (size_t)length)) return length;
    }
    return 0;
}

static void bracket_open(Wiki *w)
{
    const Mark *m = mark_at_position(w);
    if (m && m->kind == MARK_LINK) {
        link_open(w, m);
        return;
    }
    int64_t at = w->at + 1, protocol = protocol_length(w->text + at, w->limit - at);
    if (!protocol) {
        emit(w, "[", 1);
        w->at++;
        return;
    }
    for (at += protocol; at < w->limit && !memchr(" \t\n]<>[\"{}", w->text[at], 10); ) at++;
    w->external = true;
    w->at = at;
}

/* A ]] belongs to an open link, or is dropped if no external link is open; a single ] ends an external
 * link. */
static void bracket_close(Wiki *w)
{
    bool two = byte_is(w, w->at + 1, ']');
    if (two && (w->links || !w->external)) {
        w->links -= w->links > 0;
        w->at += 2;
        return;
    }
    if (!w->external) emit(w, "]", 1);
    w->external = false;
    w->at++;
}

/* ---- characters ---- */

static void entity_emit(Wiki *w)
{
    int64_t  length;
    uint8_t  bytes[4];
    uint32_t point = entity_at(w->text + w->at, w->limit - w->at, &length);
    if (point == 0xa0 || point < 0x20) point = ' ';
    if (length) emit(w, (char *)bytes, utf8_encode(bytes, point));
    else        emit(w, "&", 1);
    w->at += length ? length : 1;
}

/* Two apostrophes are italics, three bold, five both; of four one, and of more than five the excess, are
 * apostrophes of the text. */
static void apostrophes_emit(Wiki *w)
{
    int64_t run = 0;
    while (byte_is(w, w->at, '\'')) w->at++, run++;
    for (int64_t left = run > 5 ? run - 5 : run == 1 || run == 4; left; left--) emit(w, "'", 1);
}

/* Drops __NOTOC__ and other magic words, in any language: capitals or bytes above ASCII between two
 * underscores. */
static void magic_drop(Wiki *w)
{
    int64_t from = w->at, at = from + 2, most = from + MAGIC_MOST < w->limit ? from + MAGIC_MOST : w->limit;
    while (at < most && ((w->text[at] >= 'A' && w->text[at] <= 'Z') || (uint8_t)w->text[at] >= 0x80)) at++;
    if (byte_is(w, from + 1, '_') && at > from + 4 && byte_is(w, at, '_') && byte_is(w, at + 1, '_')) {
        w->at = at + 2;
        return;
    }
    emit(w, "_", 1);
    w->at++;
}

/* Emits a second newline inside <poem>, so that each line is a paragraph. */
static void line_end(Wiki *w)
{
    w->external = false;
    emit(w, "\n\n", 1 + w->poem);
    w->at++;
}

/* ---- tags and comments ---- */

/* The content of nowiki: only entities are decoded. `limit` is lowered meanwhile, so that an entity ends
 * inside it. */
static void verbatim_emit(Wiki *w, int64_t after)
{
    int64_t end = after - 1, limit = w->limit;
    while (w->text[end] != '<') end--;
    w->limit = end;
    w->at   += tag_at(w->text + w->at, end - w->at).bytes;
    while (w->at < end && w->status == OK) {
        const char *amp = memchr(w->text + w->at, '&', (size_t)(end - w->at));
        int64_t stop = amp ? amp - w->text : end;
        emit(w, w->text + w->at, stop - w->at);
        w->at = stop;
        if (amp) entity_emit(w);
    }
    w->limit = limit;
    w->at    = after;
}

/* After <sup>: only a number is treated, so that km² and 10^6 do not become km2 and 106. */
static void superscript_emit(Wiki *w)
{
    static const char *const figures[] = { "¹", "²", "³" };
    int64_t at = w->at, length = 0;
    if (byte_is(w, at, '-')) length = 1;
    else if (w->limit - at > 3 && !memcmp(w->text + at, "−", 3)) length = 3;
    int64_t sign = length;
    while (length < sign + 3 && at + length < w->limit && w->text[at + length] >= '0' &&
           w->text[at + length] <= '9')
        length++;
    bool number = length > sign && w->limit - at - length >= 6 &&
                  !strncasecmp(w->text + at + length, "</sup>", 6);
    if (!number) return;
    bool figure = length == 1 && w->text[at] >= '1' && w->text[at] <= '3';
    emit_words(w, figure ? figures[w->text[at] - '1'] : "^");
    if (!figure) emit(w, w->text + at, length);
    w->at += length + 6;
}

static void tag_read(Wiki *w)
{
    Tag tag = tag_at(w->text + w->at, w->limit - w->at);
    if (tag.kind == TAG_NONE) {
        emit(w, "<", 1);
        w->at++;
        return;
    }
    w->at += tag.bytes;
    if (tag.kind == TAG_POEM) w->poem = !tag.closing && !tag.alone;
    if (tag.kind == TAG_POEM || tag.kind == TAG_BREAK || tag.kind == TAG_TABLE) emit(w, "\n\n", 2);
    if (tag.kind == TAG_SUPER && !tag.closing) superscript_emit(w);
}

/* A mark here is a comment, a table or a tag with content; an unclosed one loses the rest of its line, but
 * unclosed nowiki and table only the tag. */
static void angle_read(Wiki *w)
{
    const Mark *m = mark_at_position(w);
    if (!m || (m->kind == MARK_HTML_TABLE && m->end < 0)) {
        tag_read(w);
        return;
    }
    bool verbatim = m->kind == MARK_TAG && tag_at(w->text + m->from, w->bytes - m->from).kind == TAG_VERBATIM;
    if (verbatim && m->end < 0)  tag_read(w);
    else if (verbatim)              verbatim_emit(w, m->end);
    else if (m->end < 0)         line_drop(w);
    else                            w->at = m->end;
    if (m->kind == MARK_HTML_TABLE) emit(w, "\n\n", 2);
}

/* ---- the pass ---- */

static void brace_open(Wiki *w)
{
    const Mark *m = mark_at_position(w);
    if (!m) {
        emit(w, "{", 1);
        w->at++;
    } else if (m->end < 0) {
        rest_drop(w);
    } else if (m->kind == MARK_TABLE) {
        emit(w, "\n\n", 2);
        w->at = m->end;
    } else {
        template_open(w, m);
    }
}

/* At the end of the innermost template this ends it; any other }} has no opening mark and is dropped. */
static void brace_close(Wiki *w)
{
    bool two = byte_is(w, w->at + 1, '}');
    if (w->frames && w->at == w->limit) {
        frame_pop(w);
        return;
    }
    if (!two) emit(w, "}", 1);
    w->at += 1 + two;
}

static void pipe_read(Wiki *w)
{
    w->at++;
    if (!w->frames) {
        emit(w, "|", 1);
        return;
    }
    argument_end(w);
    argument_begin(w);
}

static const bool special[256] = { ['{'] = true, ['}'] = true, ['['] = true, [']'] = true, ['<'] = true,
                                   ['&'] = true, ['\''] = true, ['_'] = true, ['|'] = true, ['\n'] = true };

static void special_read(Wiki *w)
{
    switch (w->text[w->at]) {
    case '{':  brace_open(w);      break;
    case '}':  brace_close(w);     break;
    case '[':  bracket_open(w);    break;
    case ']':  bracket_close(w);   break;
    case '<':  angle_read(w);      break;
    case '&':  entity_emit(w);      break;
    case '\'': apostrophes_emit(w); break;
    case '_':  magic_drop(w);      break;
    case '|':  pipe_read(w);       break;
    default:   line_end(w);        break;
    }
}

/* Bytes without a meaning in markup are emitted in runs. */
static void inline_strip(Wiki *w)
{
    while (w->at < w->bytes && w->status == OK) {
        int64_t from = w->at;
        while (w->at < w->bytes && !special[(uint8_t)w->text[w->at]]) w->at++;
        if (w->at > from)     emit(w, w->text + from, w->at - from);
        if (w->at < w->bytes) special_read(w);
    }
    emit(w, "\n", 1);
}

Status wiki_text(Buffer *out, const char *wikitext, int64_t bytes)
{
    int64_t start = out->bytes;
    Wiki w = { .out = out, .text = wikitext, .bytes = bytes, .limit = bytes };
    w.status = marks_find(&w.marks, wikitext, bytes);
    if (w.status == OK) w.status = buffer_reserve(out, bytes + 1);
    if (w.status == OK) inline_strip(&w);
    out->bytes = start + (w.status == OK ? wiki_lines(out->text + start, out->bytes - start) : 0);
    marks_free(&w.marks);
    free(w.frame);
    return w.status;
}
