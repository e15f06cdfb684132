#ifndef CORPUS_QUALITY_RULES_H
#define CORPUS_QUALITY_RULES_H
/* The rules of quality as rows of quality.def, which of them are on, and what a document broke. */
#include <stdbool.h>
#include "corpus/read/buffer.h"

typedef enum {
#define RULE(rule, name, side, limit, preset, source, help) QUALITY_##rule,
#include "corpus/quality/quality.def"
#undef RULE
    QUALITY_RULES
} QualityRule;

/* LEAST, MOST: a document whose figure lies below or above the limit falls. LINE: lines fall. */
typedef enum { QUALITY_LEAST, QUALITY_MOST, QUALITY_LINE } QualitySide;
typedef struct { const char *name, *preset, *source, *help; QualitySide side; double limit; } QualityRow;
extern const QualityRow quality_row[QUALITY_RULES];

typedef struct { bool on[QUALITY_RULES]; double limit[QUALITY_RULES]; } QualityPlan;
Status quality_plan(QualityPlan *plan, const char *presets);
Status quality_set (QualityPlan *plan, const char *changes);

typedef struct {
    int     rule;                           /* the first that the document broke, or -1 */
    double  figure;                         /* what it had */
    int64_t lines[QUALITY_RULES];           /* that fell, of each LINE rule */
} QualityVerdict;

typedef struct QualitySpace QualitySpace;   /* one a thread */
#endif
