/* The general case of UTF-8: characters of two to four bytes, and bytes that are no character. */
#include "text/unicode.h"

Rune rune_wide(const uint8_t *p, int64_t left)
{
    Rune r;
    r.bytes = utf8_decode_wide(&r.point, p, left);
    r.kind  = unicode_class(r.point);                   /* 0 of what is no character */
    return r;
}
