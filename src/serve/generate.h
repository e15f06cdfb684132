#ifndef SERVE_GENERATE_H
#define SERVE_GENERATE_H
/* Generation on one rank: continues a prompt token by token, with the keys and values of earlier positions
 * cached (KvCache in model/unit.h: of each layer [1, capacity, G, D]), so that each new token costs one
 * forward of one position. */
#include "parallel/stage_executor.h"

/* How a token is drawn: softmax with a temperature, restricted to the top_k likeliest tokens and to the
 * smallest set of them with probability top_p (nucleus sampling, arXiv 1904.09751). temperature 0: always the
 * likeliest; top_k 0, top_p 0: no restriction. */
typedef struct { double temperature, top_p; int64_t top_k; uint64_t seed; } Sampling;

typedef struct {
    int64_t  capacity;                             /* positions: of the prompt and of what is generated */
    /* tokens are drawn from ids 0 .. ids - 1; 0: from the model's vocabulary */
    int32_t  ids;
    /* the id that ends the text, which is not emitted; -1: none */
    int32_t  end;
    Sampling sampling;
    void   (*emit)(void *context, int32_t id);     /* called for each new id when it is drawn */
    void    *context;
} Generation;

/* Bytes of the key-value cache of all layers and of the logits after one token: what generate pushes on its
 * session arena. */
size_t generate_bytes(const ModelConfig *config, Precision precision, int64_t capacity);

/* Emits tokens until `end` or until prompt and new tokens fill the capacity. `executor` has one stage with
 * one chunk, and slots of at least `capacity` rows; `prompt` has 1 to `capacity` ids. Logits that are not
 * finite are a CHECK: the weights are broken. */
void   generate(StageExecutor *executor, Arena *session, const Generation *g, const int32_t *prompt,
                int64_t count);

/* Draws an id from the logits of V ids. `number` counts the tokens drawn before: the random number depends on
 * (seed, number) alone. Sorting makes it O(V log V). */
int32_t sample_id(const double *logits, int64_t V, const Sampling *sampling, int64_t number);
#endif
