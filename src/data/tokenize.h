#ifndef DATA_TOKENIZE_H
#define DATA_TOKENIZE_H
/* Files of documents to token ids with several threads, in the order of the text: one thread reads and
 * decompresses ahead, `workers` threads parse and encode blocks of lines, and the caller receives one
 * batch after the other. The ids do not depend on the number of workers. Memory is a few blocks for each
 * worker, however long the text is.
 *
 *     TokenizeRun *run;
 *     TRY(tokenize_open(&run, &plan));                    the plan and all it points at must outlive the run
 *     const TokenizeBatch *batch;
 *     for (;;) {
 *         status = tokenize_next(run, &batch);            valid until the next call
 *         if (status != OK || !batch) break;
 *         ...
 *     }
 *     tokenize_close(run);                                at any time */
#include "corpus/read/lines.h"
#include "text/tokenizer.h"

typedef struct {
    const char *const *path;  int paths;
    const char *const *key;   int keys;         /* of JSON lines */
    const Tokenizer *tokenizer;
    bool    append_eod;                         /* an end-of-document id after each text that has ids */
    /* Skip broken lines and the rest of damaged files; else they are errors. */
    bool    skip;
    int     workers;
    int64_t line_most;                          /* bytes; a longer line is skipped, whatever `skip` says */
    TextRules texts;                            /* encoding of the files, windows of zstd */
    int64_t ratio_most;                         /* limit on decompressed bytes per compressed byte */
} TokenizePlan;

enum { TOKENIZE_MESSAGES = 8 };                 /* messages about skipped lines that a batch carries */

/* The ids of document d under key k end at end[d * keys + k], and begin where the previous ones end. A
 * document without text has no ids. The arrays belong to the run. */
typedef struct {
    int64_t  documents;
    const int32_t *ids;
    const int64_t *end;                         /* [documents, keys] */
    int64_t  bytes_read;                        /* bytes of all files read so far, compressed */
    int64_t  faults;                            /* lines skipped; a damaged file counts as one */
    char     messages[TOKENIZE_MESSAGES][FAIL_BYTES];  /* messages about the first of them */
} TokenizeBatch;

typedef struct TokenizeRun TokenizeRun;
Status tokenize_open (TokenizeRun **run, const TokenizePlan *plan);
Status tokenize_next (TokenizeRun *run, const TokenizeBatch **batch);         /* *batch is NULL at the end */
void   tokenize_close(TokenizeRun *run);                                      /* NULL is allowed */
#endif
