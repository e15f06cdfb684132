/* Bit masks of a text, made 16 bytes at a time. Words, lengths in characters
 * and letters are then counted on masks, 64 characters at a time. Only characters outside ASCII and the
 * Latin and Cyrillic letters of letters.h are looked up singly. */
#include <stdlib.h>
#include "base/bytes16.h"
#include "corpus/quality/quality_internal.h"
#include "text/pretokenize/letters.h"
#include "text/unicode.h"

/* The classes of 16 bytes, one bit each. lookup: begins a character whose class must be looked up;
 * ellipsis: 0xE2, the first byte of U+2026. */
typedef struct { uint32_t space, start, letter, digit, lookup, hash, line, dot, ellipsis; } ByteClasses;

static ByteClasses classify_16(const uint8_t *p)
{
    Bytes16  v = bytes16_at(p);
    uint32_t letter = letters_of(p), start = bytes16_bits((v & 0xC0) != 0x80);
    return (ByteClasses){
        .letter   = letter,
        .start    = start,
        .lookup   = bytes16_bits(v >= 0xC0) & ~letter,
        .space    = bytes16_bits((v == ' ') | ((v - '\t') < 5)),
        .digit    = bytes16_bits((v - '0') < 10),
        .hash     = bytes16_bits(v == '#'),
        .line     = bytes16_bits(v == '\n'),
        .dot      = bytes16_bits(v == '.'),
        .ellipsis = bytes16_bits(v == 0xE2),
    };
}

typedef struct { uint64_t space, start, letter, alnum, dot; } MaskChunk;

/* A character that has to be looked up, whose first byte is byte `at` of the chunk: sets the bits of all
 * its bytes that are in the chunk. */
static void lookup_put(MaskChunk *c, const uint8_t *p, int at, int64_t left)
{
    Rune     r    = rune_at(p, left);
    uint64_t bits = (((uint64_t)1 << r.bytes) - 1) << at;
    if (r.kind & SPACE)             c->space  |= bits;
    if (r.kind & LETTER)            c->letter |= bits;
    if (r.kind & (LETTER | NUMBER)) c->alnum  |= bits;
}

/* The masks of 64 bytes at p. At the end of the text p is a copy filled up with spaces, and `in_text` is
 * the text itself, of which `left` bytes remain, so that a character cut off by the end is read as it is
 * there. */
static MaskChunk chunk_make(CharMasks *m, const uint8_t *p, const uint8_t *in_text, int64_t left)
{
    MaskChunk c = { 0 };
    for (int i = 0; i < 64; i += 16) {
        ByteClasses b = classify_16(p + i);
        c.space  |= (uint64_t)b.space << i;
        c.start  |= (uint64_t)b.start << i;
        c.letter |= (uint64_t)b.letter << i;
        c.alnum  |= (uint64_t)(b.letter | b.digit) << i;
        c.dot    |= (uint64_t)b.dot << i;
        m->hashes    += b.hash ? bits_set(b.hash) : 0;
        m->new_lines += b.line ? bits_set(b.line) : 0;
        m->ellipses  |= b.ellipsis != 0;
        for (uint32_t bits = b.lookup; bits; bits &= bits - 1) {
            int at = i + __builtin_ctz(bits);
            lookup_put(&c, in_text + at, at, left - at);
        }
    }
    return c;
}

static Status masks_reserve(CharMasks *m, int64_t words)
{
    if (words <= m->capacity) return OK;
    masks_free(m);
    int64_t capacity = words + words / 2;
    m->space = malloc((size_t)capacity * 4 * sizeof *m->space);
    if (!m->space)
        return fail(NO_MEMORY, "no memory to check a document of %lld bytes", (long long)words * 64);
    m->start  = m->space + capacity;
    m->letter = m->start + capacity;
    m->alnum  = m->letter + capacity;
    m->capacity = capacity;
    return OK;
}

Status masks_make(CharMasks *m, const char *text, int64_t bytes)
{
    const uint8_t *p = (const uint8_t *)text;
    uint8_t tail[64];
    bool    dot = false;
    TRY(masks_reserve(m, bytes / 64 + 2));        /* one word more, which mask_part reads */
    m->hashes = m->new_lines = 0;
    m->dots = m->ellipses = false;
    for (int64_t at = 0, i = 0; at <= bytes + 63; at += 64, i++) {
        int64_t left = at < bytes ? bytes - at : 0;
        if (left < 64) memset(tail, ' ', sizeof tail);
        if (left && left < 64) memcpy(tail, p + at, (size_t)left);
        const uint8_t *in_text = left ? p + at : tail;
        MaskChunk c = chunk_make(m, left < 64 ? tail : in_text, in_text, left);
        m->space[i]  = c.space;
        m->start[i]  = c.start;
        m->letter[i] = c.letter;
        m->alnum[i]  = c.alnum;
        m->dots |= (c.dot & (c.dot << 1 | (uint64_t)dot)) != 0;
        dot = c.dot >> 63;
    }
    return OK;
}

void masks_free(CharMasks *m)
{
    free(m->space);
    *m = (CharMasks){ 0 };
}

int64_t mask_count(const uint64_t *mask, int64_t begin, int64_t end)
{
    int64_t count = 0;
    for (int64_t at = begin; at < end; at += 64) count += bits_set(mask_part(mask, at, end));
    return count;
}
