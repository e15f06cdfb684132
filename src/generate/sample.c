/* Drawing: penalties, temperature, top-k, top-p and min-p by selection. */
#include "generate/sample.h"
#include <math.h>
#include <string.h>
#include "base/clones.h"
#include "base/exponential.h"
#include "base/random.h"

/* Each begins where the one before it ends, largest elements first. */
enum { SAMPLE_WORD = 3 * sizeof(double) + sizeof(TokenCandidate) + sizeof(int32_t) };

int64_t sample_bytes(int64_t V) { return V * SAMPLE_WORD; }

void sample_open(SampleWork *w, int64_t V, int64_t ids, void *memory)
{
    double *first = memory;
    TokenCandidate *candidate = (void *)(first + 3 * V);
    *w = (SampleWork){ .V = V, .ids = ids < V ? ids : V, .logits = first, .x = first + V,
                       .weight = first + 2 * V, .candidate = candidate, .count = (void *)(candidate + V) };
    memset(w->count, 0, (size_t)V * sizeof *w->count);
}

/* ---- loops over the vocabulary ---- */

/* Sums and maxima in LANES, which are joined in order: the same on every machine. */
enum { LANES = 8 };

/* A number that is not finite makes its product with 0, and so the sum of these products, a NaN. */
static CLONES float widen_floats(double *restrict out, const float *restrict x, int64_t n)
{
    float lane[LANES] = { 0 }, zero = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) out[i + l] = (double)x[i + l], lane[l] += x[i + l] * 0;
    for (; i < n; i++) out[i] = (double)x[i], lane[0] += x[i] * 0;
    for (int l = 0; l < LANES; l++) zero += lane[l];
    return zero;
}

bool sample_widen(double *out, const float *x, int64_t n) { return widen_floats(out, x, n) == 0; }

bool sample_copy(double *out, const double *x, int64_t n)
{
    double zero = 0;
    for (int64_t i = 0; i < n; i++) zero += (out[i] = x[i]) * 0;
    return zero == 0;
}

/* weight = exp((x - top) factor) */
static CLONES void weights_of_logits(double *restrict weight, const double *restrict x, int64_t n, double top,
                                     double factor)
{
    for (int64_t i = 0; i < n; i++) weight[i] = natural_exp((x[i] - top) * factor);
}

static CLONES double sum_of_weights(const double *x, int64_t n)
{
    double lane[LANES] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (; i < n; i++) lane[0] += x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static CLONES double largest_logit(const double *x, int64_t n)
{
    double lane[LANES], top = x[0];
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = top;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int l = 0; l < LANES; l++) top = lane[l] > top ? lane[l] : top;
    return top;
}

/* ---- log-probabilities ---- */

double sample_lse(SampleWork *w)
{
    double top = largest_logit(w->logits, w->V);
    weights_of_logits(w->weight, w->logits, w->V, top, 1);
    return top + natural_log(sum_of_weights(w->weight, w->V));
}

float sample_logprob(const SampleWork *w, int32_t id, double lse) { return (float)(w->logits[id] - lse); }

void sample_likeliest(const SampleWork *w, int32_t *id, float *logprob, int64_t n, double lse)
{
    int64_t found = 0;
    for (int64_t i = 0; i < w->ids; i++) {
        double x = w->logits[i];
        int64_t at = found;
        if (found == n && x <= w->logits[id[n - 1]]) continue;
        if (found < n) found++;
        else           at = n - 1;
        for (; at > 0 && x > w->logits[id[at - 1]]; at--) id[at] = id[at - 1];
        id[at] = (int32_t)i;
    }
    for (int64_t i = 0; i < n; i++) {
        if (i >= found) id[i] = -1;
        logprob[i] = i < found ? sample_logprob(w, id[i], lse) : -INFINITY;
    }
}

/* ---- penalties ---- */

static bool penalizes(const Sampling *s)
{
    return (s->repetition_penalty > 0 && s->repetition_penalty != 1) || s->presence_penalty != 0 ||
           s->frequency_penalty != 0;
}

/* The logits that are drawn from: the model's, or a copy with penalties. */
static const double *penalized(SampleWork *w, const Sampling *s, const int32_t *text, int64_t prompt,
                               int64_t length)
{
    double r = s->repetition_penalty;
    if (!penalizes(s)) return w->logits;
    memcpy(w->x, w->logits, (size_t)w->V * sizeof *w->x);
    for (int64_t i = 0; i < length; i++)                       /* each id once: its count is not 0 after it */
        if (w->count[text[i]]++ == 0 && r > 0 && r != 1)
            w->x[text[i]] = w->x[text[i]] > 0 ? w->x[text[i]] / r : w->x[text[i]] * r;
    for (int64_t i = 0; i < length; i++) w->count[text[i]] = 0;
    for (int64_t i = prompt; i < length; i++) w->count[text[i]]++;
    for (int64_t i = prompt; i < length; i++) {
        int32_t *n = &w->count[text[i]];
        if (*n > 0) w->x[text[i]] -= s->presence_penalty + *n * s->frequency_penalty;
        *n = 0;
    }
    return w->x;
}

/* ---- selection ---- */

