/* Drawing by hand, and selection against a sort of all ids. */
#include "generate/sample.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/random.h"

static int32_t drawn_from(const double *logits, int64_t V, Sampling sampling, uint64_t stream, int64_t number)
{
    SampleWork work;
    static int32_t text[32768];
    void *memory = malloc((size_t)sample_bytes(V));
    sample_open(&work, V, V, memory);
    memcpy(work.logits, logits, (size_t)V * sizeof *logits);
    int32_t id = sample_draw(&work, &sampling, text, 0, number, stream);
    free(memory);
    return id;
}

static void test_sampling(void **state)
{
    (void)state;
    const double logits[4] = { log(0.1), log(0.4), log(0.3), log(0.2) };
    int64_t drawn[4] = { 0 }, other = 0;
    Sampling all = { .temperature = 1, .seed = 3 }, two = { .temperature = 1, .top_k = 2, .seed = 3 }, part = { .temperature = 1, .top_p = 0.65, .seed = 3 },
             least = { .temperature = 1, .min_p = 0.6, .seed = 3 };
    assert_int_equal(drawn_from(logits, 4, (Sampling){ .temperature = 0 }, 0, 9), 1);
    assert_int_equal(drawn_from((double[]){ 2, 3, 3, 1 }, 4, (Sampling){ .temperature = 0 }, 0, 9), 1);
    for (int n = 0; n < 20000; n++) {
        drawn[drawn_from(logits, 4, all, 0, n)]++;
        int32_t of_two = drawn_from(logits, 4, two, 0, n), of_part = drawn_from(logits, 4, part, 0, n), of_least = drawn_from(logits, 4, least, 0, n);
        assert_true(of_two == 1 || of_two == 2);
        assert_true(of_part == 1 || of_part == 2);                 /* 0.4 + 0.3 reach 0.65 */
        assert_true(of_least == 1 || of_least == 2);               /* 0.3 is at least 0.6 x 0.4 */
        assert_int_equal(drawn_from(logits, 4, all, 0, n), drawn_from(logits, 4, all, 0, n));
        other += drawn_from(logits, 4, all, 0, n) != drawn_from(logits, 4, all, 1, n);
    }
    const double share[4] = { 0.1, 0.4, 0.3, 0.2 };
    for (int i = 0; i < 4; i++) assert_true(fabs((double)drawn[i] / 20000 - share[i]) < 0.02);
    assert_true(fabs((double)other / 20000 - 0.7) < 0.02);         /* 1 - 0.01 - 0.16 - 0.09 - 0.04 */
}

/* top_p 1 restricts nothing, as 0, and draws in the same way: no candidates are selected, whose weights would be added in another order. */
static void test_whole_nucleus(void **state)
{
    enum { V = 1000 };
    static int32_t text[1];
    (void)state;
    SampleWork work;
    void *memory = malloc((size_t)sample_bytes(V));
    sample_open(&work, V, V, memory);
    for (int i = 0; i < V; i++) work.logits[i] = (double)(i % 37) / 10;
    work.candidate[0].id = -1;
    for (uint64_t n = 0; n < 100; n++) {
        int32_t all = sample_draw(&work, &(Sampling){ .temperature = 1 }, text, 0, 0, n);
        assert_int_equal(sample_draw(&work, &(Sampling){ .temperature = 1, .top_p = 1, .top_k = -1 }, text, 0, 0, n), all);
    }
    assert_int_equal(work.candidate[0].id, -1);
    free(memory);
}

/* Temperatures and penalties at the end of what a double holds draw what temperature 0 does. */
static void test_extremes(void **state)
{
    (void)state;
    const double logits[4] = { 1, 4, 3, 2 };
    const double small[] = { 1e-300, 1e-307, 1e-309, 4.9e-324 };
    for (int64_t i = 0; i < 4; i++) {
        assert_int_equal(drawn_from(logits, 4, (Sampling){ .temperature = small[i], .seed = 3 }, 0, i), 1);
        assert_int_equal(drawn_from(logits, 4, (Sampling){ .temperature = small[i], .top_p = 0.5, .seed = 3 }, 0, i), 1);
        assert_int_equal(drawn_from(logits, 4, (Sampling){ .temperature = small[i], .min_p = 0.5, .seed = 3 }, 0, i), 1);
    }
    assert_int_equal(drawn_from(logits, 4, (Sampling){ .temperature = 1, .top_p = 0.5, .repetition_penalty = 4.9e-324, .seed = 3 }, 0, 9), 0);
}

