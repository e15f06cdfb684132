#ifndef CORPUS_CLEAN_COUNTS_H
#define CORPUS_CLEAN_COUNTS_H
/* What a run counts. The struct consists of int64_t alone, so counts of blocks add up number by number to
 * those of the run, and the progress file stores them as one list of numbers. Bytes are those of a
 * document's text as it was read; only `written` is in bytes of the text as it is output.
 *
 *     in = kept + the sum of dropped[],   in documents and in bytes (clean.c checks it at the end) */
#include "corpus/quality/charset.h"
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"

/* Why a document is dropped: one number for each reason, in the order of the stages. The numbers index
 * CleanCounts.dropped. */
enum {
    DROP_FAULT,                                         /* + RecordFaultKind: the record could not be read */
    DROP_EMPTY = DROP_FAULT + RECORD_FAULTS,            /* no text, or a stage removed all of it */
    /* Has one of OSCAR's warnings that the run excludes. */
    DROP_WARNED,
    DROP_CHARSET,
    DROP_LANGUAGE,
    DROP_QUALITY,                                       /* + QualityRule */
    DROP_CONTAMINATED = DROP_QUALITY + QUALITY_RULES,
    DROP_EXACT,
    DROP_NEAR,
    DROP_PARTS,                                         /* all its lines or paragraphs occurred before */
    DROP_REASONS,
    DROP_KEPT = -1
};

/* The name in reports: "too long", "words-min", "exact duplicate"; "kept" for DROP_KEPT. */
const char *drop_reason_name(int rule);
/* The beginning of the line about a dropped document in --dropped: {"rule": ... "bytes": N */
Status drop_reason_begin(Buffer *out, int rule, JsonText id, const char *file, int64_t line, int64_t bytes);

/* Bins of the length histograms: bin i has documents of 2^i bytes and more. */
enum { COUNTS_LENGTHS = 40 };

typedef struct { int64_t documents, bytes; } Count;
typedef struct {
    Count   in, kept, written;
    Count   dropped[DROP_REASONS];
    int64_t length_in[COUNTS_LENGTHS], length_kept[COUNTS_LENGTHS];
    int64_t charset[CHARSET_COUNTS];
    /* Lines removed by each rule from documents that passed. */
    int64_t lines[QUALITY_RULES];
    /* Documents whose UTF-8 was repaired; wiki pages that are no articles (RecordWalk.skipped_pages);
     * lines or paragraphs removed as repetitions. */
    int64_t repaired, skipped_pages, parts;
    int64_t damaged;                                /* files */
    /* Length of language[]: labels of the model, and at the end "none". */
    int64_t languages;
    Count   language[];
} CleanCounts;

/* All zero. The caller frees it with free(); NULL: out of memory. */
CleanCounts *clean_counts_new      (int languages);
void         clean_counts_clear    (CleanCounts *t);
/* Both must have the same number of languages. */
void         clean_counts_add      (CleanCounts *to, const CleanCounts *from);
/* Counts one dropped document of `bytes` bytes; DROP_KEPT counts nothing. */
void         clean_counts_drop     (CleanCounts *t, int rule, int64_t bytes);
void         clean_counts_length   (int64_t length[COUNTS_LENGTHS], int64_t bytes);
/* The struct's size in int64_t, language[] included. */
int64_t      clean_counts_numbers  (const CleanCounts *t);

typedef struct { int label; Count count; } LanguageRow;         /* label: index of CleanCounts.language */
/* The `most` languages with most documents, in descending order; languages without documents are left out.
 * Returns the number of rows. */
int          clean_counts_languages(LanguageRow *row, int most, const CleanCounts *t);
#endif
