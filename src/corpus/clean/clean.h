#ifndef CORPUS_CLEAN_CLEAN_H
#define CORPUS_CLEAN_CLEAN_H
/* The command `clean`: raw corpora in, clean documents of one language out. A run has three stages:
 *
 *   scan      files -> blocks -> workers: record, charset, language, quality, contamination -> document
 *             store, in the order of the inputs (scan.c)
 *   resolve   over all documents of the store: exact duplicates, then near-duplicates; the first of each
 *             set is kept (resolve_duplicates.c)
 *   write     the kept documents, in order, to the output files; on request also dropped documents,
 *             clusters and pairs (write.c)
 *
 * The output depends neither on the number of workers nor on the memory limit nor on whether a run was
 * killed and resumed. */
#include <signal.h>
#include "corpus/quality/charset.h"
#include "corpus/dedup/contamination.h"
#include "corpus/dedup/minhash.h"
#include "corpus/quality/quality.h"
#include "corpus/read/record.h"
#include "corpus/clean/counts.h"

typedef enum { CLEAN_TEXT, CLEAN_JSON } CleanFormat;

/* The options, parsed and checked. cli/cmd_clean.c fills it; the caller owns all strings and arrays, which
 * must stay valid during the run. */
typedef struct {
    /* Inputs. */
    const char *const *path;  int paths;            /* "-" is standard input */
    const BlockKind *kind;                          /* [paths] the format of each (corpus/read/inputs.h) */
    /* A file of which 64 MiB come out of less than 1/ratio_most of that is refused; 0: none is. */
    int64_t     ratio_most;
    TextRules   texts;          /* encoding of the inputs, windows of zstd */
    RecordPlan  record;
    /* OSCAR's quality warnings; a document with one of them is dropped. */
    const char *const *warning;  int warnings;

    /* Stages of a single document. */
    CharsetPlan charset;
    /* The label of `model` that is kept, as "sv"; NULL: all, languages are only counted. The path of a
     * fastText model; NULL: languages are not identified. */
    const char *language, *model;
    double      threshold;                          /* least probability of the language */
    QualityPlan quality;
    /* language of the stop words, as "sv"; a file, NULL: none */
    const char *stop_words, *bad_words;
    ContaminationPlan contamination;                /* without paths: no decontamination */
    /* true: remove the matches and their surroundings; false: the document */
    bool        contamination_cuts;

    /* Deduplication. */
    bool        exact;
    const ExactNormalization *normalization;
    /* Lines or paragraphs whose repetitions are removed; DOCUMENTS: none. */
    ExactUnit   parts;
    double      near_threshold;                     /* Jaccard similarity; 0: no near-duplicate detection */
    int         near_bands, near_rows, near_words;  /* MinHash bands, rows of a band, words of a shingle */

    /* Resources and outputs. */
    int         workers;                            /* threads */
    /* memory: bytes that deduplication may use before it spills to disk. part_bytes: progress is saved
     * each time so many bytes of the inputs were read. */
    int64_t     memory, part_bytes;
    /* All but `output` may be NULL: not wanted. */
    const char *output, *dropped, *clusters, *pairs, *report;
    CleanFormat format;
    int64_t     shard_bytes;                        /* bytes of text a shard; 0: one file */
    bool        folder;                             /* output is a directory */
    /* above 0: about so many documents are checked, nothing is written */
    int64_t     sample;
    bool        restart;                            /* discard the progress of an earlier run */
    /* Lines that a resumed run must have in common with this one. */
    const char *identity;
    const volatile sig_atomic_t *stop;              /* not 0: save progress and return INTERRUPTED */
} CleanPlan;

/* Runs all three stages and prints the table of counts on standard output. Progress is kept in
 * OUTPUT.work, so that the same command resumes after a kill; the directory is removed after success.
 * INTERRUPTED: *plan->stop was set, progress is saved. BAD_OPTION: paths that collide, or a work directory
 * that belongs to other options or inputs. BAD_FILE, IO_FAILED, NO_MEMORY: as the message says. */
Status clean_run(const CleanPlan *plan);
/* The path of the page of a report, which is written by who has the command: "a/report.json" gives
 * "a/report.html". */
void   report_page_path(char *out, size_t size, const char *path);
#endif
