#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/* UTF-8 as RFC 3629 defines it: only the shortest encoding of a code point is valid, and surrogates are
 * not. */
#include <stdint.h>
#include "base/buffer.h"

#define UTF8_BROKEN UINT32_MAX

static inline int utf8_has_continuations(const uint8_t *p, int count)
{
    int good = 1;
    for (int i = 1; i <= count; i++) good &= (p[i] & 0xC0) == 0x80;
    return good;
}

/* The general case of utf8_decode: characters of two to four bytes, and bytes that are no character. */
static inline int utf8_decode_wide(uint32_t *point, const uint8_t *p, int64_t left)
{
    int      following = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
    uint32_t low[] = { 0, 0x80, 0x800, 0x10000 };
    *point = UTF8_BROKEN;
    if (*p < 0xC2 || *p > 0xF4 || left <= following || !utf8_has_continuations(p, following)) return 1;
    uint32_t whole = *p & (0x3Fu >> following);
    for (int i = 1; i <= following; i++) whole = whole << 6 | (p[i] & 0x3F);
    if (whole < low[following] || whole > 0x10FFFF || (whole >= 0xD800 && whole < 0xE000)) return 1;
    *point = whole;
    return following + 1;
}

/* The character at p, of which at most `left` >= 1 bytes are read. Returns its length, 1 to 4. A byte that
 * begins no valid character is UTF8_BROKEN and has length 1, so that a caller who advances visits every byte
 * once. */
static inline int utf8_decode(uint32_t *point, const uint8_t *p, int64_t left)
{
    if (*p >= 0x80) return utf8_decode_wide(point, p, left);
    *point = *p;
    return 1;
}
/* Writes a valid code point and returns its length, 1 to 4. */
int utf8_encode(uint8_t out[4], uint32_t point);

/* ---- texts, which must be UTF-8 without NUL ---- */
int64_t utf8_broken(const char *text, int64_t bytes);  /* first byte that is invalid or NUL; -1: none */
/* Appends the text with each such byte replaced by U+FFFD; fails only with NO_MEMORY. */
Status  utf8_repair(Buffer *out, const char *text, int64_t bytes);
#endif
