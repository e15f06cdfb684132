/* Sampling of the next token: temperature, top-k and top-p. */
#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "generate/generation.h"

typedef struct { double weight; int32_t id; } TokenCandidate;

/* For qsort: descending weight. Equal weights are ordered by id, so that the order is the same with every C
 * library. */
static int compare_weights(const void *a, const void *b)
{
    const TokenCandidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* How many of the sorted candidates can be drawn: the first top_k, and of these the first whose probabilities
 * sum to top_p. The probabilities are those of all ids, also after top_k. */
static int64_t count_allowed(const TokenCandidate *c, int64_t V, double total, const Sampling *s)
{
    int64_t n = s->top_k > 0 && s->top_k < V ? s->top_k : V;
    if (s->top_p <= 0 || s->top_p >= 1) return n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((sum += c[i].weight) >= s->top_p * total) return i + 1;
    return n;
}

/* Of equal ones the first. */
static int32_t likeliest(const double *logits, int64_t V)
{
    int64_t best = 0;
    for (int64_t i = 1; i < V; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* Prompts take the numbers of 2^32 tokens each. */
static double uniform_number(const Sampling *s, int64_t prompt, int64_t number)
{
    return random_uniform(random_key(s->seed, "sample"), ((uint64_t)prompt << 32) + (uint64_t)number);
}

int32_t sample_id(const double *logits, int64_t V, const Sampling *s, int64_t prompt, int64_t number)
{
    if (s->temperature <= 0) return likeliest(logits, V);
    TokenCandidate *c = malloc((size_t)V * sizeof *c);
    CHECK(c, "no memory for %lld candidates", (long long)V);
    /* the maximum is subtracted, so that exp cannot overflow */
    double top = logits[0], total = 0, sum = 0;
    for (int64_t i = 1; i < V; i++) top = fmax(top, logits[i]);
    for (int64_t i = 0; i < V; i++) {
        c[i] = (TokenCandidate){ exp((logits[i] - top) / s->temperature), (int32_t)i };
        total += c[i].weight;
    }
    qsort(c, (size_t)V, sizeof *c, compare_weights);
    int64_t n = count_allowed(c, V, total, s), pick = 0;
    for (int64_t i = 0; i < n; i++) sum += c[i].weight;
    /* The candidate in whose interval a uniform number of [0, sum) is; rounding may leave it at the last
     * one. */
    double left = uniform_number(s, prompt, number) * sum;
    while (pick + 1 < n && (left -= c[pick].weight) >= 0) pick++;
    int32_t id = c[pick].id;
    free(c);
    return id;
}
