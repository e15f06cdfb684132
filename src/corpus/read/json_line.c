/* A recursive grammar read without recursion: the open brackets are bits of a fixed array, so that nesting
 * costs no stack and a hostile line cannot exhaust it. One pass over the line checks everything and
 * reports each member of an object to a callback, which remembers where the wanted values are; only those
 * are decoded afterwards, so a fault never leaves a line half changed. */
#include "corpus/read/json_line.h"

#include <string.h>
#include "base/bytes16.h"
#include "base/message.h"
#include "base/utf8.h"
#include "corpus/read/encoding.h"

/* Bytes at the beginning of `text`, none of them a quote, a backslash or a control character. It may stop
 * early, but never late: the caller examines the next one. */
static int64_t plain_run(const char *text, int64_t bytes)
{
    int64_t at = 0;
    for (; bytes - at >= 16; at += 16) {
        Bytes16  v = bytes16_at(text + at);
        uint32_t special = bytes16_bits((v == '"') | (v == '\\') | (v < 0x20));
        if (special) return at + __builtin_ctz(special);
    }
    return at;
}

/* ---- a line ---- */

typedef struct {
    const char *line;
    int64_t     at, bytes;
    const char *why;                            /* the first fault; reading stops at it. NULL: none */
    uint8_t     object[JSON_DEPTH_MOST / 8];    /* one bit for each open bracket: 1 for a brace */
    int         depth;                          /* open brackets */
} JsonScan;

static bool scan_fault(JsonScan *s, const char *why)
{
    if (!s->why) s->why = why;
    return false;
}

static int scan_peek(const JsonScan *s) { return s->at < s->bytes ? (unsigned char)s->line[s->at] : -1; }

static void scan_space(JsonScan *s)
{
    while (s->at < s->bytes) {
        char c = s->line[s->at];
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
        s->at++;
    }
}

/* ---- strings ---- */

