/* The router of a mixture of experts: selection, weights, auxiliary losses, and the order in which copies of
 * tokens are sent. T tokens   E experts   K experts of a token   G groups of tokens */
#include <stdlib.h>
#include "tensor/ref/ref.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* log(sum over e of exp(x)) */
static double row_lse(Tensor x_TE, int64_t t)
{
    double max = -INFINITY, sum = 0;
    for (int64_t e = 0; e < x_TE.dim[1]; e++) max = fmax(max, *at2(x_TE, t, e));
    for (int64_t e = 0; e < x_TE.dim[1]; e++) sum += exp(*at2(x_TE, t, e) - max);
    return max + log(sum);
}

/* The score of expert e alone: sigmoid, or softmax over all experts */
static double score_of(Tensor logits_TE, int64_t t, int64_t e, RouteScore kind)
{
    double x = *at2(logits_TE, t, e);
    return kind == ROUTE_SIGMOID ? sigmoid(x) : exp(x - row_lse(logits_TE, t));
}

/* The index of the highest of x[0 .. n - 1] that is not taken, the lowest of equal ones; it becomes taken. */
static int64_t take_highest(const double *x, bool *taken, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || x[i] > x[best])) best = i;
    taken[best] = true;
    return best;
}

/* Experts outside of the chosen groups become taken. */
static void take_groups(const double *x, bool *taken, int64_t E, int64_t K, const RouteRule *rule)
{
    int64_t groups = rule->groups, each = E / groups;
    double *sum = calloc((size_t)groups, sizeof *sum);
    bool   *chosen = calloc((size_t)groups, 1), *within = calloc((size_t)each, 1);
    CHECK(sum && chosen && within, "no memory for %lld groups", (long long)groups);
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < each; i++) within[i] = false;
        for (int64_t i = 0; i < route_group_best(rule, K); i++)
            sum[g] += x[g * each + take_highest(x + g * each, within, each)];
    }
    for (int64_t i = 0; i < rule->group_topk; i++) take_highest(sum, chosen, groups);
    for (int64_t e = 0; e < E; e++) taken[e] = !chosen[e / each];
    free(sum), free(chosen), free(within);
}

static void want_rule(const RouteRule *rule, int64_t E, int64_t K)
{
    CHECK(K >= 1 && K <= E, "%lld experts of %lld", (long long)K, (long long)E);
    CHECK(route_groups_fit(rule, E, K), "%lld of %lld groups of experts", (long long)rule->group_topk,
          (long long)rule->groups);
}

REF(route_forward, RouteForward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], K = a->weight_TK.dim[1];
    const RouteRule *rule = &a->rule;
    WANT(a->weight_TK, T, K);
    WANT(a->expert_TK, T, K);
    WANT(a->logits_TE, T, E);
    if (tensor_present(a->bias_E)) WANT(a->bias_E, E);
    want_rule(rule, E, K);
    double *x = calloc((size_t)E, sizeof *x);
    bool   *taken = calloc((size_t)E, 1);
    CHECK(x && taken, "no memory for %lld experts", (long long)E);
    for (int64_t t = 0; t < T; t++) {
        double sum = 0;
        for (int64_t e = 0; e < E; e++) {
            bool logit = rule->score == ROUTE_SOFTMAX && !rule->pre_softmax;
            x[e] = logit ? *at2(a->logits_TE, t, e) : score_of(a->logits_TE, t, e, rule->score);
            if (tensor_present(a->bias_E)) x[e] += *at1(a->bias_E, e);
            taken[e] = false;
        }
        if (rule->groups) take_groups(x, taken, E, K, rule);
        for (int64_t k = 0; k < K; k++)
            *int_at(a->expert_TK, t * K + k) = (int32_t)take_highest(x, taken, E);
        for (int64_t k = 0; k < K; k++)
            sum += score_of(a->logits_TE, t, *int_at(a->expert_TK, t * K + k), rule->score);
        for (int64_t k = 0; k < K; k++) {
            double s = score_of(a->logits_TE, t, *int_at(a->expert_TK, t * K + k), rule->score);
            if (rule->score == ROUTE_SIGMOID) s = K > 1 ? s / (sum + 1e-20) : s;
            else if (!rule->pre_softmax) s /= sum;
            *at2(a->weight_TK, t, k) = rule->scale * s;
        }
    }
    free(x), free(taken);
}

/* softmax p of the selected:  dlogit = p (g - sum p g),  g = scale dweight;  before selection the same with
 * p over all; sigmoid: ds = (g - sum g s / S) / S with S = sum s + 1e-20,  dlogit = ds s (1 - s) */
