#ifndef TENSOR_CPU_CPU_H
#define TENSOR_CPU_CPU_H
/* The fast back end of a host: float, loops the compiler vectorises, shared out by team_for in chunks that
 * depend on shapes alone. Every sum has a fixed order and nothing is contracted: so neither the number of
 * threads nor the instruction set changes a bit. */
#include <math.h>
#include <string.h>
#include "tensor/ops.h"
#include "tensor/ref/want.h"

#define CPU(name, Struct) void cpu_##name(Queue *q __attribute__((unused)), const Struct *a)
#define OP(heat, name, Struct, ...) CPU(name, Struct);
#include "tensor/ops.def"
#undef OP

/* CLONES before a loop worth it: one copy for each instruction set, chosen when the program is loaded.
 * Sanitizers are not yet awake at that moment, so their builds do without. Such a name is used once in this
 * folder, since clang 14 shows the linker what chooses, of static functions too. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CPU_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CPU_SANITIZED
#endif
#if defined(__x86_64__) && !defined(CPU_SANITIZED)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef float Vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE float *flat(Tensor x) { return x.data; }
INLINE float *row(Tensor x, int64_t i) { return (float *)x.data + i * x.stride[0]; }
INLINE float *head(Tensor x, int64_t b, int64_t s, int64_t h)          /* [B, S, H] and [B, S, H, D] */
{
    return row(x, b) + s * x.stride[1] + h * x.stride[2];
}

/* Rows in a chunk of work: about 16 thousand elements */
INLINE int64_t some_rows(int64_t width) { return width < 16384 ? 16384 / (width > 0 ? width : 1) : 1; }
enum { SOME = 16384 };                                                  /* elements, of a flat tensor */

/* e^x within 2 units of the last place, without a branch: e^x = 2^n e^r with n whole and |r| <= log(2) / 2 */
INLINE float cpu_exp(float x)
{
    const float low = -87.3f, high = 88.3f, round = 0x1.8p23f;
    const float log2_high = 0x1.62e4p-1f, log2_low = (float)(0.69314718055994530942 - 0x1.62e4p-1);
    float clipped = x < low ? low : x > high ? high : x, shifted = clipped * (float)M_LOG2E + round;
    float n = shifted - round, r = clipped - n * log2_high - n * log2_low, power;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits + 127) << 23;                                          /* the low bits of shifted are n */
    memcpy(&power, &bits, 4);
    float e = 1 / 5040.0f;
    e = e * r + 1 / 720.0f, e = e * r + 1 / 120.0f, e = e * r + 1 / 24.0f, e = e * r + 1 / 6.0f;
    e = (e * r + 0.5f) * (r * r) + r + 1;
    return x < low ? 0 : x > high ? INFINITY : e * power;
}

/* What elements of a dropout stream are multiplied by. Four share a block of bits: ask in rising order. */
typedef struct { uint64_t key, at; uint32_t bits[4], threshold; float scale; } Keep;
Keep  cpu_keep(uint64_t key, double p);
void  cpu_keep_move(Keep *keep, uint64_t block);
INLINE float keep_next(Keep *keep, uint64_t index)
{
    if (index / 4 != keep->at) cpu_keep_move(keep, index / 4);
    return keep->bits[index % 4] >= keep->threshold ? keep->scale : 0;
}
#endif
