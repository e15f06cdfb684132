/* The router of a mixture of experts. A token's scores are computed in double: there are few, and a score
 * that is rounded to float could tie with another. T tokens   E experts   K experts of a token   G groups of
 * tokens */
#include "base/exponential.h"
#include "tensor/cpu/cpu.h"

enum { MOST_EXPERTS = 4096, MOST_CHOSEN = 256 };       /* of a model; of a token: arrays on the stack */

static void want_sizes(int64_t E, int64_t K, const RouteRule *rule)
{
    CHECK(E <= MOST_EXPERTS && K >= 1 && K <= E && K <= MOST_CHOSEN, "%lld of %lld experts", (long long)K,
          (long long)E);
    CHECK(route_groups_fit(rule, E, K), "%lld of %lld groups of experts", (long long)rule->group_topk,
          (long long)rule->groups);
}

static double sigmoid(double x) { return 1 / (1 + natural_exp(-x)); }

/* score[e] = sigmoid, or softmax over all; returns the log of the sum of exp, which sigmoids do not need */
static double scores_of(double *score, const float *logits, int64_t E, RouteScore kind)
{
    double max = (double)logits[0], sum = 0;
    for (int64_t e = 1; e < E; e++) if ((double)logits[e] > max) max = (double)logits[e];
    for (int64_t e = 0; e < E; e++) sum += score[e] = natural_exp((double)logits[e] - max);
    for (int64_t e = 0; e < E; e++)
        score[e] = kind == ROUTE_SIGMOID ? sigmoid((double)logits[e]) : score[e] / sum;
    return max + natural_log(sum);
}

/* The K highest of x[0 .. n - 1], best first, by insertion; the lower index of equal ones. skip: of each
 * `each`; NULL: none. A NaN is above nothing, but an index is valid even where all are NaN. */
static void highest(int32_t *index, int64_t K, const double *x, int64_t n, const bool *skip, int64_t each)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = found;
        if (skip && skip[i / each]) continue;
        while (at > 0 && x[i] > x[index[at - 1]]) at--;
        if (at >= K) continue;
        if (found < K) found++;
        memmove(index + at + 1, index + at, (size_t)(found - 1 - at) * sizeof *index);
        index[at] = (int32_t)i;
    }
}

static void skip_groups(bool *skip, const double *x, int64_t E, int64_t K, const RouteRule *rule)
{
    int64_t each = E / rule->groups, best = route_group_best(rule, K);
    double  sum[MOST_EXPERTS];
    int32_t index[MOST_EXPERTS];
    for (int64_t g = 0; g < rule->groups; g++) {
        highest(index, best, x + g * each, each, NULL, 1);
        sum[g] = 0, skip[g] = true;
        for (int64_t i = 0; i < best; i++) sum[g] += x[g * each + index[i]];
    }
    highest(index, rule->group_topk, sum, rule->groups, NULL, 1);
    for (int64_t i = 0; i < rule->group_topk; i++) skip[index[i]] = false;
}

static void route_tokens(void *context, int64_t begin, int64_t end)
{
    const RouteForward *a = context;
    const RouteRule *rule = &a->rule;
    int64_t E = a->logits_TE.dim[1], K = a->weight_TK.dim[1];
    double score[MOST_EXPERTS], x[MOST_EXPERTS];
    bool   skip[MOST_EXPERTS];
    bool   by_logit = rule->score == ROUTE_SOFTMAX && !rule->pre_softmax;
    for (int64_t t = begin; t < end; t++) {
        const float *logits = row(a->logits_TE, t);
        int32_t *expert = (int32_t *)a->expert_TK.data + t * K;
        double sum = 0;
        scores_of(score, logits, E, rule->score);
        for (int64_t e = 0; e < E; e++)
            x[e] = (by_logit ? (double)logits[e] : score[e]) +
                   (tensor_present(a->bias_E) ? (double)flat(a->bias_E)[e] : 0);
        if (rule->groups) skip_groups(skip, x, E, K, rule);
        highest(expert, K, x, E, rule->groups ? skip : NULL, rule->groups ? E / rule->groups : 1);
        for (int64_t k = 0; k < K; k++) sum += score[expert[k]];
        double divisor = rule->pre_softmax ? 1 : sum;
        if (rule->score == ROUTE_SIGMOID) divisor = K > 1 ? sum + 1e-20 : 1;
        for (int64_t k = 0; k < K; k++)
            row(a->weight_TK, t)[k] = (float)(rule->scale * (score[expert[k]] / divisor));
    }
}

