/* The parts of a buffer that are not a copy of bytes: growing, formatting, escaping. */
#include "base/buffer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/array.h"
#include "base/utf8.h"

/* Smaller than most documents: below it, growing would cost more calls than it saves memory. */
enum { CAPACITY_LEAST = 4096 };

Status buffer_grow(Buffer *b, int64_t more)
{
    int64_t wanted;
    if (more < 0 || __builtin_add_overflow(b->bytes, more, &wanted))
        return fail(NO_MEMORY, "no memory for a text of %" PRId64 " bytes more", more);
    if (wanted < CAPACITY_LEAST * 2 / 3) wanted = CAPACITY_LEAST * 2 / 3;
    return ARRAY_RESERVE(b->text, b->capacity, wanted);
}

/* Into the memory that is there; only a text that does not fit is formatted twice. */
Status buffer_format(Buffer *b, const char *format, ...)
{
    for (int64_t left = b->capacity - b->bytes;; left = b->capacity - b->bytes) {
        va_list arguments;
        va_start(arguments, format);
        int bytes = vsnprintf(left ? b->text + b->bytes : NULL, (size_t)left, format, arguments);
        va_end(arguments);
        CHECK(bytes >= 0, "%s cannot be formatted", format);
        if (bytes < left) return b->bytes += bytes, OK;
        TRY(buffer_reserve(b, (int64_t)bytes + 1));
    }
}

Status buffer_add_number(Buffer *b, uint64_t number, int count)
{
    TRY(buffer_reserve(b, count));
    for (int i = 0; i < count; i++) b->text[b->bytes++] = (char)(number >> 8 * i & 0xff);
    return OK;
}

/* What a character is replaced by; NULL: it stays. Broken bytes, U+FFFE and U+FFFF (which XML forbids), and
 * the control characters C1, which a terminal would obey, become U+FFFD; those of ASCII become a picture of
 * themselves. */
static const char *html_reference(char picture[4], uint32_t point)
{
    switch (point) {
    case '&':  return "&amp;";
    case '<':  return "&lt;";
    case '>':  return "&gt;";
    case '"':  return "&quot;";
    case '\'': return "&#39;";
    case '\t': case '\n': return NULL;
    }
    if (point >= 0xfffe && (point <= 0xffff || point == UTF8_BROKEN)) return "\xef\xbf\xbd";
    if (point >= 0x80 && point < 0xa0) return "\xef\xbf\xbd";
    if (point >= ' ' && point != 0x7f) return NULL;
    snprintf(picture, 4, "\xe2\x90%c", point == 0x7f ? 0xa1 : 0x80 + (int)point);
    return picture;
}

Status buffer_add_html(Buffer *b, const char *text, int64_t bytes)
{
    char     picture[4];
    uint32_t point;
    for (int64_t at = 0; at < bytes;) {
        int whole = utf8_decode(&point, (const uint8_t *)text + at, bytes - at);
        const char *reference = html_reference(picture, point);
        TRY(reference ? buffer_add_text(b, reference) : buffer_add(b, text + at, whole));
        at += whole;
    }
    return OK;
}

const char *buffer_string(Buffer *b)
{
    if (buffer_reserve(b, 1) != OK) return NULL;
    b->text[b->bytes] = 0;
    return b->text;
}

void buffer_free(Buffer *b)
{
    free(b->text);
    *b = (Buffer){ 0 };
}
