#ifndef CORPUS_CLEAN_DOCUMENT_FILTER_H
#define CORPUS_CLEAN_DOCUMENT_FILTER_H
/* One document through all that can be said of it alone. A DocumentFilter is for all threads, a FilterWorkspace for one. */
#include "corpus/clean/clean_plan.h"
#include "corpus/dedup/exact.h"
#include "text/fasttext/langid.h"

typedef struct {
    const CleanPlan *plan;
    Langid        *langid;          /* NULL: languages are not asked for */
    int            languages, wanted;        /* labels; which is ours, or -1 */
    Charset       *charset;
    Quality       *quality;
    Contamination *contamination;
    MinHash          *near;            /* NULL: not looked for. Judges only use its shape */
    int            keys;            /* of a document: its bands */
} DocumentFilter;

typedef struct {
    Buffer             text, spare;
    LangidSpace       *langid;
    QualitySpace      *quality;
    ContaminationFound found;
    ExactSpace         exact;
    Shingles           shingles;
    uint64_t           key[MINHASH_PERMUTATIONS_MOST];
} FilterWorkspace;

typedef struct {
    int     rule;                   /* DROP_KEPT: its text stands in the bench, and hash and keys are made */
    int     label;                  /* of the language, -1: none was found or asked for */
    float   probability;
    Hash128 hash;
} FilterResult;

Status document_filter_open (DocumentFilter *filter, const CleanPlan *plan, const char *folder);      /* folder: for what near spills */
void   document_filter_close(DocumentFilter *filter);
Status filter_workspace_open (FilterWorkspace *workspace, const DocumentFilter *filter);
void   filter_workspace_close(FilterWorkspace *workspace);
Status document_filter_record(const DocumentFilter *filter, FilterWorkspace *workspace, FilterResult *result, const Record *record, CleanCounts *counts);
const char *document_filter_label(const DocumentFilter *filter, int label);        /* "sv"; "none" */
#endif
