/* AVX2. Products of bytes are of magnitudes of weights and of activations with the weights' signs: two of
 * them are at most 2 * 127 * 127, which 16 bits hold. Registers of four rows and a panel: 8 products, 2
 * vectors of weights and their magnitudes; the sums, which a block needs once, are in memory. */
#ifdef __AVX2__
#include <immintrin.h>
#include "tensor/int8.h"
#define FAMILY  int8_avx2
#define LANES   8
#define VECTORS 2
#define ROWS    4
#define PANELS  1
typedef __m256i Ints;
typedef __m256  Floats;
#define BEGIN(offset)        _mm256_setzero_si256()
#define ACTIVATIONS(at)      _mm256_set1_epi32(quad_of(at))
#define BYTES(at)            _mm256_loadu_si256((const __m256i *)(at))
#define WEIGHTS(at)          _mm256_xor_si256(BYTES(at), _mm256_set1_epi8(-128))
/* The sum is added to in place, where gcc would copy it to another register and back. */
#define MULTIPLY(sum, w, x)                                                                          \
    __asm__("vpaddd %1, %0, %0" : "+x"(sum)                                                          \
            : "x"(_mm256_madd_epi16(PAIRS(w, x), _mm256_set1_epi16(1))))
#define PAIRS(w, x)          _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
#define FLOATS(x)            _mm256_cvtepi32_ps(x)
#define SPLAT(x)             _mm256_set1_ps(x)
#define LOAD(at)             _mm256_loadu_ps(at)
#define STORE(at, x)         _mm256_storeu_ps(at, x)
static inline int32_t quad_of(const int8_t *at)
{
    int32_t quad;
    __builtin_memcpy(&quad, at, sizeof quad);
    return quad;
}
#include "tensor/cpu/int8/int8_kernel.inc"
#endif
