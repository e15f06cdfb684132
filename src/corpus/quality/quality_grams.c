/* Repeated n-grams of 2 to 10 words. An n-gram can only occur twice if its first n - 1 words do, so each n
 * only looks at the positions that n - 1 left: for 2 all positions, for 3 a part, for 5 nearly none in
 * ordinary prose. The hash of an n-gram is made from that of the n - 1 words before its last. n-grams with
 * equal hashes count as equal; at 64 bits that is negligible. */
#include <math.h>
#include <stdlib.h>
#include "corpus/quality/quality_internal.h"

enum { GRAM_LEAST = 2, TOP_MOST = 4 };

static Status positions_reserve(QualitySpace *q)
{
    if (q->words <= q->positions_capacity) return OK;
    int64_t capacity = q->words + q->words / 2;
    free(q->position), free(q->gram), free(q->slot);
    q->position = malloc((size_t)capacity * sizeof *q->position);
    q->gram  = malloc((size_t)capacity * sizeof *q->gram);
    q->slot  = malloc((size_t)capacity * sizeof *q->slot);
    q->positions_capacity = q->position && q->gram && q->slot ? capacity : 0;
    return q->positions_capacity
               ? OK
               : fail(NO_MEMORY, "no memory to check a document of %lld words", (long long)q->words);
}

/* Characters of the words, without the spaces between them. */
static int64_t gram_chars(const QualitySpace *q, int64_t position, int n)
{
    int64_t chars = 0;
    for (int i = 0; i < n; i++) chars += q->word[position + i].chars;
    return chars;
}

/* Counts the n-grams at the remaining positions in the table; drops positions too close to the end.
 * Returns how many are left. */
static int64_t grams_count(QualitySpace *q, int64_t positions, int n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < positions; i++) {
        int64_t position = q->position[i];
        if (position + n > q->words) continue;
        uint64_t hash = q->gram[i] * 0x9E3779B97F4A7C15u + q->word[position + n - 1].hash;
        GramSlot *s = gram_table_put(&q->table, hash, position);
        q->position[kept] = (int32_t)position;
        q->gram[kept]  = hash;
        q->slot[kept]  = (int32_t)(s - q->table.slot);
        kept++;
    }
    return kept;
}

/* Characters in all occurrences of the most frequent n-gram, the spaces between its words included; among
 * equally frequent ones the first in the text counts. If none occurs twice that is the first n-gram of the
 * text, as in the code of the published rule. */
static int64_t top_chars(const QualitySpace *q, int64_t positions, int n)
{
    GramSlot best = { .count = 1 };
    for (int64_t i = 0; i < positions; i++) {
        const GramSlot *s = &q->table.slot[q->slot[i]];
        if (s->count > best.count || (s->count == best.count && s->first < best.first)) best = *s;
    }
    return (gram_chars(q, best.first, n) + n - 1) * best.count;
}

/* Characters in n-grams that occurred before, counted without overlap: after each such n-gram reading
 * continues after its last word. A negative count marks an n-gram that was seen once; the counts
 * themselves are no longer needed. */
static int64_t repeated_chars(QualitySpace *q, int64_t positions, int n)
{
    int64_t chars = 0, next = 0;
    for (int64_t i = 0; i < positions; i++) {
        GramSlot *s = &q->table.slot[q->slot[i]];
        if (q->position[i] < next || !s->count) continue;
        if (s->count > 0) {
            s->count = -s->count;
            continue;
        }
        chars += gram_chars(q, q->position[i], n);
        next   = q->position[i] + n;
    }
    return chars;
}

/* Keeps the positions whose n-gram occurs at least twice. */
static int64_t positions_of_repeated(QualitySpace *q, int64_t positions)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < positions; i++) {
        if (abs(q->table.slot[q->slot[i]].count) < 2) continue;
        q->position[kept]  = q->position[i];
        q->gram[kept++] = q->gram[i];
    }
    return kept;
}

Status quality_grams(QualitySpace *q)
{
    int64_t positions = q->words;
    TRY(positions_reserve(q));
    for (int64_t i = 0; i < positions; i++) {
        q->position[i] = (int32_t)i;
        q->gram[i]  = q->word[i].hash;
    }
    for (int n = GRAM_LEAST; n <= GRAM_MOST; n++) {
        TRY(gram_table_clear(&q->table, positions));
        positions = grams_count(q, positions, n);
        if (n > TOP_MOST) q->gram_chars[n] = (double)repeated_chars(q, positions, n);
        else              q->gram_chars[n] = q->words < n ? NAN : (double)top_chars(q, positions, n);
        positions = positions_of_repeated(q, positions);
    }
    return OK;
}