static void test_not_finite(void **state)
{
    enum { V = 37 };
    (void)state;
    double x[V] = { 0 }, y[V];
    float  f[V] = { 0 };
    assert_true(sample_copy(y, x, V) && sample_widen(y, f, V));
    for (int64_t i = 0; i < V; i++) {
        const double broken[] = { NAN, INFINITY, -INFINITY };
        for (int k = 0; k < 3; k++) {
            x[i] = broken[k], f[i] = (float)broken[k];
            assert_false(sample_copy(y, x, V) || sample_widen(y, f, V));
        }
        x[i] = i % 2 ? -1e308 : 1e308, f[i] = i % 2 ? -3e38f : 3e38f;
    }
    assert_true(sample_copy(y, x, V));
    assert_memory_equal(x, y, sizeof x);
    assert_true(sample_widen(y, f, V));
    for (int64_t i = 0; i < V; i++) assert_true(y[i] == (double)f[i]);
}

/* ---- selection against a sort ---- */

typedef struct { double weight; int id; } Sorted;
static int descending(const void *a, const void *b)
{
    const Sorted *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id - y->id;
}

/* The probabilities of all ids by the rules of engine.h behind the penalties, by sorting them. */
static void probabilities(double *p, const double *x, int V, const Sampling *s)
{
    static Sorted sorted[4096];
    double top = x[0], total = 0, sum = 0;
    int n = V;
    for (int i = 1; i < V; i++) top = fmax(top, x[i]);
    for (int i = 0; i < V; i++) sorted[i] = (Sorted){ exp((x[i] - top) / s->temperature), i }, p[i] = 0;
    qsort(sorted, (size_t)V, sizeof *sorted, descending);
    if (s->top_k > 0 && s->top_k < n) n = (int)s->top_k;
    for (int i = 0; i < n; i++) total += sorted[i].weight;
    for (int i = 0; i < n; i++) {
        bool reached = s->top_p > 0 && sum >= s->top_p * total * (1 + 1e-12);
        if (reached || sorted[i].weight < s->min_p * (1 - 1e-12)) break;
        sum += p[sorted[i].id] = sorted[i].weight;
    }
    for (int i = 0; i < V; i++) p[i] /= sum;
}

static void test_selection(void **state)
{
    (void)state;
    enum { V = 3000, DRAWS = 200 };
    static double x[V], p[V];
    static const Sampling rule[] = { { .temperature = 1, .top_k = 17 }, { .temperature = 1.3, .top_p = 0.9 }, { .temperature = 0.7, .min_p = 0.05 },
        { .temperature = 1, .top_k = 300, .top_p = 0.5 }, { .temperature = 2, .top_k = 900, .top_p = 0.8, .min_p = 0.01 }, { .temperature = 1, .top_k = 1 },
        { .temperature = 1, .top_p = 1e-9 } };
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < V; i++) {
            x[i] = 3 * random_normal(random_key(7, "logits"), (uint64_t)(kind * V + i));
            if (kind == 1) x[i] = floor(x[i]);                     /* many equal ones */
            if (kind == 2) x[i] = (double)-i / 100;                /* in order */
        }
        for (size_t r = 0; r < sizeof rule / sizeof *rule; r++) {
            int kinds = 0;
            bool seen[V] = { false };
            probabilities(p, x, V, &rule[r]);
            for (int n = 0; n < DRAWS; n++) {
                int32_t id = drawn_from(x, V, rule[r], 0, n);
                if (p[id] == 0) fail_msg("logits %d, rule %zu: id %d of weight %g is drawn", kind, r, id, x[id]);
                kinds += !seen[id];
                seen[id] = true;
            }
            if (r >= 5) { assert_int_equal(kinds, 1); continue; }
            assert_true(kinds > 3);
        }
    }
}

/* The penalties of engine.h, one id after the other. */
static void penalize(double *y, const double *x, int V, const Sampling *s, const int32_t *text, int prompt, int length)
{
    for (int v = 0; v < V; v++) {
        int before = 0, own = 0;
        for (int i = 0; i < length; i++) before += text[i] == v && i < prompt, own += text[i] == v && i >= prompt;
        y[v] = x[v];
        if (before + own > 0 && s->repetition_penalty > 0) y[v] = x[v] > 0 ? x[v] / s->repetition_penalty : x[v] * s->repetition_penalty;
        if (own > 0) y[v] -= s->presence_penalty + own * s->frequency_penalty;
    }
}

