#ifndef CORPUS_CLEAN_TALLY_H
#define CORPUS_CLEAN_TALLY_H
/* What a run counts. Tallies of parts add up to that of the whole, and lie on disk as a row of numbers. Bytes are those of
 * a document's text as it came; `written` says what was made of those that stay.
 *
 *     in = kept + the sum of dropped[],   documents and bytes                                                          */
#include "corpus/clean/rule.h"
#include "corpus/charset.h"

enum { TALLY_LENGTHS = 40 };                            /* length[i]: documents of 2^i bytes and more */

typedef struct { int64_t documents, bytes; } Count;
typedef struct {
    Count   in, kept, written;
    Count   dropped[RULES];
    int64_t length_in[TALLY_LENGTHS], length_kept[TALLY_LENGTHS];
    int64_t charset[CHARSET_COUNTS];
    int64_t lines[QUALITY_RULES];                       /* that fell, of documents that go on */
    int64_t repaired, passed, parts;                    /* parts: lines or paragraphs that stood before */
    int64_t damaged;                                    /* files */
    int64_t languages;                                  /* labels of the model; the last is "none" */
    Count   language[];
} Tally;

Tally  *tally_new   (int languages);                    /* NULL: no memory */
void    tally_clear (Tally *t);
void    tally_add   (Tally *to, const Tally *from);
void    tally_drop  (Tally *t, int rule, int64_t bytes);       /* RULE_KEPT: nothing */
void    tally_length(int64_t length[TALLY_LENGTHS], int64_t bytes);
int64_t tally_numbers(const Tally *t);                  /* how many int64_t it is, in memory as on disk */

/* Languages by documents, most first; label: the index of Tally.language. How many rows there are */
typedef struct { int label; Count count; } LanguageRow;
int tally_languages(LanguageRow *row, int most, const Tally *t);
#endif
