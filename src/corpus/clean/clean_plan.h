#ifndef CORPUS_CLEAN_CLEAN_PLAN_H
#define CORPUS_CLEAN_CLEAN_PLAN_H
/* What a run of jotun clean is asked for: the options, read and checked. */
#include <signal.h>
#include "corpus/quality/charset.h"
#include "corpus/dedup/contamination.h"
#include "corpus/dedup/minhash.h"
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"
#include "corpus/clean/counts.h"

typedef enum { CLEAN_TEXT, CLEAN_JSON } CleanFormat;

typedef struct {
    const char *const *path;  int paths;
    BlockKind   shape;
    int64_t     ratio_most;
    RecordPlan  record;
    const char *const *warning;  int warnings;      /* OSCAR's, of documents to be dropped */

    CharsetPlan charset;
    const char *language, *model;                   /* "sv"; NULL: any. The model alone counts languages */
    double      threshold;
    QualityPlan quality;
    const char *stop_words, *bad_words;             /* whose stop words: "sv"; a file */
    ContaminationPlan contamination;                /* without paths: none */
    bool        contamination_cuts;                 /* the hits go with what is around them; else the document */

    bool        exact;
    const ExactNormalization *normalization;
    ExactUnit   parts;                              /* LINES, PARAGRAPHS: those that stood before go; DOCUMENTS: none */
    double      near_threshold;                     /* 0: no near duplicates are looked for */
    int         near_bands, near_rows, near_words;

    int         workers;
    int64_t     memory, part_bytes;                 /* part_bytes: what is done is kept after so much was read */
    const char *output, *dropped, *clusters, *pairs, *report;       /* all but output may be NULL */
    CleanFormat format;
    int64_t     shard_bytes;                        /* 0: one file */
    bool        folder;                             /* output is a folder */
    int64_t     sample;                             /* above 0: so many documents, nothing is written */
    bool        restart;                            /* forget what a run before has done */
    const char *identity;                           /* lines: what a run that goes on must have in common with this one */
    const volatile sig_atomic_t *stop;              /* above 0: keep what is done and leave */
} CleanPlan;
#endif