CPU(route_forward, RouteForward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], K = a->weight_TK.dim[1];
    WANT(a->weight_TK, T, K);
    WANT(a->expert_TK, T, K);
    WANT(a->logits_TE, T, E);
    if (tensor_present(a->bias_E)) WANT(a->bias_E, E);
    want_sizes(E, K, &a->rule);
    team_for(q->team, T, chunk_rows(16 * E), route_tokens, (void *)a);
}

/* The formulas are those of ref. */
static void route_backward_tokens(void *context, int64_t begin, int64_t end)
{
    const RouteBackward *a = context;
    const RouteRule *rule = &a->rule;
    int64_t E = a->logits_TE.dim[1], K = a->dweight_TK.dim[1];
    double score[MOST_EXPERTS], g[MOST_CHOSEN];
    for (int64_t t = begin; t < end; t++) {
        float *d = row(a->dlogits_TE, t);
        const int32_t *expert = (const int32_t *)a->expert_TK.data + t * K;
        double sum = 0, inner = 0;
        scores_of(score, row(a->logits_TE, t), E, rule->score);
        for (int64_t k = 0; k < K; k++) {
            g[k]   = rule->scale * (double)row(a->dweight_TK, t)[k];
            sum   += score[expert[k]];
            inner += g[k] * score[expert[k]];
        }
        bool through_all = rule->score == ROUTE_SOFTMAX && rule->pre_softmax;
        for (int64_t e = 0; e < E; e++) d[e] = through_all ? (float)(-score[e] * inner) : 0;
        for (int64_t k = 0; k < K; k++) {
            double s = score[expert[k]], with = sum + 1e-20;
            if (through_all)                        d[expert[k]] = (float)(s * (g[k] - inner));
            else if (rule->score == ROUTE_SOFTMAX)  d[expert[k]] = (float)(s / sum * (g[k] - inner / sum));
            else d[expert[k]] = (float)((K > 1 ? (g[k] - inner / with) / with : g[k]) * s * (1 - s));
        }
    }
}

CPU(route_backward, RouteBackward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], K = a->dweight_TK.dim[1];
    WANT(a->dlogits_TE, T, E);
    WANT(a->dweight_TK, T, K);
    WANT(a->logits_TE, T, E);
    WANT(a->expert_TK, T, K);
    want_sizes(E, K, &a->rule);
    team_for(q->team, T, chunk_rows(16 * E), route_backward_tokens, (void *)a);
}

/* ---- auxiliary losses ---- */

/* One thread: two tokens of a group count for the same expert. */
CPU(balance_count, BalanceCount)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], G = a->count_GE.dim[0];
    double  x[MOST_EXPERTS];
    int32_t expert[MOST_CHOSEN];
    WANT(a->count_GE, G, E);
    WANT(a->logits_TE, T, E);
    want_sizes(E, a->topk, &(RouteRule){ 0 });
    for (int64_t g = 0; g < G; g++) memset(row(a->count_GE, g), 0, (size_t)E * sizeof(float));
    for (int64_t t = 0; t < T; t++) {
        CHECK((a->first + t) / a->length < G, "token %lld is in no group of tokens", (long long)t);
        for (int64_t e = 0; e < E; e++) x[e] = (double)row(a->logits_TE, t)[e];
        highest(expert, a->topk, x, E, NULL, 1);
        for (int64_t k = 0; k < a->topk; k++) row(a->count_GE, (a->first + t) / a->length)[expert[k]] += 1;
    }
}

typedef struct { const BalanceBackward *a; double scale; } Balance;

/* sum over e of s count */
static double inner_of(const double *score, const float *count, int64_t E)
{
    double sum = 0;
    for (int64_t e = 0; e < E; e++) sum += score[e] * (double)count[e];
    return sum;
}

static double total(const double *score, int64_t E)
{
    double sum = 1e-20;
    for (int64_t e = 0; e < E; e++) sum += score[e];
    return sum;
}

static void balance_tokens(void *context, int64_t begin, int64_t end)
{
    const Balance *b = context;
    const BalanceBackward *a = b->a;
    int64_t E = a->logits_TE.dim[1];
    double score[MOST_EXPERTS], softmax[MOST_EXPERTS];
    double factor = (double)E / ((double)a->topk * (double)a->tokens);
    for (int64_t t = begin; t < end; t++) {
        const float *count = row(a->count_GE, (a->first + t) / a->length);
        float *d = row(a->dlogits_TE, t);
        double lse = scores_of(softmax, row(a->logits_TE, t), E, ROUTE_SOFTMAX), S = 1;
        scores_of(score, row(a->logits_TE, t), E, a->score);
        if (a->score == ROUTE_SIGMOID) S = total(score, E);
        double inner = inner_of(score, count, E) / S;
        for (int64_t e = 0; e < E; e++) {
            double s = score[e], above = factor * ((double)count[e] - inner);
            double through = a->score == ROUTE_SIGMOID ? above / S * s * (1 - s) : s * above;
            d[e] += (float)(b->scale * (a->coefficient * through + a->z_coefficient * 2 * lse * softmax[e]));
        }
    }
}

