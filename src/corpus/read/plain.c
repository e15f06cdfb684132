/* Validates UTF-8 and finds quotes, backslashes and control characters 64 bytes at a time. Each property
 * of the bytes is a word of 64 bits, bit i for byte i, so that "the byte after" is a shift by one and a
 * whole block is checked by a few dozen operations without branches on the data. A block begins at a
 * character; a character that the end of the block cuts in two is left to the next block. */
#include "corpus/read/plain.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { WIDE = 64 };
typedef struct { __m128i q[4]; } Block64;

/* The bits of a condition on the 16 bytes x, for all four quarters of the block. */
#define BITS_OF(block, condition) __extension__ ({                                                        \
    uint64_t bits_ = 0;                                                                                   \
    _Pragma("GCC unroll 4")                                                                               \
    for (int i_ = 0; i_ < 4; i_++) {                                                                      \
        __m128i x = (block).q[i_];                                                                        \
        bits_ |= (uint64_t)(uint32_t)_mm_movemask_epi8(condition) << 16 * i_;                             \
    }                                                                                                     \
    bits_; })
#define BYTE(value)    _mm_set1_epi8((char)(value))
#define IS(value)      _mm_cmpeq_epi8(x, BYTE(value))
/* SSE2 compares bytes only as signed, so x >= value is written as max(x, value) == x, unsigned. */
#define LEAST(value)   _mm_cmpeq_epi8(_mm_max_epu8(x, BYTE(value)), x)
#define MOST(value)    _mm_cmpeq_epi8(_mm_min_epu8(x, BYTE(value)), x)

static uint64_t bits_below(int bit) { return bit < 64 ? ((uint64_t)1 << bit) - 1 : ~(uint64_t)0; }

static uint64_t block_stops(const Block64 *b)
{
    return BITS_OF(*b, _mm_or_si128(_mm_or_si128(IS('"'), IS('\\')), MOST(0x1F)));
}

/* The multi-byte characters of a block: each first byte says how many continuation bytes follow (`want`),
 * and those and no others must be there (`more`). The second byte of E0, ED, F0 and F4 has a smaller
 * range, which excludes overlong forms, surrogates and values above U+10FFFF. Returns 0 where all is
 * valid, else a bit near the fault. *cut: where the last character begins if the block does not hold it
 * whole, else 64. */
static uint64_t utf8_faults(const Block64 *b, uint64_t high, int *cut)
{
    uint64_t more = BITS_OF(*b, _mm_cmplt_epi8(x, BYTE(0xC0))), first = high & ~more;
    uint64_t bad  = BITS_OF(*b, _mm_or_si128(MOST(0xC1), LEAST(0xF5))) & first, want = first << 1;
    uint64_t three = BITS_OF(*b, LEAST(0xE0));
    *cut = first >> 63 ? 63 : WIDE;
    if (three) {
        uint64_t four = BITS_OF(*b, LEAST(0xF0)),
                 low_9 = BITS_OF(*b, MOST(0x8F)), low_A = BITS_OF(*b, MOST(0x9F));
        uint64_t after_E0 = BITS_OF(*b, IS(0xE0)) << 1, after_ED = BITS_OF(*b, IS(0xED)) << 1;
        uint64_t after_F0 = BITS_OF(*b, IS(0xF0)) << 1, after_F4 = BITS_OF(*b, IS(0xF4)) << 1;
        want |= three << 2 | four << 3;
        bad  |= (after_E0 & low_A) | (after_ED & ~low_A) | (after_F0 & low_9) | (after_F4 & ~low_9);
        uint64_t open = (first & ~bits_below(63)) | (three & ~bits_below(62)) | (four & ~bits_below(61));
        if (open) *cut = __builtin_ctzll(open);
    }
    return bad | (want ^ more);
}

/* ASCII only, 16 bytes at a time: the rest of a text that is too short for a block. */
static int64_t ascii_run(const char *text, int64_t bytes)
{
    int64_t at = 0;
    for (; bytes - at >= 16; at += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(text + at));
        int special = _mm_movemask_epi8(
            _mm_or_si128(x, _mm_or_si128(_mm_or_si128(IS('"'), IS('\\')), MOST(0x1F))));
        if (special) return at + __builtin_ctz((unsigned)special);
    }
    return at;
}

int64_t plain_run(const char *text, int64_t bytes)
{
    int64_t at = 0;
    Block64 b;
    while (bytes - at >= WIDE) {
        memcpy(&b, text + at, WIDE);
        uint64_t stop = block_stops(&b), high = BITS_OF(b, x);
        int end = stop ? __builtin_ctzll(stop) : WIDE, cut = WIDE;
        if (high & bits_below(end)) {
            uint64_t faults = utf8_faults(&b, high, &cut);
            if (cut < end) end = cut;
            if (faults & bits_below(end + 1)) return at;  /* a character may lack its last byte there */
        }
        at += end;
        if (stop && end < cut) return at;
    }
    return at + ascii_run(text + at, bytes - at);
}

#else

/* The high bit of each byte that is a quote, a backslash, a control character or not ASCII. Borrows of the
 * subtraction can set wrong bits above the first right one, and only the first is used. */
static uint64_t special_bytes(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    return (word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & high;
}

int64_t plain_run(const char *text, int64_t bytes)
{
    int64_t at = 0;
    for (uint64_t word; at + 8 <= bytes; at += 8) {
        memcpy(&word, text + at, 8);
        uint64_t special = special_bytes(word);
        if (special) return at + __builtin_ctzll(special) / 8;
    }
    return at;
}
#endif
