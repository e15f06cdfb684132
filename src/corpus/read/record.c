/* From the items of a block to records: each format has a function that finds the text and the metadata in
 * one item. The item is first checked for length and UTF-8, as it is in the file; JSON escapes and XML
 * entities can denote invalid characters as well, so the decoded text is checked again. */
#include "corpus/read/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/utf8.h"
#include "corpus/wiki/wiki_page.h"

typedef enum { TEXT, ID, URL, TITLE, SOURCE, LABEL, WARNINGS, FIELDS } RecordField;

static const struct { RecordField field; const char *key; } known[] = {
#define FIELD(field, key) { field, key },
#include "corpus/read/record.def"
#undef FIELD
};
enum { KNOWN = COUNT(known) };
_Static_assert(KNOWN + SOURCE + 1 <= JSON_PATHS_MOST, "json_line.h: more paths");

const char *record_fault_name(RecordFaultKind kind)
{
    static const char *const word[RECORD_FAULTS] = { "too long", "broken", "not UTF-8", "with NUL",
                                                     "no memory" };
    return word[kind];
}

/* A key that the user names replaces all known keys of its field. */
static void key_add(RecordWalk *w, RecordField field, const char *key)
{
    w->key[w->keys] = json_path(key);
    w->field[w->keys++] = (uint8_t)field;
}

/* The keys are in order of preference: record.def first names those of the most common corpora. */
RecordWalk record_walk(const RecordPlan *plan, Block *block, const char *name, Buffer *buffer)
{
    RecordWalk w = { .plan = plan, .block = block, .name = name, .buffer = buffer };
    const char *const named[FIELDS] = { plan->text_key, plan->id_key, plan->url_key, plan->title_key,
                                        plan->source_key };
    if (block->kind != BLOCK_JSON) return w;
    for (int f = 0; f < FIELDS; f++)
        if (named[f]) key_add(&w, (RecordField)f, named[f]);
    for (int i = 0; i < KNOWN; i++)
        if (!named[known[i].field]) key_add(&w, known[i].field, known[i].key);
    return w;
}

/* ---- faults ---- */

