/* UTF-8 validation and repair. Valid text is the rule, so 16 bytes at a time are classified with SSE2, and
 * only what that cannot decide is decoded character by character. */
#include "corpus/read/utf8.h"

#include <stdbool.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "text/unicode.h"

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
        for (int64_t stop = bytes - at < 16 ? bytes : at + 16; at < stop; ) {
            Rune r = rune_at((const uint8_t *)text + at, bytes - at);
            if (r.point == RUNE_BROKEN || !r.point) return at;
            at += r.bytes;
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
