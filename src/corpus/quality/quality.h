#ifndef CORPUS_QUALITY_QUALITY_H
#define CORPUS_QUALITY_QUALITY_H
/* Heuristic quality rules that tell prose from boilerplate, lists and spam, after Gopher (Rae et al.,
 * 2021, arXiv:2112.11446), C4 (Raffel et al., 2020, arXiv:1910.10683) and FineWeb (Penedo et al., 2024,
 * arXiv:2406.17557). Each is one row of quality.def, and they are applied in the order of the rows. Words
 * are separated by white space, lines by line ends; lengths are in characters.
 *
 *     QualityPlan plan;
 *     TRY(quality_plan(&plan, "gopher,c4"));                          names of presets, or "none"
 *     TRY(quality_set(&plan, "words-min=30,bullet-lines=off"));       a limit, or a rule switched on or off
 *     TRY(quality_open(&quality, &plan, "sv", NULL));
 *     TRY(quality_check(quality, space, &text, &verdict));
 *
 * Time is linear in the document. A QualitySpace keeps its memory for the next document: at most 128 bytes
 * for each word and 64 for each line of the longest document so far. */
#include <stdbool.h>
#include "base/buffer.h"

typedef enum {
#define RULE(rule, name, side, limit, preset, source, facts, figure, help) QUALITY_##rule,
#include "corpus/quality/quality.def"
#undef RULE
    QUALITY_RULES
} QualityRule;

/* LEAST, MOST: a document whose figure is below or above the limit is dropped. LINE: single lines are
 * removed. */
typedef enum { QUALITY_LEAST, QUALITY_MOST, QUALITY_LINE } QualitySide;
typedef struct { const char *name, *preset; QualitySide side; double limit; } QualityRow;
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

typedef struct Quality Quality;             /* read-only after opening; shared by all threads */
/* language: of the stop words, needed where that rule is on. bad_words: a file with one word or phrase a
 * line; NULL switches the rule off. BAD_OPTION: no stop words for the language, or the bad-words rule
 * without a file. BAD_FILE: the file. */
Status quality_open (Quality **quality, const QualityPlan *plan, const char *language, const char *bad_words);
void   quality_close(Quality *quality);                     /* NULL is allowed */
Status quality_space_open (QualitySpace **space);           /* one for each thread */
void   quality_space_close(QualitySpace *space);

/* Judges one document of valid UTF-8. LINE rules remove lines from `text` in place: the rules of rows
 * above them see all lines, those below see what is left. NO_MEMORY is the only failure. */
Status quality_check (const Quality *quality, QualitySpace *space, Buffer *text, QualityVerdict *verdict);
#endif
