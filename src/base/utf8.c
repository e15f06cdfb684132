/* Decodes, encodes, checks and repairs UTF-8. In a check valid text is the rule, so 16 bytes at a time are
 * classified with SSE2, and only what that cannot decide is decoded character by character. */
#include "base/utf8.h"

#include <stdbool.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

int utf8_encode(uint8_t out[4], uint32_t point)
{
    int following = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    const uint8_t lead[] = { 0, 0xC0, 0xE0, 0xF0 };
    for (int i = following; i > 0; i--, point >>= 6) out[i] = (uint8_t)(0x80 | (point & 0x3F));
    out[0] = (uint8_t)(lead[following] | point);
    return following + 1;
}

/* ---- texts ---- */

/* How many of the 16 bytes at p are certainly valid: ASCII except NUL, and whole characters of two bytes,
 * which are most letters of the Latin, Greek and Cyrillic scripts. 15 where the last byte begins such a
 * character; 0: not known, so the caller decodes. */
static int valid_prefix_16(const char *p)
{
#ifdef __SSE2__
#define BITS(x) ((uint32_t)_mm_movemask_epi8(x))
#define ALL(x)  _mm_set1_epi8((char)(x))
    __m128i  v    = _mm_loadu_si128((const __m128i *)(const void *)p);
    uint32_t high = BITS(v), zero = BITS(_mm_cmpeq_epi8(v, ALL(0)));
    if (!(high | zero)) return 16;
    uint32_t two  = BITS(_mm_and_si128(_mm_cmpgt_epi8(v, ALL(0xC1)), _mm_cmpgt_epi8(ALL(0xE0), v)));
    uint32_t more = BITS(_mm_cmpgt_epi8(ALL(0xC0), v));
    bool     valid = !zero && (two | more) == high && more == (two << 1 & 0xFFFF);
    return !valid ? 0 : two >> 15 ? 15 : 16;
#undef BITS
#undef ALL
#else
    (void)p;
    return 0;
#endif
}

/* After 16 undecided bytes the fast check is tried again; only a text in other scripts is decoded
 * throughout. */
int64_t utf8_broken(const char *text, int64_t bytes)
{
    int64_t at = 0;
    while (at < bytes) {
        int valid = bytes - at >= 16 ? valid_prefix_16(text + at) : 0;
        at += valid;
        if (valid) continue;
        /* The end of a text is looked at together with bytes before it, which are valid. */
        if (bytes >= 16 && bytes - at < 16 && valid_prefix_16(text + bytes - 16) == 16) return -1;
        for (int64_t stop = bytes - at < 16 ? bytes : at + 16; at < stop; ) {
            uint32_t point;
            int      whole = utf8_decode(&point, (const uint8_t *)text + at, bytes - at);
            if (point == UTF8_BROKEN || !point) return at;
            at += whole;
        }
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
