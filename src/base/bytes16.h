#ifndef BASE_BYTES16_H
#define BASE_BYTES16_H
/* Sixteen bytes of a text at a time, as vectors of the compiler: comparisons and arithmetic are those of
 * unsigned bytes, and a comparison is all ones where it holds.
 *
 *     Bytes16 v = bytes16_at(text);
 *     uint32_t bits = bytes16_bits((v == ' ') | ((v - '0') < 10));     blanks and digits: bit i for byte i */
#include <stdint.h>
#include <string.h>

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int8_t  Bytes16Holds __attribute__((vector_size(16)));

static inline Bytes16 bytes16_at(const void *text)
{
    Bytes16 v;
    memcpy(&v, text, sizeof v);
    return v;
}

static inline uint32_t bytes16_bits(Bytes16Holds holds)
{
#ifdef __SSE2__
    typedef char Chars16 __attribute__((vector_size(16)));
    return (uint32_t)__builtin_ia32_pmovmskb128((Chars16)holds);
#else
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint32_t)(holds[i] & 1) << i;
    return bits;
#endif
}
#endif
