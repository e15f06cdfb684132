#ifndef GENERATE_SAMPLE_H
#define GENERATE_SAMPLE_H
/* The draw of a token from logits, as engine.h says. All sums are in double and in an order that depends on
 * the logits alone. Nothing is allocated after sample_open, and nothing is sorted: the most probable ids are
 * found by selection, in time proportional to the vocabulary. */
#include "generate/engine.h"

typedef struct { double weight; int32_t id; } TokenCandidate;

/* V: logits of a token; ids: those that can be drawn are 0 .. ids - 1 */
typedef struct {
    int64_t V, ids;
    double *logits, *x, *weight;           /* [V]: the model's, set by the caller; after penalties */
    int32_t *count;                        /* [V]: of each id in a text; zeros between two draws */
    TokenCandidate *candidate;             /* [V] */
} SampleWork;

/* Bytes of the memory that sample_open wants, aligned to 8; it belongs to the work. */
int64_t sample_bytes(int64_t V);
void    sample_open (SampleWork *work, int64_t V, int64_t ids, void *memory);
/* Brings n logits to `out`. Returns whether all are finite: one that is not would be drawn, or spoil the
 * weights of the others. */
bool    sample_widen(double *out, const float  *x, int64_t n);
bool    sample_copy (double *out, const double *x, int64_t n);
/* Log of the sum of exponentials of all logits; log-probability of an id, from it. */
double  sample_lse    (SampleWork *work);
float   sample_logprob(const SampleWork *work, int32_t id, double lse);
/* The n ids with the largest logits, of equal ones the first, and their log-probabilities; -1 and -infinity
 * where there are fewer ids. */
void    sample_likeliest(const SampleWork *work, int32_t *id, float *logprob, int64_t n, double lse);
/* Draws from work->logits. text: [length] ids, of which the first `prompt` are the prompt. */
int32_t sample_draw(SampleWork *work, const Sampling *sampling, const int32_t *text, int64_t prompt,
                    int64_t length, uint64_t stream);
#endif
