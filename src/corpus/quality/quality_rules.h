#ifndef CORPUS_QUALITY_RULES_H
#define CORPUS_QUALITY_RULES_H
/* The quality rules as rows of quality.def, a plan of which rules are on with which limits, and the
 * verdict on a document. */
#include <stdbool.h>
#include "base/buffer.h"

typedef enum {
#define RULE(rule, name, side, limit, preset, source, help) QUALITY_##rule,
#include "corpus/quality/quality.def"
#undef RULE
    QUALITY_RULES
} QualityRule;

/* LEAST, MOST: a document whose figure is below or above the limit is dropped. LINE: single lines are
 * removed. */
typedef enum { QUALITY_LEAST, QUALITY_MOST, QUALITY_LINE } QualitySide;
typedef struct { const char *name, *preset, *source, *help; QualitySide side; double limit; } QualityRow;
extern const QualityRow quality_row[QUALITY_RULES];

typedef struct { bool on[QUALITY_RULES]; double limit[QUALITY_RULES]; } QualityPlan;
/* Published limits, and the rules of the presets on. presets: names separated by commas, or "none".
 * BAD_OPTION: an unknown name. */
Status quality_plan(QualityPlan *plan, const char *presets);
/* Changes of a plan, separated by commas: RULE=on, RULE=off, or RULE=LIMIT, which also switches it on.
 * BAD_OPTION: an unknown rule, or a limit that is no finite number >= 0. */
Status quality_set (QualityPlan *plan, const char *changes);

typedef struct {
    int     rule;                           /* the first rule that the document broke; -1: none */
    double  figure;                         /* the document's figure for that rule */
    int64_t lines[QUALITY_RULES];           /* lines removed, or citations removed, by each LINE rule */
} QualityVerdict;

typedef struct QualitySpace QualitySpace;   /* working memory: one for each thread */
#endif