static int hex_value(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of four hexadecimal digits; -1 where they are not all there. */
static int hex_quad(const char *p, int64_t left)
{
    int value = 0;
    if (left < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value((unsigned char)p[i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high_surrogate(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
static bool is_low_surrogate (int unit) { return unit >= 0xDC00 && unit < 0xE000; }

/* After \u: four digits, of which a high surrogate must be followed by the \u of a low one (RFC 8259,
 * section 7). */
static bool scan_unicode(JsonScan *s)
{
    int unit = hex_quad(s->line + s->at, s->bytes - s->at);
    if (unit < 0) return scan_fault(s, "\\u needs four hexadecimal digits");
    if (is_low_surrogate(unit)) return scan_fault(s, "half a surrogate pair");
    if (is_high_surrogate(unit)) {
        const char *p = s->line + s->at + 4;
        bool pair = s->bytes - s->at >= 10 && p[0] == '\\' && p[1] == 'u' &&
                    is_low_surrogate(hex_quad(p + 2, 4));
        if (!pair) return scan_fault(s, "half a surrogate pair");
        s->at += 6;
    }
    s->at += 4;
    return true;
}

/* At a backslash. c is 0 for a NUL in the line, which strchr would find at the end of its list. */
static bool scan_escape(JsonScan *s)
{
    int c = (s->at++, scan_peek(s));
    if (c <= 0 || !strchr("\"\\/bfnrtu", c)) return scan_fault(s, "no such escape");
    s->at++;
    return c != 'u' || scan_unicode(s);
}

/* From the opening quote past the closing one. *span is what is between them. */
static bool scan_string(JsonScan *s, JsonSpan *span)
{
    bool escaped = false;
    int64_t begin = ++s->at;
    for (;;) {
        s->at += plain_run(s->line + s->at, s->bytes - s->at);
        int c = scan_peek(s);
        if (c == '"') break;
        if (c < 0)    return scan_fault(s, "a text without its closing quote");
        if (c < 0x20) return scan_fault(s, "a control character in a text, which must be escaped");
        if (c == '\\') {
            escaped = true;
            if (!scan_escape(s)) return false;
        } else {
            s->at++;
        }
    }
    *span = (JsonSpan){ begin, s->at - begin, true, true, escaped };
    s->at++;
    return true;
}

/* ---- decoding; the span was scanned before ---- */

/* Writes the character of the escape at *from, a backslash, and moves *from after it. Returns where the
 * next byte is written. */
static char *escape_put(char *to, const char **from)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = (*from)[1];
    *from += 2;
    if (c != 'u') {
        *to = values[strchr(names, c) - names];
        return to + 1;
    }
    int unit = hex_quad(*from, 4);
    *from += 4;
    if (is_high_surrogate(unit)) {
        unit = 0x10000 + ((unit - 0xD800) << 10) + (hex_quad(*from + 2, 4) - 0xDC00);
        *from += 6;
    }
    return to + utf8_encode((uint8_t *)to, (uint32_t)unit);
}

/* Decodes in place, since no escape is shorter than the UTF-8 that it denotes. */
static int64_t text_decode(char *text, int64_t bytes)
{
    const char *from = text, *end = text + bytes;
    char *to = text;
    for (;;) {
        const char *slash = memchr(from, '\\', (size_t)(end - from));
        size_t plain = (size_t)((slash ? slash : end) - from);
        memmove(to, from, plain);
        to += plain;
        if (!slash) return to - text;
        from = slash;
        to = escape_put(to, &from);
    }
}

/* Is the name in the span equal to key? It may be written with escapes, and those are decoded one at a
 * time here, since the line must not change before it is known to be valid. */
static bool name_is(const JsonScan *s, JsonSpan name, const char *key, size_t length)
{
    if (!name.escaped) return (size_t)name.bytes == length && !memcmp(s->line + name.at, key, length);
    const char *from = s->line + name.at, *end = from + name.bytes;
    while (from < end) {
        char piece[4], *stop = piece;
        if (*from == '\\') stop = escape_put(piece, &from);
        else               *stop++ = *from++;
        size_t bytes = (size_t)(stop - piece);
        if (bytes > length || memcmp(piece, key, bytes) != 0) return false;
        key    += bytes;
        length -= bytes;
    }
    return length == 0;
}

/* Keys are compared as C strings, so a key with \u0000 could match a key that it is not. The second byte
 * of each escape is skipped, so that an escaped backslash before u0000 is not taken for it. */
static bool name_has_zero(const JsonScan *s, JsonSpan name)
{
    for (int64_t i = name.at; name.escaped && i + 6 <= name.at + name.bytes; i++) {
        if (s->line[i] != '\\') continue;
        if (!memcmp(s->line + i, "\\u0000", 6)) return true;
        i++;
    }
    return false;
}

/* ---- values ---- */

static bool scan_digits(JsonScan *s)
{
    int64_t begin = s->at;
    while (s->at < s->bytes && s->line[s->at] >= '0' && s->line[s->at] <= '9') s->at++;
    return s->at > begin || scan_fault(s, "a digit is missing");
}

static bool scan_word(JsonScan *s, const char *word)
{
    int64_t length = (int64_t)strlen(word);
    if (s->bytes - s->at < length || memcmp(s->line + s->at, word, (size_t)length) != 0)
        return scan_fault(s, "no value");
    s->at += length;
    return true;
}

/* RFC 8259, section 6: no plus sign, no leading zero, digits on both sides of the point. The value is not
 * computed, so its size does not matter. -Infinity is Python's, see scan_value. */
static bool scan_number(JsonScan *s)
{
    if (scan_peek(s) == '-') s->at++;
    if (scan_peek(s) == 'I') return scan_word(s, "Infinity");
    int64_t begin = s->at;
    if (!scan_digits(s)) return false;
    if (s->line[begin] == '0' && s->at > begin + 1) return scan_fault(s, "a number that begins with 0");
    if (scan_peek(s) == '.' && (s->at++, !scan_digits(s))) return false;
    if (scan_peek(s) != 'e' && scan_peek(s) != 'E') return true;
    s->at++;
    if (scan_peek(s) == '+' || scan_peek(s) == '-') s->at++;
    return scan_digits(s);
}

/* Brackets are noted, not descended into: scan_line continues inside them. */
static bool scan_open(JsonScan *s)
{
    bool brace = s->line[s->at++] == '{';
    uint8_t *bits = &s->object[s->depth / 8], bit = (uint8_t)(1 << s->depth % 8);
    *bits = (uint8_t)(brace ? *bits | bit : *bits & ~bit);
    s->depth++;
    return true;
}

static bool scan_in_object(const JsonScan *s)
{
    return s->object[(s->depth - 1) / 8] >> (s->depth - 1) % 8 & 1;
}

/* Reads a number, string or literal to its end, and of an object or array only the opening bracket. NaN,
 * Infinity and -Infinity, which JSON does not have, are what Python's json writes for such numbers. */
static bool scan_value(JsonScan *s, JsonSpan *text)
{
    int c = scan_peek(s);
    if (s->depth >= JSON_DEPTH_MOST) return scan_fault(s, "brackets nested more than 2048 deep");
    switch (c) {
    case '"':           return scan_string(s, text);
    case '{': case '[': return scan_open(s);
    case 't':           return scan_word(s, "true");
    case 'f':           return scan_word(s, "false");
    case 'n':           return scan_word(s, "null");
    case 'N':           return scan_word(s, "NaN");
    case 'I':           return scan_word(s, "Infinity");
    }
    return c == '-' || (c >= '0' && c <= '9') ? scan_number(s)
                                              : scan_fault(s, c < 0 ? "the line is cut" : "no value");
}

/* Called for each member of an object. value: of an object or array only the bracket. depth: 1 for the
 * outermost. */
typedef void MemberFound(void *context, const JsonScan *s, JsonSpan name, JsonSpan value, int depth);

/* A name, a colon and a value. For the callback a value that is no string is the bytes that were read. */
static bool scan_member(JsonScan *s, MemberFound *found, void *context)
{
    JsonSpan name, text = { .found = true };
    if (scan_peek(s) != '"') return scan_fault(s, "a name in quotes is missing");
    if (!scan_string(s, &name)) return false;
    if (name_has_zero(s, name)) return scan_fault(s, "a name with \\u0000 in it");
    scan_space(s);
    if (scan_peek(s) != ':') return scan_fault(s, "a colon is missing");
    s->at++;
    scan_space(s);
    int depth = s->depth;
    int64_t begin = s->at;
    if (!scan_value(s, &text)) return false;
    if (!text.text) text.at = begin, text.bytes = s->at - begin;
    found(context, s, name, text, depth);
    return true;
}

/* After an opening bracket or a comma: the closing bracket where it may follow, or the next item. */
static bool scan_item(JsonScan *s, bool may_close, MemberFound *found, void *context)
{
    JsonSpan any;
    bool object = scan_in_object(s);
    scan_space(s);
    if (may_close && scan_peek(s) == (object ? '}' : ']')) {
        s->at++;
        s->depth--;
        return true;
    }
    return object ? scan_member(s, found, context) : scan_value(s, &any);
}

/* After a value: all brackets that close here, and then a comma or the end of the line. */
static bool scan_between(JsonScan *s)
{
    for (scan_space(s); s->depth; scan_space(s)) {
        int c = scan_peek(s);
        if (c == ',') {
            s->at++;
            return true;
        }
        if (c != (scan_in_object(s) ? '}' : ']'))
            return scan_fault(s, c < 0 ? "the line is cut" : "a comma or a closing bracket is missing");
        s->at++;
        s->depth--;
    }
    return true;
}

/* `fresh` is true after an opening bracket, the only place where an item may be missing; after a comma it
 * may not. */
static void scan_line(JsonScan *s, MemberFound *found, void *context)
{
    scan_space(s);
    if (scan_peek(s) != '{') {
        scan_fault(s, "not an object in braces, as {\"text\": \"...\"}");
        return;
    }
    bool good = scan_open(s);
    for (bool fresh = true; good && s->depth; ) {
        int before = s->depth;
        good  = scan_item(s, fresh, found, context);
        fresh = good && s->depth > before;              /* a bracket was opened */
        if (good && !fresh) good = scan_between(s);
    }
    if (good && s->at < s->bytes) scan_fault(s, "there is more after the object");
}

/* ---- the values of keys ---- */

/* depth[i]: how many objects with matching names are open, plus 1: the level at which the next part of
 * path i is searched. */
typedef struct { const JsonPath *path; int paths, depth[JSON_PATHS_MOST]; JsonSpan *span; } WantedPaths;

/* Later members overwrite earlier ones, so the last of a repeated key counts. */
static void paths_found(void *context, const JsonScan *s, JsonSpan name, JsonSpan value, int depth)
{
    WantedPaths *p = context;
    for (int i = 0; i < p->paths; i++) {
        if (p->depth[i] > depth) p->depth[i] = depth;               /* the matching object has ended */
        if (p->depth[i] != depth || depth > p->path[i].parts) continue;
        JsonText part = p->path[i].part[depth - 1];
        if (!name_is(s, name, part.text, (size_t)part.bytes)) continue;
        if (depth == p->path[i].parts) p->span[i] = value;
        else if (s->line[value.at] == '{' && !value.text) p->depth[i]++;
    }
}

/* Dots after the last possible part belong to that part, so every key is accepted. */
JsonPath json_path(const char *key)
{
    JsonPath path = { 0 };
    while (path.parts < JSON_PARTS_MOST) {
        const char *dot = path.parts < JSON_PARTS_MOST - 1 ? strchr(key, '.') : NULL;
        size_t bytes = dot ? (size_t)(dot - key) : strlen(key);
        path.part[path.parts++] = (JsonText){ key, (int64_t)bytes };
        if (!dot) break;
        key = dot + 1;
    }
    return path;
}

JsonFault json_line_paths(JsonSpan *span, const JsonPath *path, int paths, const char *line, int64_t bytes)
{
    JsonScan  s = { .line = line, .bytes = bytes };
    WantedPaths p = { .path = path, .paths = paths, .span = span };
    for (int i = 0; i < paths; i++) {
        p.depth[i] = 1;
        span[i]    = (JsonSpan){ 0 };
    }
    scan_line(&s, paths_found, &p);
    return s.why ? (JsonFault){ s.why, s.at, -1 } : (JsonFault){ .key = -1 };
}

JsonText json_span_text(char *line, JsonSpan span)
{
    char *at = line + span.at;
    return (JsonText){ at, span.escaped ? text_decode(at, span.bytes) : span.bytes };
}

JsonFault json_line_texts(JsonText *text, const char *const *key, int keys, char *line, int64_t bytes)
{
    JsonPath path[JSON_KEYS_MOST] = { 0 };
    JsonSpan span[JSON_KEYS_MOST];
    int64_t  broken = text_not_utf8(line, bytes);
    if (broken >= 0) return (JsonFault){ "not UTF-8", broken, -1 };
    for (int i = 0; i < keys; i++)
        path[i] = (JsonPath){ .part = { { key[i], (int64_t)strlen(key[i]) } }, .parts = 1 };
    JsonFault fault = json_line_paths(span, path, keys, line, bytes);
    if (fault.why) return fault;
    for (int i = 0; i < keys; i++) {
        if (!span[i].found) return (JsonFault){ "the key is missing", 0, i };
        if (!span[i].text)  return (JsonFault){ "the value of the key is not a string", span[i].at, i };
    }
    for (int i = 0; i < keys; i++) text[i] = json_span_text(line, span[i]);
    return (JsonFault){ 0 };
}

typedef struct { char *out; size_t size; } NameList;

/* Names are cut to 40 bytes and the list to the size of `out`: it is part of an error message. */
static void names_found(void *context, const JsonScan *s, JsonSpan name, JsonSpan text, int depth)
{
    const NameList *n = context;
    int bytes = name.bytes < 40 ? (int)name.bytes : 40;
    (void)text;
    if (depth == 1) message_item(n->out, n->size, ", ", "\"%.*s\"", bytes, s->line + name.at);
}

void json_line_names(char *out, size_t size, const char *line, int64_t bytes)
{
    JsonScan s = { .line = line, .bytes = bytes };
    NameList n = { out, size };
    *out = 0;
    scan_line(&s, names_found, &n);
}
