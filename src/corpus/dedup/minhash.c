/* Collects the band keys of documents. A key is the hash of a band's number and its rows of the signature;
 * documents with an equal key are in one bucket. Keys go to a spill by their first bits, so that equal
 * keys meet in one partition. */
#include "corpus/dedup/minhash.h"

#include <stdlib.h>
#include <string.h>
#include "base/clones.h"
#include "base/random.h"
#include "corpus/dedup/minhash_internal.h"

/* ---- signatures ---- */

/* The least values of four vectors stay in registers while all shingles pass: more than one is needed to hide
 * the latency of the multiplication. */
typedef uint32_t Lanes __attribute__((vector_size(64), may_alias));
enum { VECTORS = MINHASH_LANES * sizeof(uint32_t) / sizeof(Lanes) };

CLONES static void minhash_least(uint32_t *least, const uint32_t *a, const uint32_t *b, const Shingles *s)
{
    Lanes low[VECTORS], factor[VECTORS], addend[VECTORS];
    memcpy(factor, a, sizeof factor);
    memcpy(addend, b, sizeof addend);
    for (int i = 0; i < VECTORS; i++) low[i] = (Lanes){ 0 } - 1;
    for (int64_t k = 0; k < s->count; k++)
        for (int i = 0; i < VECTORS; i++) {
            Lanes x    = factor[i] * (uint32_t)s->hash[k] + addend[i];
            Lanes less = (Lanes)(x < low[i]);
            low[i] = (x & less) | (low[i] & ~less);
        }
    memcpy(least, low, sizeof low);
}

void minhash_sign(uint32_t *least, const MinHashSigner *sign, int values, const Shingles *shingles)
{
    for (int v = 0; v < values; v += MINHASH_LANES)
        minhash_least(least + v, sign->a + v, sign->b + v, shingles);
}

/* The coefficients are fixed by a constant seed, so signatures are equal in every run and on every machine.
 * a is odd, which makes x -> a x + b a permutation of the 32-bit numbers. */
void minhash_signer_make(MinHashSigner *sign)
{
    for (int v = 0; v < MINHASH_PERMUTATIONS_MOST; v++) {
        uint64_t bits = random_mix(0x6E656172u, (uint64_t)v);
        sign->a[v] = (uint32_t)bits | 1;
        sign->b[v] = (uint32_t)(bits >> 32);
    }
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

/* Keys may take half of memory until they are joined, pairs a quarter of it. */
Status minhash_open(MinHash **out, const MinHashPlan *plan)
{
    *out = NULL;
    TRY(plan_check(plan));
    MinHash *minhash = calloc(1, sizeof *minhash);
    if (!minhash) return fail(NO_MEMORY, "no memory for near duplicates");
    minhash->plan = *plan;
    minhash_signer_make(&minhash->sign);
    Status status = spill_open(&minhash->keys, "keys of near duplicates", plan->folder, sizeof(MinHashEntry),
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
    minhash_sign(least, &minhash->sign, minhash->plan.bands * rows, shingles);
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
    minhash_sets_close(minhash);
    spill_close(minhash->keys);
    spill_close(minhash->links);
    free(minhash->keeper);
    free(minhash);
}