/* Candidates are ordered by descending weight, equal ones by id. */
static bool precedes(TokenCandidate a, TokenCandidate b)
{
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

static void swap(TokenCandidate *a, TokenCandidate *b)
{
    TokenCandidate c = *a;
    *a = *b, *b = c;
}

/* Puts those of c[first, end) that precede the median of three in front of it; returns its place. */
static int64_t partition(TokenCandidate *c, int64_t first, int64_t end)
{
    int64_t middle = first + (end - first) / 2, last = end - 1, at = first;
    if (precedes(c[middle], c[first])) swap(&c[middle], &c[first]);
    if (precedes(c[last], c[first]))   swap(&c[last], &c[first]);
    if (precedes(c[middle], c[last]))  swap(&c[middle], &c[last]);
    for (int64_t i = first; i < last; i++)
        if (precedes(c[i], c[last])) swap(&c[i], &c[at++]);
    swap(&c[at], &c[last]);
    return at;
}

/* The first k in order come first. */
static void select_first(TokenCandidate *c, int64_t n, int64_t k)
{
    for (int64_t first = 0, end = n; first < end; ) {
        int64_t at = partition(c, first, end);
        if (at == k || at + 1 == k) return;
        if (at > k) end = at;
        else        first = at + 1;
    }
}

static double weight_of(const TokenCandidate *c, int64_t first, int64_t end)
{
    double sum = 0;
    for (int64_t i = first; i < end; i++) sum += c[i].weight;
    return sum;
}

/* How many in order are the fewest whose weights sum to `wanted`; they come first. */
static int64_t select_sum(TokenCandidate *c, int64_t n, double wanted)
{
    int64_t first = 0, end = n;
    double before = 0;                                             /* of c[0, first) */
    while (first < end) {
        int64_t at = partition(c, first, end);
        double upper = weight_of(c, first, at);
        if (before + upper >= wanted)                        end = at;
        else if (before + upper + c[at].weight >= wanted)    return at + 1;
        else before += upper + c[at].weight, first = at + 1;
    }
    return first < n ? first + 1 : n;
}

/* ---- the draw ---- */

/* Of equal ones the first. */
static int32_t likeliest(const double *x, int64_t n)
{
    double top = largest_logit(x, n);
    int64_t i = 0;
    while (i + 1 < n && x[i] != top) i++;
    return (int32_t)i;
}

/* Texts take the numbers of 2^32 tokens each. */
static double uniform_number(const Sampling *s, uint64_t stream, int64_t generated)
{
    return random_uniform(random_key(s->seed, "sample"), (stream << 32) + (uint64_t)generated);
}

/* Of 0 and 1 all ids are left, which are drawn from in the same way, so that rounding cannot differ. */
static bool has_nucleus(const Sampling *s) { return s->top_p > 0 && s->top_p < 1; }

/* The ids with weights that a draw restricted by top_k, top_p or min_p may take; they come first. No id whose
 * weight is below a V-th of what top_p leaves out can be among the likeliest. */
static int64_t restricted(SampleWork *w, const Sampling *s, double total)
{
    TokenCandidate *c = w->candidate;
    int64_t n = 0, V = w->ids, kept = 0;
    bool whole = s->top_k <= 0 || s->top_k >= V, nucleus = has_nucleus(s);
    double floor = whole && nucleus ? (1 - s->top_p) * total / (2 * (double)V) : 0;
    for (int64_t i = 0; i < V; i++)
        if (w->weight[i] >= floor) c[n++] = (TokenCandidate){ w->weight[i], (int32_t)i };
    if (!whole && s->top_k < n) {
        select_first(c, n, s->top_k);
        n = s->top_k;
        total = weight_of(c, 0, n);
    }
    if (nucleus) n = select_sum(c, n, s->top_p * total);
    for (int64_t i = 0; i < n; i++)                                /* the largest weight is 1 */
        if (c[i].weight >= s->min_p) c[kept++] = c[i];
    return kept;
}

/* The id in whose interval a number of [0, sum) is; rounding may leave it at the last one. */
static int32_t draw_from_all(const SampleWork *w, double left)
{
    int64_t pick = 0;
    while (pick + 1 < w->ids && (left -= w->weight[pick]) >= 0) pick++;
    return (int32_t)pick;
}

int32_t sample_draw(SampleWork *w, const Sampling *s, const int32_t *text, int64_t prompt, int64_t length,
                    uint64_t stream)
{
    const double *x = penalized(w, s, text, prompt, length);
    double factor = 1 / s->temperature, top = largest_logit(x, w->ids);
    /* A temperature so near to 0 that its inverse overflows is 0; a penalty may make a logit overflow. */
    if (s->temperature <= 0 || !isfinite(factor) || !isfinite(top)) return likeliest(x, w->ids);
    /* the maximum is subtracted, so that exp cannot overflow */
    weights_of_logits(w->weight, x, w->ids, top, factor);
    double total = sum_of_weights(w->weight, w->ids), uniform = uniform_number(s, stream, length - prompt);
    if (s->top_k <= 0 && !has_nucleus(s) && s->min_p <= 0) return draw_from_all(w, uniform * total);
    int64_t n = restricted(w, s, total), pick = 0;
    const TokenCandidate *c = w->candidate;
    double left = uniform * weight_of(c, 0, n);
    while (pick + 1 < n && (left -= c[pick].weight) >= 0) pick++;
    return c[pick].id;
}
