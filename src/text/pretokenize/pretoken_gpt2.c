/* GPT-2's pretokenizer on bit masks: bit i of a mask is for byte i of a block of 64. ASCII is classified by
 * SIMD compares, common two-byte letters too, and other characters one by one. */
#include "text/pretokenize/pretoken_gpt2.h"
#include <stdbool.h>
#include "text/pretokenize/pretoken.h"
#include "text/unicode.h"

/* A mask for each class. All bytes of a character have its class; head has the first byte of each character
 * only. */
typedef struct { uint64_t letter, number, space, blank, quote, head; } BlockClasses;

#ifdef __SSE2__
#include <emmintrin.h>
typedef struct { __m128i part[4]; } ByteBlock;
#define EACH(x)   ((uint64_t)(x(0)) | (uint64_t)(x(1)) << 16 | (uint64_t)(x(2)) << 32 | (uint64_t)(x(3)) << 48)
#define ALL(c)    _mm_set1_epi8((char)(c))
/* EACH(x) joins the 16 bits of x(0) to x(3), one for each part of the block, to a mask of 64. */
static inline uint64_t bits(__m128i v) { return (uint32_t)_mm_movemask_epi8(v); }
static inline __m128i in_range(__m128i v, int least, int most)           /* compares signed bytes */
{
    return _mm_and_si128(_mm_cmpgt_epi8(v, ALL(least - 1)), _mm_cmpgt_epi8(ALL(most + 1), v));
}

static inline ByteBlock bytes_at(const uint8_t *text)
{
    ByteBlock b;
    for (int i = 0; i < 4; i++) b.part[i] = _mm_loadu_si128((const __m128i *)(const void *)(text + 16 * i));
    return b;
}

static inline uint64_t bytes_high(const ByteBlock *b)
{
#define HIGH(i) bits(b->part[i])
    return EACH(HIGH);
}

static inline BlockClasses classes_ascii(const ByteBlock *b)
{
#define LETTERS(i) bits(in_range(_mm_or_si128(b->part[i], ALL(0x20)), 'a', 'z'))
#define NUMBERS(i) bits(in_range(b->part[i], '0', '9'))
#define BLANKS(i)  bits(_mm_cmpeq_epi8(b->part[i], ALL(' ')))
#define TABS(i)    bits(in_range(b->part[i], '\t', '\r'))
#define QUOTES(i)  bits(_mm_cmpeq_epi8(b->part[i], ALL('\'')))
    BlockClasses c = { .letter = EACH(LETTERS), .number = EACH(NUMBERS), .blank = EACH(BLANKS),
                       .quote = EACH(QUOTES), .head = ~0ull };
    c.space = c.blank | EACH(TABS);
    return c;
}

/* The second bytes of two-byte letters: U+00C0 to U+027F without the multiplication and division signs, and
 * U+0400 to U+047F */
static inline uint64_t two_byte_letters_last(const ByteBlock *b)
{
#define LEADS(i)  bits(_mm_or_si128(in_range(b->part[i], 0xC3 - 256, 0xC9 - 256), in_range(b->part[i], 0xD0 - 256, 0xD1 - 256)))
#define LASTS(i)  bits(_mm_cmpgt_epi8(ALL(0xC0), b->part[i]))
#define LATINS(i) bits(_mm_cmpeq_epi8(b->part[i], ALL(0xC3)))
#define SIGNS(i)  bits(_mm_or_si128(_mm_cmpeq_epi8(b->part[i], ALL(0x97)), _mm_cmpeq_epi8(b->part[i], ALL(0xB7))))
    return EACH(LASTS) & EACH(LEADS) << 1 & ~(EACH(SIGNS) & EACH(LATINS) << 1);
}
#else
typedef struct { const uint8_t *text; } ByteBlock;
static inline ByteBlock bytes_at(const uint8_t *text) { return (ByteBlock){ text }; }
static inline uint64_t two_byte_letters_last(const ByteBlock *b) { return 0 * b->text[0]; }

