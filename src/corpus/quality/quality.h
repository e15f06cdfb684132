#ifndef CORPUS_QUALITY_QUALITY_H
#define CORPUS_QUALITY_QUALITY_H
/* Rules of thumb that tell prose from the rest of the web, after Gopher, C4 and FineWeb: one row of quality.def each,
 * judged in the order of the rows. Time is linear in the document; memory, kept
 * for the next one: at most 128 bytes for each word and 64 for each line of the longest document so far. Words stand between white space, lines between line ends; lengths are in characters.
 *
 *     QualityPlan plan;
 *     TRY(quality_plan(&plan, "gopher,c4"));                          names of presets, or "none"
 *     TRY(quality_set(&plan, "words-min=30,bullet-lines=off"));       a limit, or a rule switched on or off
 *     TRY(quality_open(&quality, &plan, "sv", NULL));
 *     TRY(quality_judge(quality, space, &text, &verdict));                                                           */
#include "corpus/quality/quality_rules.h"

typedef struct Quality Quality;             /* for all threads */
/* language: whose stop words, needed where that rule is on; bad_words: a file, one a line, needed where that is on */
Status quality_open (Quality **quality, const QualityPlan *plan, const char *language, const char *bad_words);
void   quality_close(Quality *quality);
Status quality_space_open (QualitySpace **space);
void   quality_space_close(QualitySpace *space);

/* LINE rules take lines out of the text; the rules of rows above them see all lines, those below what is left. */
Status quality_judge (const Quality *quality, QualitySpace *space, Buffer *text, QualityVerdict *verdict);
/* The figures of all rules that are on, whatever falls; NAN for LINE rules and those that are off. text does not change. */
Status quality_figures(const Quality *quality, QualitySpace *space, const Buffer *text, double figure[QUALITY_RULES]);
#endif
