#ifndef CORPUS_CLEAN_DOCUMENT_FILTER_H
#define CORPUS_CLEAN_DOCUMENT_FILTER_H
/* The stages that check one document alone: charset, language, quality, contamination; then its hash and
 * MinHash keys. A DocumentFilter is read-only after opening and shared by all threads; each thread has a
 * FilterWorkspace of its own. */
#include "corpus/clean/clean.h"
#include "corpus/dedup/exact.h"
#include "text/fasttext/langid.h"

typedef struct {
    const CleanPlan *plan;
    Langid        *langid;          /* NULL: languages are not identified */
    int            languages, wanted;       /* labels of the model; the one that is kept, -1: any */
    Charset       *charset;
    Quality       *quality;         /* NULL: no rule is on */
    Contamination *contamination;   /* NULL: no test sets */
    /* NULL: no near-duplicate detection. The stages use only its parameters. */
    MinHash       *minhash;
    int            keys;            /* MinHash keys of a document: the number of bands */
} DocumentFilter;

typedef struct {
    Buffer             text, spare; /* text: the document as the stages have changed it so far */
    LangidSpace       *langid;
    QualitySpace      *quality;
    ContaminationFound found;
    ExactSpace         exact;
    Shingles           shingles;
    uint64_t           key[MINHASH_PERMUTATIONS_MOST];
} FilterWorkspace;

typedef struct {
    /* DROP_KEPT: workspace.text, hash and workspace.key are valid; else why it is dropped. */
    int     rule;
    int     label;                  /* identified language; -1: none */
    float   probability;
    Hash128 hash;                   /* of the normalized text; only set with plan->exact */
} FilterResult;

/* folder: where near-duplicate detection may spill. On failure everything is released. BAD_OPTION: the
 * model has no such label. BAD_FILE: a model, word list or test set is unusable. */
Status document_filter_open  (DocumentFilter *filter, const CleanPlan *plan, const char *folder);
void   document_filter_close (DocumentFilter *filter);
Status filter_workspace_open (FilterWorkspace *workspace, const DocumentFilter *filter);
void   filter_workspace_close(FilterWorkspace *workspace);
/* Judges one document and adds to `counts` what the stages changed and which language was found; counting
 * the document itself and its fate is up to the caller. NO_MEMORY is the only failure. */
Status document_filter_record(const DocumentFilter *filter, FilterWorkspace *workspace, FilterResult *result,
                              const Record *record, CleanCounts *counts);
/* A label as people write it, as "sv"; "none" for -1. */
const char *document_filter_label(const DocumentFilter *filter, int label);
#endif