static uint64_t bytes_high(const ByteBlock *b)
{
    uint64_t high = 0;
    for (int i = 0; i < GPT2_BLOCK_BYTES; i++) high |= (uint64_t)(b->text[i] >> 7) << i;
    return high;
}

static BlockClasses classes_ascii(const ByteBlock *b)
{
    BlockClasses c = { .head = ~0ull };
    for (int i = 0; i < GPT2_BLOCK_BYTES; i++) {
        uint8_t byte = b->text[i];
        int     kind = byte < 0x80 ? unicode_row[0][byte] : 0;
        c.letter |= (uint64_t)!!(kind & LETTER) << i;
        c.number |= (uint64_t)!!(kind & NUMBER) << i;
        c.space  |= (uint64_t)!!(kind & SPACE) << i;
        c.blank  |= (uint64_t)(byte == ' ') << i;
        c.quote  |= (uint64_t)(byte == '\'') << i;
    }
    return c;
}
#endif

/* Classifies the characters whose bytes are in `high`. false: one is white space of several bytes, for which
 * the bitwise rules do not hold, because they shift white space by one byte. */
static bool classes_wide(BlockClasses *c, const uint8_t *text, int64_t bytes, uint64_t high)
{
    while (high) {
        int      at   = __builtin_ctzll(high);
        Rune     r    = rune_at(text + at, bytes - at);
        uint64_t mine = ((1ull << r.bytes) - 1) << at;
        if (r.kind & SPACE) return false;
        if (r.kind & LETTER) c->letter |= mine;
        if (r.kind & NUMBER) c->number |= mine;
        c->head &= ~(mine & (mine << 1));
        high    &= ~mine;
    }
    return true;
}

/* Contractions ('s 't 'm 'd 're 've 'll) where a piece begins with a quote: no piece begins after the quote,
 * and one begins after the letters. In order from left to right, because an earlier one may change where
 * later pieces begin. */
static uint64_t contractions_apply(uint64_t starts, uint64_t quote, const uint8_t *text)
{
    for (uint64_t left = starts & quote; left; left &= left - 1) {
        int at = __builtin_ctzll(left), bytes = pretoken_contraction(text + at);
        if (bytes)
            starts = (starts & ~(2ull << at)) | (at + bytes < GPT2_BLOCK_BYTES ? 1ull << (at + bytes) : 0);
    }
    return starts;
}

/* The same piece by piece, for the rare block with wide white space */
static uint64_t starts_slow(const uint8_t *text, int64_t bytes)
{
    uint64_t starts = 0;
    for (int64_t at = 0; at < GPT2_STARTS_BITS; at += pretoken_next(PRETOKEN_GPT2, text + at, bytes - at))
        starts |= 1ull << at;
    return starts;
}

/* A character continues the piece of the one before it where both are letters, both numbers or both others,
 * or where that is a space. White space continues white space, except the last one of a run that is not at
 * the end: it begins a piece, alone or with the word after it. */
uint64_t pretoken_gpt2_starts(const uint8_t *text, int64_t bytes)
{
    ByteBlock    b    = bytes_at(text);
    BlockClasses  c    = classes_ascii(&b);
    uint64_t high = bytes_high(&b);
    if (high) {
        uint64_t last = two_byte_letters_last(&b);
        c.letter |= last | last >> 1;
        c.head   &= ~last;
        if (high & ~c.letter && !classes_wide(&c, text, bytes, high & ~c.letter))
            return starts_slow(text, bytes);
    }
    uint64_t other = ~(c.letter | c.number | c.space);
    uint64_t same  = (c.letter & c.letter << 1) | (c.number & c.number << 1) | (other & other << 1);
    uint64_t starts = (~c.space & ~same & ~(c.blank << 1)) | (c.space & ~(c.space << 1 & c.space >> 1));
    starts = (starts & c.head) | 1;
    if (starts & c.quote) starts = contractions_apply(starts, c.quote, text);
    return starts & ((1ull << GPT2_STARTS_BITS) - 1);
}
