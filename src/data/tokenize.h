#ifndef DATA_TOKENIZE_H
#define DATA_TOKENIZE_H
/* Files of documents to token ids on many threads, in the order of the text: one thread reads and decompresses ahead,
 * `workers` parse and encode blocks of lines, and the caller gets one batch after the other. The ids do not depend on the
 * number of workers. Memory: a few blocks for each worker, however long the text is.
 *
 *     TokenizeRun *run;
 *     TRY(tokenize_open(&run, &plan));                            the plan and all it points at outlive the run
 *     const TokenizeBatch *batch;
 *     for (;;) {
 *         status = tokenize_next(run, &batch);                    good until the next call
 *         if (status != OK || !batch) break;
 *         ...
 *     }
 *     tokenize_close(run);                                        at any time                                         */
#include "corpus/read/lines.h"
#include "text/tokenizer.h"

typedef struct {
    const char *const *path;  int paths;
    const char *const *key;   int keys;         /* of JSON lines */
    const Tokenizer *tokenizer;
    bool    append_eod, skip;                   /* skip: pass over broken lines and what comes behind damage */
    int     workers;
    int64_t line_most, ratio_most;              /* a longer line is passed over, whatever `skip` says */
} TokenizePlan;

enum { TOKENIZE_TOLD = 8 };

/* The ids of document d under key k end at end[d * keys + k], and begin where the ones before them ended. A document
 * without text has no ids. */
typedef struct {
    int64_t  documents;
    const int32_t *ids;
    const int64_t *end;
    int64_t  behind;                            /* bytes of all files read so far */
    int64_t  faults;                            /* lines passed over; a damaged file counts as one */
    char     told[TOKENIZE_TOLD][512];              /* about the first of them */
} TokenizeBatch;

typedef struct TokenizeRun TokenizeRun;
Status tokenize_open (TokenizeRun **run, const TokenizePlan *plan);
Status tokenize_next (TokenizeRun *run, const TokenizeBatch **batch);         /* *batch NULL: the end */
void   tokenize_close(TokenizeRun *run);
#endif