/* Each id is drawn as often as its probability says, within five standard deviations, by each rule and by several together. Of the two
 * equal logits top_k 4 takes the first one alone. */
static void test_distribution(void **state)
{
    (void)state;
    enum { V = 12, DRAWS = 20000, PROMPT = 3, LENGTH = 8 };
    static const double x[V] = { 0.3, 2.1, 1.2, 1.5, -0.4, 0.9, 1.8, -0.1, 1.5, 0.6, 2.4, -0.9 };
    static const int32_t text[LENGTH] = { 10, 6, 4, 1, 10, 1, 5, 1 };
    static const Sampling rule[] = { { .temperature = 1.2 }, { .temperature = 1, .top_k = 4 }, { .temperature = 1, .top_p = 0.8 }, { .temperature = 1.5, .min_p = 0.2 },
        { .temperature = 1, .repetition_penalty = 1.4 }, { .temperature = 1, .presence_penalty = 0.5 }, { .temperature = 1, .frequency_penalty = 0.3 },
        { .temperature = 0.7, .top_k = 8, .top_p = 0.9 }, { .temperature = 1, .top_k = 9, .top_p = 0.95, .min_p = 0.25 },
        { .temperature = 0.8, .repetition_penalty = 1.2, .presence_penalty = 0.3, .frequency_penalty = -0.2, .top_k = 7, .top_p = 0.9 } };
    void *memory = malloc((size_t)sample_bytes(V));
    SampleWork work;
    sample_open(&work, V, V, memory);
    memcpy(work.logits, x, sizeof x);
    for (size_t r = 0; r < sizeof rule / sizeof *rule; r++) {
        double y[V], p[V];
        int count[V] = { 0 };
        penalize(y, x, V, &rule[r], text, PROMPT, LENGTH);
        probabilities(p, y, V, &rule[r]);
        for (int n = 0; n < DRAWS; n++) count[sample_draw(&work, &rule[r], text, PROMPT, LENGTH, (uint64_t)n)]++;
        for (int i = 0; i < V; i++) {
            double off = fabs(count[i] - DRAWS * p[i]), deviation = sqrt(DRAWS * p[i] * (1 - p[i]));
            assert_true(p[i] == 0 || DRAWS * p[i] > 50);           /* so that each id that is allowed comes */
            if (off > 5 * deviation) fail_msg("rule %zu: id %d is drawn %d times of %d, and its probability is %g", r, i, count[i], DRAWS, p[i]);
        }
    }
    free(memory);
}

static void test_penalties(void **state)
{
    (void)state;
    SampleWork w;
    void *memory = malloc((size_t)sample_bytes(5));
    sample_open(&w, 5, 5, memory);
    const double x[5] = { 2, 1.9, -1, 1.5, 0 };
    int32_t text[] = { 0, 2, 1, 1 };                               /* prompt 0 2, text 1 1 */
    memcpy(w.logits, x, sizeof x);
    Sampling s = { .repetition_penalty = 2 };
    assert_int_equal(sample_draw(&w, &s, text, 2, 4, 0), 3);
    const double repeated[5] = { 1, 0.95, -2, 1.5, 0 };
    for (int i = 0; i < 5; i++) assert_true(w.x[i] == repeated[i]);
    s = (Sampling){ .presence_penalty = 0.25, .frequency_penalty = 0.5 };
    assert_int_equal(sample_draw(&w, &s, text, 2, 4, 0), 0);
    const double frequent[5] = { 2, 1.9 - 0.25 - 2 * 0.5, -1, 1.5, 0 };
    for (int i = 0; i < 5; i++) assert_true(w.x[i] == frequent[i]);
    int32_t id[7];
    float logprob[7];
    double lse = sample_lse(&w);
    assert_true(fabs(lse - log(exp(2) + exp(1.9) + exp(-1) + exp(1.5) + 1)) < 1e-14);
    sample_likeliest(&w, id, logprob, 7, lse);
    const int32_t order[7] = { 0, 1, 3, 4, 2, -1, -1 };
    assert_memory_equal(id, order, sizeof order);
    assert_true(fabs((double)logprob[1] - (1.9 - lse)) < 1e-6);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sampling), cmocka_unit_test(test_whole_nucleus), cmocka_unit_test(test_extremes), cmocka_unit_test(test_not_finite), cmocka_unit_test(test_selection),
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_penalties) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
