#ifndef TEXT_PRETOKENIZE_LETTERS_H
#define TEXT_PRETOKENIZE_LETTERS_H
/* A fast path for the common letters: which of 16 bytes belong to one, as a bit mask. Covered are A-Z, a-z
 * and the two-byte letters U+00C0 to U+027F and U+0400 to U+047F; all characters of these ranges are letters
 * except the multiplication sign U+00D7 and the division sign U+00F7. A letter cut off by either end of the
 * 16 bytes has no bits. For all other characters the caller falls back to unicode_class. */
#include <stdint.h>

/* p: 16 bytes may be read; the caller guarantees them. Bit i of the result is for p[i]. */
#ifdef __SSE2__
#include <emmintrin.h>
static inline uint32_t letters_of(const uint8_t *p)
{
#define BITS(x) ((uint32_t)_mm_movemask_epi8(x))
#define ALL(x)  _mm_set1_epi8((char)(x))
    __m128i  v     = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i  small = _mm_or_si128(v, ALL(0x20));
    /* Lead bytes C3 to C9, then D0 and D1; a continuation byte (80 to BF, signed below C0) counts only after
     * one. */
    __m128i  wide  = _mm_and_si128(_mm_cmpgt_epi8(v, ALL(0xC2)), _mm_cmpgt_epi8(ALL(0xCA), v));
    __m128i  sign  = _mm_or_si128(_mm_cmpeq_epi8(v, ALL(0x97)), _mm_cmpeq_epi8(v, ALL(0xB7)));
    uint32_t ascii = BITS(_mm_and_si128(_mm_cmpgt_epi8(small, ALL('a' - 1)),
                                        _mm_cmpgt_epi8(ALL('z' + 1), small)));
    uint32_t lead  = BITS(_mm_or_si128(wide, _mm_cmpeq_epi8(_mm_or_si128(v, ALL(1)), ALL(0xD1))));
    uint32_t last  = BITS(_mm_cmpgt_epi8(ALL(0xC0), v)) & lead << 1 &
                     ~(BITS(sign) & BITS(_mm_cmpeq_epi8(v, ALL(0xC3))) << 1);
    return (ascii | last | (last >> 1)) & 0xFFFF;
#undef BITS
#undef ALL
}
#else
/* Without SSE2 only ASCII letters are found; the result is smaller but still correct for its callers. */
static inline uint32_t letters_of(const uint8_t *p)
{
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)((unsigned)((p[i] | 0x20) - 'a') < 26) << i;
    return bits;
}
#endif
#endif
