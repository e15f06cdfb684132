#ifndef SERVE_GENERATE_H
#define SERVE_GENERATE_H
/* Continues a sequence of ids with one rank's model, keys and values of earlier positions cached. */
#include "parallel/stage_executor.h"

typedef struct { double temperature, top_p; int64_t top_k; uint64_t seed; } Sampling;     /* temperature 0: the likeliest; top_k, top_p 0: all */
typedef struct {
    int64_t  capacity;                    /* positions: prompt and what is new */
    int32_t  ids, end;                    /* ids: it draws from the first so many, 0: from all of the model; end: ends the text, -1: none */
    Sampling sampling;
    void   (*emit)(void *context, int32_t id);     /* each new id as it comes */
    void    *context;
} Generation;

/* walk: one stage, one chunk, with slots of at least `capacity` rows, forward alone; session: holds the cache (generate_bytes of it) */
size_t generate_bytes(const ModelConfig *config, Dtype real, int64_t capacity);
void   generate(StageExecutor *executor, Arena *session, const Generation *g, const int32_t *prompt, int64_t count);
/* the next id out of V logits; number: how many were drawn before */
int32_t sample_id(const double *logits, int64_t V, const Sampling *sampling, int64_t number);
#endif