REF(route_backward, RouteBackward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], K = a->dweight_TK.dim[1];
    const RouteRule *rule = &a->rule;
    WANT(a->dlogits_TE, T, E);
    WANT(a->dweight_TK, T, K);
    WANT(a->logits_TE, T, E);
    WANT(a->expert_TK, T, K);
    for (int64_t t = 0; t < T; t++) {
        double sum = 0, inner = 0;
        const int32_t *expert = int_at(a->expert_TK, t * K);
        for (int64_t k = 0; k < K; k++) {
            double s = score_of(a->logits_TE, t, expert[k], rule->score);
            sum += s;
            inner += rule->scale * *at2(a->dweight_TK, t, k) * s;
        }
        for (int64_t e = 0; e < E; e++) *at2(a->dlogits_TE, t, e) = 0;
        for (int64_t k = 0; k < K; k++)
            *at2(a->dlogits_TE, t, expert[k]) = rule->scale * *at2(a->dweight_TK, t, k);
        for (int64_t e = 0; e < E; e++) {
            double *d = at2(a->dlogits_TE, t, e), s = score_of(a->logits_TE, t, e, rule->score);
            bool selected = false;
            for (int64_t k = 0; k < K; k++) selected = selected || expert[k] == e;
            if (rule->score == ROUTE_SOFTMAX && rule->pre_softmax) *d = s * (*d - inner);
            else if (!selected) *d = 0;
            else if (rule->score == ROUTE_SOFTMAX) *d = s / sum * (*d - inner / sum);
            else *d = (K > 1 ? (*d - inner / (sum + 1e-20)) / (sum + 1e-20) : *d) * s * (1 - s);
        }
    }
}

REF(balance_count, BalanceCount)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], G = a->count_GE.dim[0];
    WANT(a->count_GE, G, E);
    WANT(a->logits_TE, T, E);
    double *x = calloc((size_t)E, sizeof *x);
    bool   *taken = calloc((size_t)E, 1);
    CHECK(x && taken, "no memory for %lld experts", (long long)E);
    for (int64_t g = 0; g < G; g++)
        for (int64_t e = 0; e < E; e++) *at2(a->count_GE, g, e) = 0;
    for (int64_t t = 0; t < T; t++) {
        CHECK((a->first + t) / a->length < G, "token %lld is in no group of tokens", (long long)t);
        for (int64_t e = 0; e < E; e++) x[e] = *at2(a->logits_TE, t, e), taken[e] = false;
        for (int64_t k = 0; k < a->topk; k++)
            *at2(a->count_GE, (a->first + t) / a->length, take_highest(x, taken, E)) += 1;
    }
    free(x), free(taken);
}

/* d = coefficient E count / (topk tokens);  u = s / S with S = 1, or sum s + 1e-20:
 * softmax: dlogit += u (d - sum u d);  sigmoid: dlogit += (d - sum u d) / S s (1 - s);
 * dlogit += 2 z_coefficient lse softmax */
REF(balance_backward, BalanceBackward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], G = a->count_GE.dim[0];
    double factor = (double)E / ((double)a->topk * (double)a->tokens), scale = q->step_state->gradient_scale;
    WANT(a->dlogits_TE, T, E);
    WANT(a->logits_TE, T, E);
    WANT(a->count_GE, G, E);
    if (tensor_present(a->loss_2)) WANT(a->loss_2, 2);
    for (int64_t t = 0; t < T; t++) {
        int64_t g = (a->first + t) / a->length;
        double S = 1, inner = 0, lse = row_lse(a->logits_TE, t);
        CHECK(g < G, "token %lld is in no group of tokens", (long long)t);
        if (a->score == ROUTE_SIGMOID) {
            S = 1e-20;
            for (int64_t e = 0; e < E; e++) S += sigmoid(*at2(a->logits_TE, t, e));
        }
        for (int64_t e = 0; e < E; e++)
            inner += factor * *at2(a->count_GE, g, e) * score_of(a->logits_TE, t, e, a->score) / S;
        for (int64_t e = 0; e < E; e++) {
            double d = factor * *at2(a->count_GE, g, e), s = score_of(a->logits_TE, t, e, a->score);
            double through = a->score == ROUTE_SIGMOID ? (d - inner) / S * s * (1 - s) : s * (d - inner);
            double z = 2 * lse * exp(*at2(a->logits_TE, t, e) - lse);
            *at2(a->dlogits_TE, t, e) += scale * (a->coefficient * through + a->z_coefficient * z);
        }
        if (!tensor_present(a->loss_2)) continue;
        *at1(a->loss_2, 0) += inner;
        *at1(a->loss_2, 1) += lse * lse;
    }
}

