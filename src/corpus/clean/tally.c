#include "corpus/clean/tally.h"

#include <stdlib.h>
#include <string.h>

static size_t tally_bytes(int64_t languages) { return sizeof(Tally) + (size_t)languages * sizeof(Count); }

Tally *tally_new(int languages)
{
    Tally *t = calloc(1, tally_bytes(languages));
    if (t) t->languages = languages;
    return t;
}

void tally_clear(Tally *t)
{
    int64_t languages = t->languages;
    memset(t, 0, tally_bytes(languages));
    t->languages = languages;
}

int64_t tally_numbers(const Tally *t) { return (int64_t)(tally_bytes(t->languages) / sizeof(int64_t)); }

void tally_add(Tally *to, const Tally *from)
{
    int64_t *sum = (int64_t *)to, languages = to->languages;
    const int64_t *more = (const int64_t *)from;
    CHECK(from->languages == languages, "tallies of %lld and %lld languages", (long long)languages, (long long)from->languages);
    for (int64_t i = 0; i < tally_numbers(from); i++) sum[i] += more[i];
    to->languages = languages;
}

void tally_drop(Tally *t, int rule, int64_t bytes)
{
    if (rule == RULE_KEPT) return;
    t->dropped[rule].documents++;
    t->dropped[rule].bytes += bytes;
}

void tally_length(int64_t length[TALLY_LENGTHS], int64_t bytes)
{
    int i = 0;
    while (i + 1 < TALLY_LENGTHS && bytes >> (i + 1)) i++;
    length[i]++;
}

int tally_languages(LanguageRow *row, int most, const Tally *t)
{
    int count = 0;
    for (int i = 0; i < (int)t->languages; i++) {
        int at = count;
        if (!t->language[i].documents) continue;
        while (at > 0 && row[at - 1].count.documents < t->language[i].documents) at--;
        if (at >= most) continue;
        count += count < most;
        memmove(row + at + 1, row + at, (size_t)(count - at - 1) * sizeof *row);
        row[at] = (LanguageRow){ i, t->language[i] };
    }
    return count;
}