static RecordStep fault(RecordWalk *w, RecordFaultKind kind, Line piece, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static RecordStep fault(RecordWalk *w, RecordFaultKind kind, Line piece, const char *format, ...)
{
    w->fault = (RecordFault){ .kind = kind, .line = piece.number, .bytes = piece.bytes };
    va_list values;
    va_start(values, format);
    fail_list(BAD_FILE, format, values);
    va_end(values);
    snprintf(w->fault.message, sizeof w->fault.message, "%.300s:%" PRId64 ": %s", w->name, piece.number,
             fail_text());
    return RECORD_FAULT;
}

/* A document above the limit is never repaired or decoded, whatever else is wrong with it. */
static RecordStep fault_long(RecordWalk *w, Line piece)
{
    return fault(w, RECORD_LONG, piece,
                 "a document of %" PRId64 " bytes, and --max-document-bytes is %" PRId64,
                 piece.bytes, w->plan->bytes_most);
}

static RecordStep fault_bytes(RecordWalk *w, Line piece, const char *text, int64_t at)
{
    if (!text[at]) return fault(w, RECORD_NUL, piece, "a NUL at byte %" PRId64 " of the document", at);
    return fault(w, RECORD_UTF8, piece, "not UTF-8 at byte %" PRId64 " of the document, 0x%02X", at,
                 (unsigned char)text[at]);
}

/* ---- JSON lines ---- */

/* The escape \u0000 denotes NUL, which no text may have. It is replaced by \ufffd, of equal length, before
 * the line is read. An escaped backslash is two bytes that are skipped together, so \\u0000 stays. */
static bool json_zeros_repair(char *line, int64_t bytes)
{
    bool found = false;
    for (char *at = line, *stop = line + bytes;
         (at = memchr(at, '\\', (size_t)(stop - at))) && stop - at >= 6; ) {
        bool zero = !memcmp(at, "\\u0000", 6);
        if (zero) memcpy(at, "\\ufffd", 6);
        found |= zero;
        at += 2;
    }
    return found;
}

/* Names the keys that the line does have, so that the user can choose one. */
static RecordStep json_no_text(RecordWalk *w, Line piece)
{
    char names[160];
    json_line_names(names, sizeof names, piece.text, piece.bytes);
    return fault(w, RECORD_BROKEN, piece, "no text under %s; the line has %s; choose the key with"
                 " --json-keys",
                 w->plan->text_key ? w->plan->text_key : "text, content or raw_content",
                 *names ? names : "none");
}

/* Ids may be numbers, and warnings a list; every other value that is no string is ignored. */
static bool span_is_usable(const char *line, JsonSpan span, RecordField field)
{
    char first = span.found && span.bytes ? line[span.at] : 0;
    if (!span.found || span.text) return span.text;
    if (field == WARNINGS) return first == '[';
    return first == '-' || (first >= '0' && first <= '9');
}

/* The whole list ['noisy', 'adult']: a span covers only its bracket. Warnings are plain words, so that the
 * first ] ends the list. */
static JsonText list_text(const char *line, int64_t bytes, JsonSpan span)
{
    const char *end = memchr(line + span.at, ']', (size_t)(bytes - span.at));
    return (JsonText){ line + span.at, end ? end + 1 - (line + span.at) : 0 };
}

/* Must run after json_line_paths: decoding overwrites the line, and each span is decoded at most once,
 * since the first usable key of a field wins. */
static void json_fields(RecordWalk *w, Line piece, const JsonSpan *span, Record *record)
{
    JsonText *const to[FIELDS] = { [ID] = &record->id, [URL] = &record->url, [TITLE] = &record->title,
                                   [SOURCE] = &record->source, [LABEL] = &record->label,
                                   [WARNINGS] = &record->warnings };
    for (int i = 0; i < w->keys; i++) {
        RecordField field = (RecordField)w->field[i];
        if (field == TEXT || to[field]->text || !span_is_usable(piece.text, span[i], field)) continue;
        *to[field] = field == WARNINGS && !span[i].text ? list_text(piece.text, piece.bytes, span[i])
                                                        : json_span_text(piece.text, span[i]);
    }
}

static RecordStep json_record(RecordWalk *w, Line piece, Record *record)
{
    JsonSpan span[JSON_PATHS_MOST];
    if (w->plan->repair) w->repaired_now |= json_zeros_repair(piece.text, piece.bytes);
    JsonFault why = json_line_paths(span, w->key, w->keys, piece.text, piece.bytes);
    if (why.why)
        return fault(w, RECORD_BROKEN, piece, "not a JSON object at byte %" PRId64 " of the line: %s", why.at,
                     why.why);
    for (int i = 0; i < w->keys; i++) {
        if (w->field[i] != TEXT || !span[i].text) continue;
        record->text  = piece.text + span[i].at;
        record->bytes = json_span_text(piece.text, span[i]).bytes;
        json_fields(w, piece, span, record);
        return RECORD_WHOLE;
    }
    return json_no_text(w, piece);
}

/* ---- WikiExtractor: <doc id="12" url="..." title="..."> ... </doc> ---- */

/* WikiExtractor does not escape quotes in a title, so the value ends at the quote that is followed by
 * another attribute or by the end of the tag. */
static JsonText attribute(JsonText tag, const char *name)
{
    char   begin[16];
    size_t length = (size_t)snprintf(begin, sizeof begin, " %s=\"", name);
    const char *from = memmem(tag.text, (size_t)tag.bytes, begin, length), *stop = tag.text + tag.bytes;
    if (!from) return (JsonText){ 0 };
    from += length;
    for (const char *end = from; end < stop && (end = memchr(end, '"', (size_t)(stop - end))); end++) {
        const char *after = end + 1;
        if (after == stop) return (JsonText){ from, end - from };
        if (*after++ != ' ') continue;
        while (after < stop && *after >= 'a' && *after <= 'z') after++;
        if (stop - after >= 2 && after[0] == '=' && after[1] == '"') return (JsonText){ from, end - from };
    }
    return (JsonText){ 0 };
}

/* The text is what is between the first line and the last; both must be the tags. */
static RecordStep doc_record(RecordWalk *w, Line piece, Record *record)
{
    static const char begin[] = "<doc ", end[] = "</doc>";
    char *text = piece.text, *stop = text + piece.bytes;
    while (text < stop && strchr(" \t\r\n", *text)) text++;
    if (stop - text < 5 || memcmp(text, begin, 5) != 0)
        return fault(w, RECORD_BROKEN, piece, "no <doc ...> before the text");
    char *line = memchr(text, '\n', (size_t)(stop - text)),
         *last = memrchr(text, '\n', (size_t)(stop - text));
    if (!line || stop - last < 7 || memcmp(last + 1, end, 6) != 0)
        return fault(w, RECORD_BROKEN, piece, "<doc ...> has no </doc>");
    char *close = memrchr(text, '>', (size_t)(line - text));
    if (!close) return fault(w, RECORD_BROKEN, piece, "<doc has no > on its line");
    JsonText tag = { text, close - text };
    record->id    = attribute(tag, "id");
    record->url   = attribute(tag, "url");
    record->title = attribute(tag, "title");
    record->text  = line + 1;
    record->bytes = last > line ? last - (line + 1) : 0;
    return RECORD_WHOLE;
}

/* ---- MediaWiki ---- */

/* An item of the block begins after the page before, or with the head of the dump, so the page itself
 * begins some lines further on. Lines are counted only for the first page of an item: what precedes a
 * later page has been decoded, which can change its newlines. */
static void page_line(RecordWalk *w, const WikiPage *page)
{
    const char *at = w->piece.text, *stop = at + page->at;
    if (w->at) return;
    for (; at < stop && (at = memchr(at, '\n', (size_t)(stop - at))); at++) w->piece.number++;
}

/* END: no wanted page begins in the rest of the item. */
static RecordStep page_record(RecordWalk *w, Record *record)
{
    WikiPage    page;
    const char *why;
    Line        piece = w->piece;
    for (int64_t at = w->at; wiki_page_next(piece.text, piece.bytes, &at, &page, &why); ) {
        page_line(w, &page);
        w->at        = at;
        piece.number = record->line = w->piece.number;
        if (why) return fault(w, RECORD_BROKEN, piece, "a broken page: %s", why);
        bool wanted = page.wikitext && !page.redirect && (page.ns == 0 || w->plan->all_pages);
        w->skipped_pages += !wanted;
        if (!wanted) continue;
        record->text  = piece.text + (page.text.text - piece.text);
        record->bytes = page.text.bytes;
        record->id    = page.id;
        record->title = page.title;
        record->markup = MARKUP_WIKI;
        return RECORD_WHOLE;
    }
    return RECORD_END;
}

/* ---- all formats ---- */

/* Checks the item before it is parsed; with `repair`, *piece becomes a repaired copy in the buffer. */
static RecordStep item_check(RecordWalk *w, Line *piece)
{
    if (piece->bytes > w->plan->bytes_most) return fault_long(w, *piece);
    int64_t at = utf8_broken(piece->text, piece->bytes);
    if (at < 0) return RECORD_WHOLE;
    if (!w->plan->repair) return fault_bytes(w, *piece, piece->text, at);
    w->buffer->bytes = 0;
    if (utf8_repair(w->buffer, piece->text, piece->bytes) != OK)
        return fault(w, RECORD_NO_MEMORY, *piece, "%s", fail_text());
    w->repaired_now = true;
    *piece = (Line){ w->buffer->text, w->buffer->bytes, piece->number };
    return RECORD_WHOLE;
}

static RecordStep item_record(RecordWalk *w, Record *record)
{
    Line piece = w->piece;
    *record = (Record){ .text = piece.text, .bytes = piece.bytes, .line = piece.number };
    switch (w->block->kind) {
    case BLOCK_JSON:  return json_record(w, piece, record);
    case BLOCK_DOCS:  return doc_record(w, piece, record);
    case BLOCK_PAGES: return page_record(w, record);
    case BLOCK_FILES: record->markup = format_markup(w->name); return RECORD_WHOLE;
    default:          return RECORD_WHOLE;
    }
}

/* Escapes and entities can denote what the item itself does not have: NUL, or a surrogate. */
static RecordStep record_check(RecordWalk *w, const Record *record)
{
    bool    escapes = w->block->kind == BLOCK_JSON || w->block->kind == BLOCK_PAGES;
    int64_t at = escapes ? utf8_broken(record->text, record->bytes) : -1;
    if (at >= 0) return fault_bytes(w, w->piece, record->text, at);
    w->repaired += w->repaired_now;
    return RECORD_WHOLE;
}

/* A block that is one skipped document: one fault, then the end. w->piece remembers that it was reported. */
static RecordStep skipped_fault(RecordWalk *w)
{
    Line piece    = { NULL, w->block->skipped, w->block->line };
    bool reported = w->piece.number != 0;
    w->piece      = piece;
    return reported ? RECORD_END : fault_long(w, piece);
}

RecordStep record_next(RecordWalk *w, Record *record)
{
    if (w->block->skipped) return skipped_fault(w);
    RecordStep step = w->block->kind == BLOCK_PAGES && w->piece.text ? item_record(w, record) : RECORD_END;
    while (step == RECORD_END && block_next(w->block, &w->piece)) {
        w->at = 0;
        w->repaired_now = false;
        step = item_check(w, &w->piece);
        if (step == RECORD_FAULT) w->at = w->piece.bytes;       /* no page of it is read */
        else step = item_record(w, record);
    }
    return step == RECORD_WHOLE ? record_check(w, record) : step;
}

/* The list is JSON text, so a warning is searched with its quotes. */
bool record_warned(const Record *record, const char *warning)
{
    char quoted[64];
    int  length = snprintf(quoted, sizeof quoted, "\"%s\"", warning);
    const char *list = record->warnings.text;
    return list && length < (int)sizeof quoted &&
           memmem(list, (size_t)record->warnings.bytes, quoted, (size_t)length);
}
