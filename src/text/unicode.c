/* The general case of UTF-8: characters of two to four bytes, and bytes that are no character. */
#include "text/unicode.h"

static int has_continuations(const uint8_t *p, int count)
{
    int good = 1;
    for (int i = 1; i <= count; i++) good &= (p[i] & 0xC0) == 0x80;
    return good;
}

Rune rune_wide(const uint8_t *p, int64_t left)
{
    const Rune broken = { RUNE_BROKEN, 1, 0 };
    int      following = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
    uint32_t low[] = { 0, 0x80, 0x800, 0x10000 };
    if (*p < 0xC2 || *p > 0xF4 || left <= following || !has_continuations(p, following)) return broken;
    uint32_t point = *p & (0x3Fu >> following);
    for (int i = 1; i <= following; i++) point = point << 6 | (p[i] & 0x3F);
    if (point < low[following] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return broken;
    return (Rune){ point, following + 1, unicode_class(point) };
}

int rune_write(uint8_t out[4], uint32_t point)
{
    int following = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    const uint8_t lead[] = { 0, 0xC0, 0xE0, 0xF0 };
    for (int i = following; i > 0; i--, point >>= 6) out[i] = (uint8_t)(0x80 | (point & 0x3F));
    out[0] = (uint8_t)(lead[following] | point);
    return following + 1;
}
