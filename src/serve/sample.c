#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "serve/generate.h"

typedef struct { double weight; int32_t id; } Candidate;

static int likelier(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* how many of the sorted candidates stay: the first top_k, then the first that make up top_p */
static int64_t kept(const Candidate *c, int64_t V, double total, const Sampling *s)
{
    int64_t n = s->top_k > 0 && s->top_k < V ? s->top_k : V;
    if (s->top_p <= 0 || s->top_p >= 1) return n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((sum += c[i].weight) >= s->top_p * total) return i + 1;
    return n;
}

int32_t sample_id(const double *logits, int64_t V, const Sampling *s, int64_t number)
{
    Candidate *c = malloc((size_t)V * sizeof *c);
    CHECK(c, "no memory for %lld candidates", (long long)V);
    double top = logits[0], total = 0, sum = 0;
    for (int64_t i = 1; i < V; i++) top = fmax(top, logits[i]);
    for (int64_t i = 0; i < V; i++) {
        c[i] = (Candidate){ s->temperature > 0 ? exp((logits[i] - top) / s->temperature) : logits[i] == top, (int32_t)i };
        total += c[i].weight;
    }
    qsort(c, (size_t)V, sizeof *c, likelier);
    int64_t n = s->temperature > 0 ? kept(c, V, total, s) : 1, pick = 0;
    for (int64_t i = 0; i < n; i++) sum += c[i].weight;
    double left = random_uniform(random_key(s->seed, "sample"), (uint64_t)number) * sum;
    while (pick + 1 < n && (left -= c[pick].weight) >= 0) pick++;
    int32_t id = c[pick].id;
    free(c);
    return id;
}
