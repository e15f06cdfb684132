#ifndef CLI_GENERATION_CONTINUATIONS_H
#define CLI_GENERATION_CONTINUATIONS_H
/* What jotun generate asks of the engine and prints, on rank 0: each prompt as often as it is to be
 * continued, in the order of the prompts. The one text of --prompt is written with its prompt, as its tokens
 * are drawn; what may become a stop word waits. Others are lines of JSON in the order of the prompts: a text
 * that ends before earlier ones waits for them. */
#include <stdio.h>
#include "cli/generation/prompts.h"
#include "serve/served_text.h"

typedef struct {
    ServedText  text;                   /* closed once it is written */
    int64_t     written;                /* bytes of it, while it is drawn */
    const char *reason;                 /* why it ended; NULL: it has not */
    bool        scored;
    double      score;                  /* of beam search */
} Continuation;

typedef struct {
    const Tokenizer *tokenizer;
    const Prompts   *prompts;
    int64_t          each;              /* continuations of a prompt */
    bool             lines;             /* of JSON */
    FILE            *out;
    Continuation    *of;                /* [prompts x each], owned */
    int64_t          asked, next;       /* the next that is asked for; the first that has not been written */
    int64_t          tokens;            /* drawn */
    int64_t          begun, reported;   /* seam clock: of its begin, of its last line in the log */
    Status           status;            /* of writing; with its message in fail_text() */
} Continuations;

/* NO_MEMORY. Close it after a failure too. */
Status continuations_open (Continuations *c, const Tokenizer *tokenizer, const Prompts *prompts, int64_t each,
                           bool lines, FILE *out);
/* What the engine is run with. */
RequestSource continuations_source(Continuations *c);
/* A line in the log: tokens in how much time. */
void   continuations_tell (const Continuations *c);
void   continuations_close(Continuations *c);
#endif
