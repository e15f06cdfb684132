#ifndef GENERATE_GENERATION_H
#define GENERATE_GENERATION_H
/* What a generation is: prompts, and what of a rank it runs on. generate/generate.h runs it. */
#include "generate/engine.h"

/* id: [count], at least one, the caller's; most: new tokens, 0 or more */
typedef struct { const int32_t *id; int64_t count, most; } Prompt;

enum { GENERATED_END = -1 };

typedef struct {
    StageExecutor  *executor;                      /* its slots hold micro-batches of `rows` sequences */
    Pipeline       *pipeline;
    const Schedule *schedule;                      /* FORWARD, of `micros`; in a dry run of fewer */
    Comm           *tp, *cp, *pp, *data;           /* data: dp x cp */
    /* The caches, logits and ids are pushed on it. The caller resets it. */
    Arena          *arena;
    int64_t         rows;                          /* sequences of a micro-batch */
    int             micros;                        /* micro-batches of a data rank */
    /* positions: the most of a prompt and its new tokens, and the most of new tokens */
    int64_t         capacity, most;
    /* tokens are drawn from ids 0 .. ids - 1; 0: from the model's vocabulary */
    int32_t         ids;
    /* the id that ends the text, which is not emitted; -1: none */
    int32_t         end;
    /* Logits that are not finite end a text, and not the run: the steps of a training run continue. */
    bool            goes_on;
    Sampling        sampling;
    /* Called on every rank for each new id of each prompt when it is drawn, and with GENERATED_END after the
     * last one of a prompt. */
    void          (*emit)(void *context, int64_t prompt, int32_t id);
    /* Called on the ranks of the last stage, with the logits [vocabulary] that an id of one of their prompts
     * is drawn from; NULL: none. */
    void          (*look)(void *context, int64_t prompt, const double *logits);
    void           *context;
} Generation;

/* Draws an id from the logits of V ids. `number` counts the tokens of this prompt drawn before: the random
 * number depends on (seed, prompt, number) alone. Sorting makes it O(V log V), unless temperature is 0. */
int32_t sample_id(const double *logits, int64_t V, const Sampling *sampling, int64_t prompt, int64_t number);
#endif
