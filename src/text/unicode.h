#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H
/* The class of a character, from one table of two stages (tests/oracles/unicode_table.py writes it), and UTF-8 that may
 * be broken: a byte which begins no character is one of class 0 and length 1, so nothing is ever lost.             */
#include <stdint.h>

enum {
    LETTER = 1,                         /* L: Lu Ll Lt Lm Lo */
    UPPER  = 2, LOWER = 4,              /* Lu Lt; Ll; Lm, Lo and marks are both */
    NUMBER = 8,                         /* N: Nd Nl No */
    SPACE  = 16,                        /* White_Space */
    SYMBOL = 32,                        /* P and S, punctuation and symbols: in the table, in no Rune's kind */
    LATIN_END = 0x300                   /* below it: no marks, and nothing that NFC changes */
};

extern const char    unicode_version[];
extern const uint8_t unicode_page[];
extern const int     unicode_pages;
extern const char    unicode_row[][256];

typedef struct { uint32_t point; int bytes, kind; } Rune;    /* kind: the class; point of a broken byte is RUNE_BROKEN */
#define RUNE_BROKEN UINT32_MAX

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

/* The character at p, of at most `left` >= 1 bytes: shortest forms only, no surrogates */
Rune rune_wide(const uint8_t *p, int64_t left);
static inline Rune rune_at(const uint8_t *p, int64_t left)
{
    if (*p < 0x80) return (Rune){ *p, 1, unicode_row[0][*p] & 31 };
    return rune_wide(p, left);
}
int rune_write(uint8_t out[4], uint32_t point);              /* bytes written */
#endif
