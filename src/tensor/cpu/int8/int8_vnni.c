/* AVX-512 with VNNI, whose instruction multiplies bytes without a sign (codes of weights + 128) by bytes with
 * one. Registers: 12 products, 12 sums, 2 vectors of weights. */
#ifdef __AVX512VNNI__
#include <immintrin.h>
#include "tensor/int8.h"
#define FAMILY  int8_vnni
#define LANES   16
#define VECTORS 1
#define ROWS    6
#define PANELS  2
typedef __m512i Ints;
typedef __m512  Floats;
#define BEGIN(offset)        _mm512_set1_epi32(offset)
#define ACTIVATIONS(at)      _mm512_set1_epi32(quad_of(at))
#define WEIGHTS(at)          _mm512_loadu_si512(at)
/* Compilers would begin all multiplications of a step before they add, for which there are not enough
 * registers, unless they cannot tell what becomes of a sum. */
#define MULTIPLY(sum, w, x)                                                                          \
    do {                                                                                             \
        sum = _mm512_dpbusd_epi32(sum, w, x);                                                        \
        __asm__ volatile("" : "+v"(sum));                                                            \
    } while (0)
#define FLOATS(x)            _mm512_cvtepi32_ps(x)
#define SPLAT(x)             _mm512_set1_ps(x)
#define LOAD(at)             _mm512_loadu_ps(at)
#define STORE(at, x)         _mm512_storeu_ps(at, x)
static inline int32_t quad_of(const int8_t *at)
{
    int32_t quad;
    __builtin_memcpy(&quad, at, sizeof quad);
    return quad;
}
#include "tensor/cpu/int8/int8_kernel.inc"
#endif
