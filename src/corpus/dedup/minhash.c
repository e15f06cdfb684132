/* Collects the band keys of documents. A key is the hash of a band's number and its rows of the signature;
 * documents with an equal key are in one bucket. Keys go to a spill by their first bits, so that equal
 * keys meet in one partition. */
#include "corpus/dedup/minhash.h"

#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "corpus/dedup/minhash_internal.h"

/* ---- signatures, with one kernel for each instruction set ---- */

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

void minhash_signer_close(MinHashSigner *sign)
{
    free(sign->a);
    free(sign->b);
}

/* ---- keys ---- */

static Status plan_check(const MinHashPlan *plan)
{
    if (plan->bands < 1 || plan->rows < 1 || (int64_t)plan->bands * plan->rows > MINHASH_PERMUTATIONS_MOST)
        return fail(BAD_OPTION, "%d bands of %d rows: bands times rows is from 1 to %d, usually %d x %d",
                    plan->bands, plan->rows, MINHASH_PERMUTATIONS_MOST, MINHASH_BANDS, MINHASH_ROWS);
    if (!(plan->threshold > 0 && plan->threshold <= 1))
        return fail(BAD_OPTION, "a near-duplicate threshold of %g is not above 0 and up to 1; 0.8 is usual",
                    plan->threshold);
    return OK;
}

/* Keys may take half of memory until they are joined; pairs and sets of shingles then share the other half
 * and, once the keys are dropped, all of it. */
Status minhash_open(MinHash **out, const MinHashPlan *plan)
{
    *out = NULL;
    TRY(plan_check(plan));
    MinHash *minhash = calloc(1, sizeof *minhash);
    if (!minhash) return fail(NO_MEMORY, "no memory for near duplicates");
    minhash->plan = *plan;
    Status status = minhash_signer_open(&minhash->sign, plan->bands * plan->rows);
    if (status == OK)
        status = spill_open(&minhash->keys, "keys of near duplicates", plan->folder, sizeof(MinHashEntry),
                            SPILL_PARTITIONS, plan->memory / 2);
    if (status == OK) *out = minhash;
    else              minhash_close(minhash);
    return status;
}

int minhash_bands(const MinHash *minhash) { return minhash->plan.bands; }

/* The band number is part of the key, so equal rows of different bands are not in one bucket. 0 is
 * reserved for "no key", and becomes 1. */
static uint64_t band_key(int band, const uint32_t *least, int rows)
{
    uint64_t key = ((uint64_t)band + 1) * 0xC2B2AE3D27D4EB4Fu;
    for (int r = 0; r < rows; r++) {
        key = (key ^ least[r]) * 0x9E3779B97F4A7C15u;
        key ^= key >> 32;
    }
    key *= 0xD6E8FEB86659FD93u;
    key ^= key >> 32;
    return key ? key : 1;
}

bool minhash_keys(const MinHash *minhash, uint64_t *key, const Shingles *shingles)
{
    uint32_t least[MINHASH_PERMUTATIONS_MOST];
    int      rows = minhash->plan.rows;
    memset(key, 0, (size_t)minhash->plan.bands * sizeof *key);
    if (!shingles->count) return false;
    minhash->sign.body(least, minhash->sign.a, minhash->sign.b, minhash->sign.values, shingles);
    for (int band = 0; band < minhash->plan.bands; band++)
        key[band] = band_key(band, least + band * rows, rows);
    return true;
}

/* A document without shingles has no keys but takes a number, so that numbers agree with those of exact.h. */
Status minhash_add(MinHash *minhash, const uint64_t *key)
{
    int64_t document = minhash->counts.documents;
    if (document >= UINT32_MAX - 1)
        return fail(BAD_OPTION, "more than %u documents: near duplicates cannot be searched among more;"
                    " split the corpus", UINT32_MAX - 1);
    minhash->counts.documents++;
    minhash->counts.too_short += !key[0];
    for (int band = 0; band < minhash->plan.bands && key[0]; band++) {
        MinHashEntry entry = { (uint32_t)key[band], (uint32_t)(key[band] >> 32), (uint32_t)document };
        TRY(spill_add(minhash->keys, (int)(key[band] >> 54), &entry));
        minhash->counts.keys++;
    }
    return OK;
}

int64_t minhash_keeper(const MinHash *minhash, int64_t document)
{
    CHECK(minhash->keeper, "minhash_keeper before minhash_resolve");
    return minhash->keeper[document];
}

MinHashCounts minhash_counts(const MinHash *minhash) { return minhash->counts; }

void minhash_close(MinHash *minhash)
{
    if (!minhash) return;
    minhash_signer_close(&minhash->sign);
    spill_close(minhash->keys);
    spill_close(minhash->pairs);
    spill_close(minhash->members);
    free(minhash->keeper);
    free(minhash);
}