/* ---- the order of copies ---- */

/* Whether (t, k) is among the `capacity` copies of its expert that are kept. */
static bool kept(const RouteSort *a, int64_t T, int64_t K, int64_t t, int64_t k)
{
    int64_t before = 0;
    int32_t expert = *int_at(a->expert_TK, t * K + k);
    if (a->capacity <= 0) return true;
    for (int64_t i = 0; i < T * K; i++) {
        if (*int_at(a->expert_TK, i) != expert) continue;
        double other = a->by_position ? 0 : *at2(a->weight_TK, i / K, i % K);
        double own   = a->by_position ? 0 : *at2(a->weight_TK, t, k);
        before += other > own || (other == own && i / K < t);
    }
    return before < a->capacity;
}

REF(route_sort, RouteSort)
{
    int64_t T = a->expert_TK.dim[0], K = a->expert_TK.dim[1], J = a->row_TKJ.dim[2], N = a->slot_N.dim[0];
    int64_t R = a->count_RX.dim[0], X = a->count_RX.dim[1], rows = 0;
    WANT(a->row_TKJ, T, K, J);
    WANT(a->slot_N, N);
    WANT(a->count_RX, R, X);
    WANT(a->expert_TK, T, K);
    WANT(a->weight_TK, T, K);
    for (int64_t i = 0; i < T * K * J; i++) *int_at(a->row_TKJ, i) = -1;
    for (int64_t r = 0; r < R; r++)
        for (int64_t x = 0; x < X; x++) {
            int64_t begin = rows, expert = r / J * X + x;
            for (int64_t i = 0; i < T * K; i++) {
                if (*int_at(a->expert_TK, i) != expert || !kept(a, T, K, i / K, i % K)) continue;
                CHECK(rows < N, "%lld rows do not fit all copies", (long long)N);
                *int_at(a->row_TKJ, i * J + r % J) = (int32_t)rows;
                *int_at(a->slot_N, rows++) = (int32_t)i;
            }
            *int_at(a->count_RX, r * X + x) = (int32_t)(rows - begin);
        }
    for (; rows < N; rows++) *int_at(a->slot_N, rows) = -1;
}

REF(load_add, LoadAdd)
{
    int64_t E = a->load_E1.dim[0] - 1, R = a->count_RX.dim[0], X = a->count_RX.dim[1], J = R * X / E;
    double sum = 0;
    WANT(a->load_E1, E + 1);
    WANT(a->count_RX, R, X);
    CHECK(R * X == J * E, "%lld x %lld counts of %lld experts", (long long)R, (long long)X, (long long)E);
    for (int64_t e = 0; e < E; e++) {
        double count = *int_at(a->count_RX, e / X * J * X + e % X);
        *at1(a->load_E1, e) += count;
        sum += count;
    }
    *at1(a->load_E1, E) += (double)a->copies - sum;
}

REF(expert_bias_update, ExpertBiasUpdate)
{
    int64_t L = a->bias_LE.dim[0], E = a->bias_LE.dim[1];
    WANT(a->bias_LE, L, E);
    WANT(a->load_LE, L, a->load_LE.dim[1]);
    if (q->step_state->unread) return;
    for (int64_t l = 0; l < L; l++) {
        double sum = 0;
        for (int64_t e = 0; e < E; e++) sum += *at2(a->load_LE, l, e);
        for (int64_t e = 0; e < E; e++) {
            double above = *at2(a->load_LE, l, e) * (double)E - sum;
            *at2(a->bias_LE, l, e) += above < 0 ? a->rate : above > 0 ? -a->rate : 0;
        }
    }
}

REF(load_summary, LoadSummary)
{
    int64_t L = a->load_LE.dim[0], S = a->summary_S.dim[0], E = a->load_LE.dim[1] - S + 1;
    WANT(a->summary_S, S);
    WANT(a->load_LE, L, E + S - 1);
    for (int64_t s = 0; s < S; s++) *at1(a->summary_S, s) = 0;
    for (int64_t l = 0; l < L; l++) {
        double most = 0, sum = 0;
        for (int64_t e = 0; e < E; e++) {
            most = fmax(most, *at2(a->load_LE, l, e));
            sum += *at2(a->load_LE, l, e);
        }
        *at1(a->summary_S, 0) += sum > 0 ? most * (double)E / sum : 0;
        for (int64_t s = 1; s < S; s++) *at1(a->summary_S, s) += *at2(a->load_LE, l, E + s - 1);
    }
}
