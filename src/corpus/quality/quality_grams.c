/* Repeated n-grams, of 2 to 10 words. An n-gram can only stand there twice where its first n - 1 words do, so each n
 * looks at the places that n - 1 left: of 2 all, of 3 a part, of 5 nearly none in ordinary prose.                   */
#include <math.h>
#include <stdlib.h>
#include "corpus/quality/quality_internal.h"

enum { GRAM_LEAST = 2, TOP_MOST = 4, GRAM_MOST = 10 };

static Status places_room(QualitySpace *q)
{
    if (q->words <= q->places_room) return OK;
    int64_t room = q->words + q->words / 2;
    free(q->place), free(q->gram), free(q->slot);
    q->place = malloc((size_t)room * sizeof *q->place);
    q->gram  = malloc((size_t)room * sizeof *q->gram);
    q->slot  = malloc((size_t)room * sizeof *q->slot);
    q->places_room = q->place && q->gram && q->slot ? room : 0;
    return q->places_room ? OK : fail(NO_MEMORY, "no memory to judge a document of %lld words", (long long)q->words);
}

static int64_t gram_chars(const QualitySpace *q, int64_t place, int n)
{
    int64_t chars = 0;
    for (int i = 0; i < n; i++) chars += q->word[place + i].chars;
    return chars;
}

/* All n-grams at the places left into the table */
static int64_t grams_count(QualitySpace *q, int64_t places, int n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < places; i++) {
        int64_t place = q->place[i];
        if (place + n > q->words) continue;
        uint64_t hash = q->gram[i] * 0x9E3779B97F4A7C15u + q->word[place + n - 1].hash;
        GramSlot *s = gram_table_put(&q->table, hash, place);
        q->place[kept] = (int32_t)place;
        q->gram[kept]  = hash;
        q->slot[kept]  = (int32_t)(s - q->table.slot);
        kept++;
    }
    return kept;
}

/* Characters in the most frequent one, blanks between its words included; of equals the first in the text. Where none
 * stands there twice that is the text's first. */
static int64_t top_chars(const QualitySpace *q, int64_t places, int n)
{
    GramSlot best = { .count = 1 };
    for (int64_t i = 0; i < places; i++) {
        const GramSlot *s = &q->table.slot[q->slot[i]];
        if (s->count > best.count || (s->count == best.count && s->first < best.first)) best = *s;
    }
    return (gram_chars(q, best.first, n) + n - 1) * best.count;
}

/* Characters in those that came before, when one reads on behind each such */
static int64_t repeated_chars(QualitySpace *q, int64_t places, int n)
{
    int64_t chars = 0, next = 0;
    for (int64_t i = 0; i < places; i++) {
        GramSlot *s = &q->table.slot[q->slot[i]];
        if (q->place[i] < next || !s->count) continue;
        if (s->count > 0) {                                 /* the first time; the count is not needed any more */
            s->count = -s->count;
            continue;
        }
        chars += gram_chars(q, q->place[i], n);
        next   = q->place[i] + n;
    }
    return chars;
}

/* Places whose n-gram stands there at least twice */
static int64_t places_keep(QualitySpace *q, int64_t places)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < places; i++) {
        if (abs(q->table.slot[q->slot[i]].count) < 2) continue;
        q->place[kept]  = q->place[i];
        q->gram[kept++] = q->gram[i];
    }
    return kept;
}

Status quality_grams(QualitySpace *q, double *figure)
{
    int64_t places = q->words;
    TRY(places_room(q));
    for (int64_t i = 0; i < places; i++) {
        q->place[i] = (int32_t)i;
        q->gram[i]  = q->word[i].hash;
    }
    for (int n = GRAM_LEAST; n <= GRAM_MOST; n++) {
        TRY(gram_table_clear(&q->table, places));
        places = grams_count(q, places, n);
        if (n <= TOP_MOST) figure[QUALITY_TOP_2 + n - GRAM_LEAST] = q->words < n ? NAN : (double)top_chars(q, places, n);
        else figure[QUALITY_GRAM_5 + n - TOP_MOST - 1] = (double)repeated_chars(q, places, n);
        places = places_keep(q, places);
    }
    return OK;
}