CPU(balance_backward, BalanceBackward)
{
    int64_t T = a->logits_TE.dim[0], E = a->logits_TE.dim[1], G = a->count_GE.dim[0];
    double score[MOST_EXPERTS], sum[2] = { 0, 0 };
    WANT(a->dlogits_TE, T, E);
    WANT(a->logits_TE, T, E);
    WANT(a->count_GE, G, E);
    want_sizes(E, a->topk, &(RouteRule){ 0 });
    CHECK(T == 0 || (a->first + T - 1) / a->length < G, "tokens are in no group of tokens");
    team_for(q->team, T, chunk_rows(16 * E), balance_tokens, &(Balance){ a, q->step_state->gradient_scale });
    if (!tensor_present(a->loss_2)) return;
    WANT(a->loss_2, 2);
    for (int64_t t = 0; t < T; t++) {
        const float *count = row(a->count_GE, (a->first + t) / a->length);
        double lse = scores_of(score, row(a->logits_TE, t), E, ROUTE_SOFTMAX), S = 1;
        if (a->score == ROUTE_SIGMOID) {
            scores_of(score, row(a->logits_TE, t), E, ROUTE_SIGMOID);
            S = total(score, E);
        }
        sum[0] += inner_of(score, count, E) / S * (double)E / ((double)a->topk * (double)a->tokens);
        sum[1] += lse * lse;
    }
    for (int i = 0; i < 2; i++) flat(a->loss_2)[i] += (float)sum[i];
}

/* ---- the order of copies ----
 * Counting sort by one thread: there are T K copies, far fewer numbers than in one row of them. */

/* [E + 1], [R X], [T K], [T K] */
typedef struct { int64_t *begin, *next; int32_t *slot; bool *dropped; } SortSpace;

static size_t sort_space(SortSpace *s, const RouteSort *a, void *memory)
{
    size_t E = (size_t)(a->count_RX.dim[0] / a->row_TKJ.dim[2] * a->count_RX.dim[1]);
    size_t RX = (size_t)tensor_count(a->count_RX), slots = (size_t)tensor_count(a->expert_TK);
    char *at = memory;
    size_t bytes[] = { (E + 1) * sizeof *s->begin, RX * sizeof *s->next, slots * sizeof *s->slot, slots };
    if (at)
        *s = (SortSpace){ (int64_t *)at, (int64_t *)(at + bytes[0]), (int32_t *)(at + bytes[0] + bytes[1]),
                          (bool *)(at + bytes[0] + bytes[1] + bytes[2]) };
    return bytes[0] + bytes[1] + bytes[2] + bytes[3];
}

size_t cpu_route_sort_workspace(const Queue *q, const RouteSort *a)
{
    (void)q;
    return a->row_TKJ.dim[2] > 0 ? sort_space(&(SortSpace){ 0 }, a, NULL) : 0;
}

/* Whether copy `one` is dropped before copy `two`: its weight is lower, or equal and its token later. */
static bool drops_first(const RouteSort *a, int32_t one, int32_t two)
{
    int64_t K = a->expert_TK.dim[1];
    float x = a->by_position ? 0 : row(a->weight_TK, one / K)[one % K];
    float y = a->by_position ? 0 : row(a->weight_TK, two / K)[two % K];
    return x < y || (x == y && one > two);
}

/* A heap whose first element is the one that is dropped first. */
static void sift_down(const RouteSort *a, int32_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && drops_first(a, heap[child + 1], heap[child])) child++;
        if (!drops_first(a, heap[child], heap[at])) return;
        int32_t other = heap[at];
        heap[at] = heap[child], heap[child] = other;
    }
}

static void drop_above_capacity(const RouteSort *a, const SortSpace *s, int64_t E)
{
    for (int64_t e = 0; e < E; e++) {
        int32_t *heap = s->slot + s->begin[e];
        int64_t n = s->begin[e + 1] - s->begin[e];
        for (int64_t i = n / 2 - 1; i >= 0 && n > a->capacity; i--) sift_down(a, heap, n, i);
        for (; n > a->capacity; n--) {
            s->dropped[heap[0]] = true;
            heap[0] = heap[n - 1];
            sift_down(a, heap, n - 1, 0);
        }
    }
}

