/* AVX-512 with VNNI, whose instruction multiplies bytes without a sign (codes of weights + 128) by bytes with
 * one. Registers: 12 products, 12 sums, 2 vectors of weights. */
#ifdef __AVX512VNNI__
#include <immintrin.h>
#include "tensor/int8.h"
#define FAMILY  int8_vnni
#define LANES   16
#define VECTORS 1
#define ROWS    6
typedef __m512i Ints;
typedef __m512  Floats;
#define BEGIN(offset)        _mm512_set1_epi32(offset)
#define ACTIVATIONS(at)      _mm512_set1_epi32(quad_of(at))
#define WEIGHTS(at)          _mm512_loadu_si512(at)
#define MULTIPLY(sum, w, x)  _mm512_dpbusd_epi32(sum, w, x)
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
