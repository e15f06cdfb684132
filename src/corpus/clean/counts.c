/* Counts of a run as an array of int64_t with a variable tail, the languages: allocation, addition,
 * histogram, ranking. */
#include "corpus/clean/counts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static size_t clean_counts_bytes(int64_t languages)
{
    return sizeof(CleanCounts) + (size_t)languages * sizeof(Count);
}

CleanCounts *clean_counts_new(int languages)
{
    CleanCounts *t = calloc(1, clean_counts_bytes(languages));
    if (t) t->languages = languages;
    return t;
}

void clean_counts_clear(CleanCounts *t)
{
    int64_t languages = t->languages;
    memset(t, 0, clean_counts_bytes(languages));
    t->languages = languages;
}

int64_t clean_counts_numbers(const CleanCounts *t)
{
    return (int64_t)(clean_counts_bytes(t->languages) / sizeof(int64_t));
}

/* `languages` is one of the numbers added, so it is restored at the end. */
void clean_counts_add(CleanCounts *to, const CleanCounts *from)
{
    int64_t *sum = (int64_t *)to, languages = to->languages;
    const int64_t *more = (const int64_t *)from;
    CHECK(from->languages == languages, "counts of %lld and of %lld languages", (long long)languages,
          (long long)from->languages);
    for (int64_t i = 0; i < clean_counts_numbers(from); i++) sum[i] += more[i];
    to->languages = languages;
}

void clean_counts_drop(CleanCounts *t, int rule, int64_t bytes)
{
    if (rule == DROP_KEPT) return;
    t->dropped[rule].documents++;
    t->dropped[rule].bytes += bytes;
}

void clean_counts_length(int64_t length[COUNTS_LENGTHS], int64_t bytes)
{
    int i = 0;
    while (i + 1 < COUNTS_LENGTHS && bytes >> (i + 1)) i++;
    length[i]++;
}

/* Insertion into a sorted list of at most `most` rows; on equal counts the lower label stays first, so
 * that reports do not depend on the order of evaluation. When the list is full its last row is
 * overwritten. */
int clean_counts_languages(LanguageRow *row, int most, const CleanCounts *t)
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

/* The names are part of the file formats. */
const char *drop_reason_name(int rule)
{
    static const char *const names[DROP_REASONS] = {
        [DROP_EMPTY] = "empty", [DROP_WARNED] = "warned", [DROP_CHARSET] = "charset",
        [DROP_LANGUAGE] = "language", [DROP_CONTAMINATED] = "contaminated", [DROP_EXACT] = "exact duplicate",
        [DROP_NEAR] = "near duplicate", [DROP_PARTS] = "repeated parts" };
    if (rule == DROP_KEPT) return "kept";
    if (rule < DROP_EMPTY) return record_fault_name((RecordFaultKind)(rule - DROP_FAULT));
    return names[rule] ? names[rule] : quality_row[rule - DROP_QUALITY].name;
}

Status drop_reason_begin(Buffer *out, int rule, JsonText id, const char *file, int64_t line, int64_t bytes)
{
    TRY(buffer_format(out, "{\"rule\": \"%s\"", drop_reason_name(rule)));
    TRY(json_text_member(out, "id", id));
    TRY(json_text_path(out, "file", file));
    return buffer_format(out, ", \"line\": %" PRId64 ", \"bytes\": %" PRId64, line, bytes);
}
