#ifndef CORPUS_CLEAN_COUNTS_H
#define CORPUS_CLEAN_COUNTS_H
/* What a run counts. Tallies of parts add up to that of the whole, and lie on disk as a row of numbers. Bytes are those of
 * a document's text as it came; `written` says what was made of those that stay.
 *
 *     in = kept + the sum of dropped[],   documents and bytes                                                          */
#include "corpus/clean/drop_reason.h"
#include "corpus/quality/charset.h"

enum { COUNTS_LENGTHS = 40 };                            /* length[i]: documents of 2^i bytes and more */

typedef struct { int64_t documents, bytes; } Count;
typedef struct {
    Count   in, kept, written;
    Count   dropped[DROP_REASONS];
    int64_t length_in[COUNTS_LENGTHS], length_kept[COUNTS_LENGTHS];
    int64_t charset[CHARSET_COUNTS];
    int64_t lines[QUALITY_RULES];                       /* that fell, of documents that go on */
    int64_t repaired, passed, parts;                    /* parts: lines or paragraphs that stood before */
    int64_t damaged;                                    /* files */
    int64_t languages;                                  /* labels of the model; the last is "none" */
    Count   language[];
} CleanCounts;

CleanCounts  *clean_counts_new   (int languages);                    /* NULL: no memory */
void    clean_counts_clear (CleanCounts *t);
void    clean_counts_add   (CleanCounts *to, const CleanCounts *from);
void    clean_counts_drop  (CleanCounts *t, int rule, int64_t bytes);       /* DROP_KEPT: nothing */
void    clean_counts_length(int64_t length[COUNTS_LENGTHS], int64_t bytes);
int64_t clean_counts_numbers(const CleanCounts *t);                  /* how many int64_t it is, in memory as on disk */

/* Languages by documents, most first; label: the index of CleanCounts.language. How many rows there are */
typedef struct { int label; Count count; } LanguageRow;
int clean_counts_languages(LanguageRow *row, int most, const CleanCounts *t);
#endif
