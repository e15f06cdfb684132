#ifndef CORPUS_CLEAN_DROP_REASON_H
#define CORPUS_CLEAN_DROP_REASON_H
/* Why a document goes: one number a reason, in the order in which documents meet them. */
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"

enum {
    DROP_FAULT,                                         /* + RecordFaultKind: it is no document */
    DROP_EMPTY = DROP_FAULT + RECORD_FAULTS,            /* no text, or none is left */
    DROP_WARNED,                                        /* OSCAR's own warnings */
    DROP_CHARSET,
    DROP_LANGUAGE,
    DROP_QUALITY,                                       /* + QualityRule */
    DROP_CONTAMINATED = DROP_QUALITY + QUALITY_RULES,
    DROP_EXACT,
    DROP_NEAR,
    DROP_PARTS,                                         /* all its lines stood before */
    DROP_REASONS,
    DROP_KEPT = -1
};

const char *drop_reason_text(int rule);                        /* "too long", "quality: words-min", "exact duplicate" */
#endif
