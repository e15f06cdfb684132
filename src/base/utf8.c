/* Decodes, encodes, checks and repairs UTF-8. In a check valid text is the rule, so 64 bytes at a time are
 * checked together, and only those that have a fault are decoded character by character. */
#include "base/utf8.h"

#include "base/bytes16.h"

int utf8_encode(uint8_t out[4], uint32_t point)
{
    int following = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    const uint8_t lead[] = { 0, 0xC0, 0xE0, 0xF0 };
    for (int i = following; i > 0; i--, point >>= 6) out[i] = (uint8_t)(0x80 | (point & 0x3F));
    out[0] = (uint8_t)(lead[following] | point);
    return following + 1;
}

/* ---- texts ---- */

/* Each property of the bytes of a block is a word of 64 bits, bit i for byte i, so that "the byte after" is a
 * shift by one and a whole block is checked by a few dozen operations without branches on the data. A block
 * begins at a character. */
enum { WIDE = 64 };
typedef struct { Bytes16 q[4]; } Block64;

/* The bits of a condition on the 16 bytes x, for all four quarters of the block. */
#define BITS_OF(block, condition) __extension__ ({                                                        \
    uint64_t bits_ = 0;                                                                                   \
    _Pragma("GCC unroll 4")                                                                               \
    for (int i_ = 0; i_ < 4; i_++) {                                                                      \
        Bytes16 x = (block).q[i_];                                                                        \
        bits_ |= (uint64_t)bytes16_bits(condition) << 16 * i_;                                            \
    }                                                                                                     \
    bits_; })

static uint64_t bits_below(int bit) { return bit < 64 ? ((uint64_t)1 << bit) - 1 : ~(uint64_t)0; }

/* The multi-byte characters of a block: each first byte says how many continuation bytes follow (`want`),
 * and those and no others must be there (`more`). The second byte of E0, ED, F0 and F4 has a smaller
 * range, which excludes overlong forms, surrogates and values above U+10FFFF. Returns 0 where all is
 * valid, else a bit near the fault. *cut: where the last character begins if the block does not hold it
 * whole, else 64. */
static uint64_t block_faults(const Block64 *b, uint64_t high, int *cut)
{
    uint64_t more = BITS_OF(*b, (x & 0xC0) == 0x80), first = high & ~more;
    uint64_t bad  = BITS_OF(*b, (x <= 0xC1) | (x >= 0xF5)) & first, want = first << 1;
    uint64_t three = BITS_OF(*b, x >= 0xE0);
    *cut = first >> 63 ? 63 : WIDE;
    if (three) {
        uint64_t four = BITS_OF(*b, x >= 0xF0),
                 low_9 = BITS_OF(*b, x <= 0x8F), low_A = BITS_OF(*b, x <= 0x9F);
        uint64_t after_E0 = BITS_OF(*b, x == 0xE0) << 1, after_ED = BITS_OF(*b, x == 0xED) << 1;
        uint64_t after_F0 = BITS_OF(*b, x == 0xF0) << 1, after_F4 = BITS_OF(*b, x == 0xF4) << 1;
        want |= three << 2 | four << 3;
        bad  |= (after_E0 & low_A) | (after_ED & ~low_A) | (after_F0 & low_9) | (after_F4 & ~low_9);
        uint64_t open = (first & ~bits_below(63)) | (three & ~bits_below(62)) | (four & ~bits_below(61));
        if (open) *cut = __builtin_ctzll(open);
    }
    return bad | (want ^ more);
}

/* Bytes of the text up to the first block that has a fault or NUL. The end of the text is a block with spaces
 * after it, which no character may have inside. */
static int64_t valid_blocks(const char *text, int64_t bytes)
{
    char    last[WIDE];
    Block64 b;
    int64_t at = 0;
    while (at < bytes) {
        int64_t left = bytes - at;
        if (left < WIDE) memcpy(memset(last, ' ', WIDE), text + at, (size_t)left);
        memcpy(&b, left < WIDE ? last : text + at, WIDE);
        uint64_t high = BITS_OF(b, x >= 0x80);
        int      cut  = WIDE;
        if (BITS_OF(b, x == 0) || (high && (block_faults(&b, high, &cut) & bits_below(cut + 1)))) return at;
        at += cut;
    }
    return bytes;
}

int64_t utf8_broken(const char *text, int64_t bytes)
{
    for (int64_t at = valid_blocks(text, bytes); at < bytes; ) {
        uint32_t point;
        int      whole = utf8_decode(&point, (const uint8_t *)text + at, bytes - at);
        if (point == UTF8_BROKEN || !point) return at;
        at += whole;
    }
    return -1;
}

/* One U+FFFD (EF BF BD) for each invalid byte. */
Status utf8_repair(Buffer *out, const char *text, int64_t bytes)
{
    for (int64_t broken; bytes; text += broken + 1, bytes -= broken + 1) {
        broken = utf8_broken(text, bytes);
        if (broken < 0) return buffer_add(out, text, bytes);
        TRY(buffer_add(out, text, broken));
        TRY(buffer_add(out, "\xEF\xBF\xBD", 3));
    }
    return OK;
}
