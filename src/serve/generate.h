#ifndef SERVE_GENERATE_H
#define SERVE_GENERATE_H
/* Generation under every layout: continues prompts token by token, with the keys and values of earlier
 * positions cached (KvCache in model/unit.h), so that each new token costs one forward of one position.
 *
 *  tp   each rank caches its key-value heads; the logits, sharded over the vocabulary, are gathered
 *  pp   micro-batches travel through the stages by the rows of a FORWARD schedule; the last stage draws
 *  dp   each data rank continues prompts of its own; all run the same number of forwards, so that ZeRO 3 can
 *       gather weights
 *  cp   the prompts are distributed as sequences are in training, and each rank caches the keys of its
 *       positions; later positions are computed by all cp ranks, each over the keys that it has
 *
 * A round continues as many prompts as there are rows: data ranks x micro-batches x rows of a micro-batch. It
 * begins with a forward of all positions of the prompts, where shorter prompts are followed by padding; each
 * later forward is of one position of each row. Rows without a prompt, or whose text has ended, are
 * computed and ignored. No row sees another one or padding, so a prompt is continued as it is alone.
 *
 * Under sequence parallelism the first forward is padded until tp divides its rows. A forward of one position
 * is sequence-parallel only where tp divides the rows of a micro-batch; it has the same result either way. */
#include "parallel/pipeline.h"

/* How a token is drawn: softmax with a temperature, restricted to the top_k likeliest tokens and to the
 * smallest set of them with probability top_p (nucleus sampling, arXiv 1904.09751). temperature 0: always the
 * likeliest; top_k 0, top_p 0: no restriction. */
typedef struct { double temperature, top_p; int64_t top_k; uint64_t seed; } Sampling;

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
    Sampling        sampling;
    /* Called on every rank for each new id of each prompt when it is drawn, and with GENERATED_END after the
     * last one of a prompt. */
    void          (*emit)(void *context, int64_t prompt, int32_t id);
    /* Called on the ranks of the last stage, with the logits [vocabulary] that an id of one of their prompts
     * is drawn from; NULL: none. */
    void          (*look)(void *context, int64_t prompt, const double *logits);
    void           *context;
} Generation;

/* Continues each prompt until `end` or until it has its `most` new tokens. No prompt is longer than a
 * sequence of the executor's batches. Collective over all ranks, which give the same
 * prompts. Logits that are not finite are a CHECK: the weights are broken. In a dry run: one forward of whole
 * sequences and one of a position, whatever the prompts. <-> tp, pp, data */
void generate(const Generation *g, const Prompt *prompt, int64_t prompts);

/* Draws an id from the logits of V ids. `number` counts the tokens of this prompt drawn before: the random
 * number depends on (seed, prompt, number) alone. Sorting makes it O(V log V), unless temperature is 0. */
int32_t sample_id(const double *logits, int64_t V, const Sampling *sampling, int64_t prompt, int64_t number);
#endif
