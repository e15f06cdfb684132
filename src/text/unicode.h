#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H
/* Character classes and a UTF-8 decoder that never fails. The classes come from a two-stage table, which
 * tests/oracles/unicode_table.py generates from the Unicode character database. A byte that begins no valid
 * character decodes to a character of class 0 and length 1, so a caller that advances by `bytes` visits every
 * byte once. */
#include <stdint.h>
#include "base/utf8.h"

/* Bits of a class; the letters in comments are Unicode's general categories. */
enum {
    LETTER = 1,                         /* L: Lu Ll Lt Lm Lo */
    UPPER  = 2, LOWER = 4,              /* Lu Lt; Ll. Lm, Lo and marks have both bits */
    NUMBER = 8,                         /* N: Nd Nl No */
    SPACE  = 16,                        /* the property White_Space */
    SYMBOL = 32,                        /* P and S, punctuation and symbols; only unicode_is_symbol reports
                                         * it */
    LATIN_END = 0x300                   /* the first combining mark; NFC changes no character below it */
};

extern const char    unicode_version[];             /* of the tables, "16.0.0" */
extern const uint8_t unicode_page[];                /* [code point >> 8]: index of a row */
extern const int     unicode_pages;
extern const char    unicode_row[][256];            /* [row][code point & 255]: the class */

/* point: the code point, or RUNE_BROKEN; bytes: 1 to 4; kind: the class without SYMBOL */
typedef struct { uint32_t point; int bytes, kind; } Rune;
#define RUNE_BROKEN UTF8_BROKEN

static inline int unicode_class(uint32_t point)
{
    uint32_t page = point >> 8;
    return page < (uint32_t)unicode_pages ? unicode_row[unicode_page[page]][point & 255] & 31 : 0;
}

static inline int unicode_is_symbol(uint32_t point)
{
    uint32_t page = point >> 8;
    return page < (uint32_t)unicode_pages && unicode_row[unicode_page[page]][point & 255] & SYMBOL;
}

/* The character at p, of which at most `left` >= 1 bytes are read (base/utf8.h). rune_at handles ASCII
 * inline, rune_wide all other characters. */
Rune rune_wide(const uint8_t *p, int64_t left);
static inline Rune rune_at(const uint8_t *p, int64_t left)
{
    if (*p < 0x80) return (Rune){ *p, 1, unicode_row[0][*p] & 31 };
    return rune_wide(p, left);
}
#endif
