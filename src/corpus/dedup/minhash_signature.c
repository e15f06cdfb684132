/* MinHash signatures with one kernel for each instruction set, chosen when a signer is opened. */
#include "corpus/dedup/minhash_signature.h"

#include <stdlib.h>
#include <string.h>
#include "base/random.h"

/* The values of `vecs` vectors of `lanes` lanes stay in registers while all shingles pass. More than one
 * vector is needed to hide the latency of the multiplication. GCC vector extensions give the same code for
 * each target, and integers give the same values. */
#define BODY(name, target, lanes, vecs)                                                                 \
    target static void name(uint32_t *least, const uint32_t *a, const uint32_t *b, int64_t values,      \
                            const Shingles *s)                                                          \
    {                                                                                                   \
        typedef uint32_t Lanes __attribute__((vector_size(4 * lanes), aligned(4), may_alias));          \
        for (int64_t v = 0; v < values; v += lanes * vecs) {                                            \
            Lanes low[vecs];                                                                            \
            for (int i = 0; i < vecs; i++) low[i] = (Lanes){ 0 } - 1;                                   \
            for (int64_t k = 0; k < s->count; k++)                                                      \
                for (int i = 0; i < vecs; i++) {                                                        \
                    Lanes x = *(const Lanes *)(a + v + i * lanes) * (uint32_t)s->hash[k] +              \
                              *(const Lanes *)(b + v + i * lanes);                                      \
                    Lanes less = (Lanes)(x < low[i]);                                                   \
                    low[i] = (x & less) | (low[i] & ~less);                                             \
                }                                                                                       \
            memcpy(least + v, low, sizeof low);                                                         \
        }                                                                                               \
    }

#ifdef __x86_64__
BODY(body_avx512, __attribute__((target("avx512f"))), 16, 4)
BODY(body_avx2, __attribute__((target("avx2"))), 8, 4)
#endif
BODY(body_plain, , 4, 4)

MinHashKernel *minhash_kernel(int target)
{
#ifdef __x86_64__
    if (target == 1) return __builtin_cpu_supports("avx2") ? body_avx2 : NULL;
    if (target == 2) return __builtin_cpu_supports("avx512f") ? body_avx512 : NULL;
#endif
    return target == 0 ? body_plain : NULL;
}

/* The coefficients are fixed by a constant seed, so signatures are equal in every run and on every
 * machine. a is odd, which makes x -> a x + b a permutation of the 32-bit numbers; the widest instruction
 * set that the machine has is chosen. */
Status minhash_signer_open(MinHashSigner *sign, int values)
{
    int64_t rounded = (values + MINHASH_LANES - 1) / MINHASH_LANES * MINHASH_LANES;
    *sign = (MinHashSigner){ .values = rounded };
    sign->a = malloc((size_t)rounded * sizeof *sign->a);
    sign->b = malloc((size_t)rounded * sizeof *sign->b);
    if (!sign->a || !sign->b) return fail(NO_MEMORY, "no memory for %d hash functions", values);
    for (int64_t v = 0; v < rounded; v++) {
        uint64_t bits = random_mix(0x6E656172u, (uint64_t)v);        /* odd: a permutation */
        sign->a[v] = (uint32_t)bits | 1;
        sign->b[v] = (uint32_t)(bits >> 32);
    }
    for (int target = 0; target <= 2; target++)
        if (minhash_kernel(target)) sign->body = minhash_kernel(target);
    return OK;
}

void minhash_signature(const MinHashSigner *sign, uint32_t *least, const Shingles *shingles)
{
    sign->body(least, sign->a, sign->b, sign->values, shingles);
}

void minhash_signer_close(MinHashSigner *sign)
{
    free(sign->a);
    free(sign->b);
}
