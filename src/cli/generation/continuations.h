#ifndef CLI_GENERATION_CONTINUATIONS_H
#define CLI_GENERATION_CONTINUATIONS_H
/* What jotun generate prints on rank 0. The one text of --prompt is written with its prompt, token by token
 * as they are drawn. Those of a --prompt-file are lines of JSON in the order of the file: a prompt whose text
 * ends before the texts of earlier ones waits for them. */
#include <stdio.h>
#include "cli/generation/prompts.h"
#include "text/decoder.h"

typedef struct { int32_t *id; int64_t count; bool ended; } Continuation;

typedef struct {
    const Tokenizer *tokenizer;
    const Prompts   *prompts;
    bool             lines;             /* of JSON */
    FILE            *out;
    Decoder          decoder;
    Continuation    *of;                /* [prompts], owned, with room for the `most` ids of each */
    int32_t         *id;                /* owned: of all of them */
    int64_t          next;              /* the first prompt that has not been written */
    Status           status;            /* of writing; with its message in fail_text() */
} Continuations;

/* NO_MEMORY. Close it after a failure too. */
Status continuations_open (Continuations *c, const Tokenizer *tokenizer, const Prompts *prompts, bool lines,
                           FILE *out);
/* The next id of a prompt, or GENERATED_END. */
void   continuations_take (Continuations *c, int64_t prompt, int32_t id);
void   continuations_close(Continuations *c);
#endif