CPU(route_sort, RouteSort)
{
    int64_t T = a->expert_TK.dim[0], K = a->expert_TK.dim[1], J = a->row_TKJ.dim[2], N = a->slot_N.dim[0];
    int64_t R = a->count_RX.dim[0], X = a->count_RX.dim[1], E = R / J * X, rows = 0;
    const int32_t *expert = a->expert_TK.data;
    int32_t *row_of = a->row_TKJ.data, *slot_of = a->slot_N.data, *count = a->count_RX.data;
    SortSpace s = { 0 };
    WANT(a->row_TKJ, T, K, J);
    WANT(a->slot_N, N);
    WANT(a->count_RX, R, X);
    WANT(a->expert_TK, T, K);
    WANT(a->weight_TK, T, K);
    sort_space(&s, a, q->op_workspace);
    memset(s.begin, 0, (size_t)(E + 1) * sizeof *s.begin);
    memset(s.dropped, 0, (size_t)(T * K));
    for (int64_t i = 0; i < T * K; i++) s.begin[expert[i] + 1]++;
    for (int64_t e = 0; e < E; e++) s.begin[e + 1] += s.begin[e];
    if (a->capacity > 0) {
        for (int64_t i = 0; i < T * K; i++) s.slot[s.begin[expert[i]]++] = (int32_t)i;
        for (int64_t e = E; e > 0; e--) s.begin[e] = s.begin[e - 1];
        s.begin[0] = 0;
        drop_above_capacity(a, &s, E);
    }
    memset(count, 0, (size_t)(R * X) * sizeof *count);
    for (int64_t i = 0; i < T * K; i++)
        for (int64_t j = 0; j < J && !s.dropped[i]; j++) count[(expert[i] / X * J + j) * X + expert[i] % X]++;
    for (int64_t i = 0; i < R * X; rows += count[i++]) s.next[i] = rows;
    CHECK(rows <= N, "%lld rows do not fit %lld copies", (long long)N, (long long)rows);
    for (int64_t i = 0; i < T * K; i++)
        for (int64_t j = 0; j < J; j++) {
            int64_t *next = &s.next[(expert[i] / X * J + j) * X + expert[i] % X];
            row_of[i * J + j] = s.dropped[i] ? -1 : (int32_t)*next;
            if (!s.dropped[i]) slot_of[(*next)++] = (int32_t)i;
        }
    for (; rows < N; rows++) slot_of[rows] = -1;
}

CPU(load_add, LoadAdd)
{
    int64_t E = a->load_E1.dim[0] - 1, R = a->count_RX.dim[0], X = a->count_RX.dim[1], J = R * X / E, sum = 0;
    const int32_t *count = a->count_RX.data;
    WANT(a->load_E1, E + 1);
    WANT(a->count_RX, R, X);
    CHECK(R * X == J * E, "%lld x %lld counts of %lld experts", (long long)R, (long long)X, (long long)E);
    for (int64_t e = 0; e < E; e++) {
        flat(a->load_E1)[e] += (float)count[e / X * J * X + e % X];
        sum += count[e / X * J * X + e % X];
    }
    flat(a->load_E1)[E] += (float)(a->copies - sum);
}

CPU(expert_bias_update, ExpertBiasUpdate)
{
    int64_t L = a->bias_LE.dim[0], E = a->bias_LE.dim[1];
    WANT(a->bias_LE, L, E);
    WANT(a->load_LE, L, a->load_LE.dim[1]);
    if (q->step_state->unread) return;
    for (int64_t l = 0; l < L; l++) {
        double sum = 0;
        for (int64_t e = 0; e < E; e++) sum += (double)row(a->load_LE, l)[e];
        for (int64_t e = 0; e < E; e++) {
            double above = (double)row(a->load_LE, l)[e] * (double)E - sum;
            row(a->bias_LE, l)[e] += (float)(above < 0 ? a->rate : above > 0 ? -a->rate : 0);
        }
    }
}

CPU(load_summary, LoadSummary)
{
    int64_t L = a->load_LE.dim[0], S = a->summary_S.dim[0], E = a->load_LE.dim[1] - S + 1;
    WANT(a->summary_S, S);
    WANT(a->load_LE, L, E + S - 1);
    memset(a->summary_S.data, 0, (size_t)S * sizeof(float));
    for (int64_t l = 0; l < L; l++) {
        const float *load = row(a->load_LE, l);
        double most = 0, sum = 0;
        for (int64_t e = 0; e < E; e++) {
            most = most > (double)load[e] ? most : (double)load[e];
            sum += (double)load[e];
        }
        flat(a->summary_S)[0] += sum > 0 ? (float)(most * (double)E / sum) : 0;
        for (int64_t s = 1; s < S; s++) flat(a->summary_S)[s] += load[E + s - 1];
    }
}
