#include "text/bpe_train_split.h"
#include <stdbool.h>
#include <utf8proc.h>

enum { OTHER, LETTER, NUMBER, SPACE };

/* \s is White_Space */
static int white(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

static uint8_t kind_find(uint32_t c)
{
    if (white(c)) return SPACE;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return LETTER;
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO ? NUMBER : OTHER;
}

void gpt2_splitter_fill(Gpt2Splitter *s)
{
    for (uint32_t c = 0; c < 65536; c++) s->kind[c] = kind_find(c);
}

typedef struct { int64_t bytes; int kind; } Character;

/* A byte that is no UTF-8 is a character of its own. */
static Character character_wide(const Gpt2Splitter *s, const unsigned char *t, int64_t bytes)
{
    int64_t n = t[0] < 0xC2 ? 1 : t[0] < 0xE0 ? 2 : t[0] < 0xF0 ? 3 : t[0] < 0xF5 ? 4 : 1;
    uint32_t c = t[0] & (0x7F >> n);
    if (n == 1 || n > bytes) return (Character){ 1, OTHER };
    for (int64_t i = 1; i < n; i++) {
        if ((t[i] & 0xC0) != 0x80) return (Character){ 1, OTHER };
        c = c << 6 | (t[i] & 0x3F);
    }
    if ((n == 3 && (c < 0x800 || (c & 0xF800) == 0xD800)) || (n == 4 && (c < 0x10000 || c > 0x10FFFF)))
        return (Character){ 1, OTHER };
    return (Character){ n, c < 65536 ? s->kind[c] : kind_find(c) };
}

static inline Character character_at(const Gpt2Splitter *s, const char *text, int64_t bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    return t[0] < 0x80 ? (Character){ 1, s->kind[t[0]] } : character_wide(s, t, bytes);
}

static int64_t contraction(const char *t, int64_t bytes)
{
    if (bytes < 2) return 0;
    if (t[1] == 's' || t[1] == 't' || t[1] == 'm' || t[1] == 'd') return 2;
    if (bytes < 3) return 0;
    bool letters = (t[1] == 'r' && t[2] == 'e') || (t[1] == 'v' && t[2] == 'e') || (t[1] == 'l' && t[2] == 'l');
    return letters ? 3 : 0;
}

int64_t gpt2_word(const void *splitter, const char *text, int64_t bytes)
{
    const Gpt2Splitter *s = splitter;
    int64_t short_form = text[0] == '\'' ? contraction(text, bytes) : 0;
    if (short_form) return short_form;
    Character first = character_at(s, text, bytes), c = first;
    int64_t at = 0;
    if (text[0] == ' ' && bytes > 1) { /* goes with what follows, if that is no space */
        Character next = character_at(s, text + 1, bytes - 1);
        if (next.kind != SPACE) first = next, at = 1, c = next;
    }
    int64_t last = at; /* where the last character of the run begins */
    while (c.kind == first.kind) {
        last = at;
        at  += c.bytes;
        if (at >= bytes) return bytes;
        c = character_at(s, text + at, bytes - at);
    }
    return first.kind == SPACE && last > 0 ? last : at; /* the last space is the next word's */
}
