#ifndef CORPUS_CLEAN_JUDGE_H
#define CORPUS_CLEAN_JUDGE_H
/* One document through all that can be said of it alone. A Judge is for all threads, a Bench for one. */
#include "corpus/clean/clean.h"
#include "corpus/exact.h"
#include "text/fasttext.h"

typedef struct {
    const CleanPlan *plan;
    Langid        *langid;          /* NULL: languages are not asked for */
    int            languages, wanted;        /* labels; which is ours, or -1 */
    Charset       *charset;
    Quality       *quality;
    Contamination *contamination;
    Near          *near;            /* NULL: not looked for. Judges only use its shape */
    int            keys;            /* of a document: its bands */
} Judge;

typedef struct {
    Buffer             text, spare;
    LangidSpace       *langid;
    QualitySpace      *quality;
    ContaminationFound found;
    ExactSpace         exact;
    Shingles           shingles;
    uint64_t           key[NEAR_PERMUTATIONS_MOST];
} Bench;

typedef struct {
    int     rule;                   /* RULE_KEPT: its text stands in the bench, and hash and keys are made */
    int     label;                  /* of the language, -1: none was found or asked for */
    float   probability;
    Hash128 hash;
} Judgement;

Status judge_open (Judge *judge, const CleanPlan *plan, const char *folder);      /* folder: for what near spills */
void   judge_close(Judge *judge);
Status bench_open (Bench *bench, const Judge *judge);
void   bench_close(Bench *bench);
Status judge_record(const Judge *judge, Bench *bench, Judgement *judgement, const Record *record, Tally *tally);
const char *judge_label(const Judge *judge, int label);        /* "sv"; "none" */
#endif
