#ifndef CORPUS_CLEAN_RULE_H
#define CORPUS_CLEAN_RULE_H
/* Why a document goes: one number a reason, in the order in which documents meet them. */
#include "corpus/quality.h"
#include "corpus/record.h"

enum {
    RULE_FAULT,                                         /* + RecordFaultKind: it is no document */
    RULE_EMPTY = RULE_FAULT + RECORD_FAULTS,            /* no text, or none is left */
    RULE_WARNED,                                        /* OSCAR's own warnings */
    RULE_CHARSET,
    RULE_LANGUAGE,
    RULE_QUALITY,                                       /* + QualityRule */
    RULE_CONTAMINATED = RULE_QUALITY + QUALITY_RULES,
    RULE_EXACT,
    RULE_NEAR,
    RULE_PARTS,                                         /* all its lines stood before */
    RULES,
    RULE_KEPT = -1
};

const char *rule_word(int rule);                        /* "too long", "quality: words-min", "exact duplicate" */
#endif
