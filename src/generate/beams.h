#ifndef GENERATE_BEAMS_H
#define GENERATE_BEAMS_H
/* Private to this directory. Beam search of one request, as engine.h says, without tensors: candidates in,
 * the beams that continue out. */
#include "generate/engine.h"

/* id, logprob: [most], owned */
typedef struct { double score; int64_t count; int32_t *id; float *logprob; } BeamText;

typedef struct {
    int      beams;
    int64_t  most, made;
    double   length_penalty;
    int32_t  end;
    /* score: the sum of log-probabilities. other: where the next beams are made */
    BeamText *running, *other, *finished;          /* [beams] each, owned */
    int      alive, done;                          /* beams that run; texts that are finished */
} BeamSearch;

/* The likeliest continuations of a beam, 2 beams of them; ids -1 are none */
typedef struct { const int32_t *id; const float *logprob; } BeamCandidates;

BeamSearch *beams_open (const Request *request, int32_t end);
void        beams_close(BeamSearch *search);                       /* NULL is allowed */
/* One token more. from: [alive] candidates. parent: of each beam that continues, `alive` of them then; its
 * last id is running[i].id[made - 1]. Returns whether the search continues. */
bool        beams_step (BeamSearch *search, const BeamCandidates *from, int parent[BEAMS_MOST]);
/* The answer: the finished text with the best score. NULL: none is finished. */
const BeamText *beams_best(const BeamSearch *search);
#endif
