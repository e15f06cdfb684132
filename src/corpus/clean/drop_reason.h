#ifndef CORPUS_CLEAN_DROP_REASON_H
#define CORPUS_CLEAN_DROP_REASON_H
/* Why a document is dropped: one number for each reason, in the order of the stages. The numbers index
 * CleanCounts.dropped. */
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"

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
#endif
