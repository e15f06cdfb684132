/* Attention.   B sequences   S queries   U keys   H query heads   G key-value heads, each for H / G of them
 *              D channels of a head
 * A query goes over its keys a PIECE at a time with a running maximum; no row of scores is stored whole. */
#include "tensor/cpu/cpu.h"

enum { PIECE = 64, QUERIES = 16 };

/* What forward and backward share: the sizes, which keys a query sees, which probabilities are dropped */
typedef struct {
    const AttentionForward  *forward;
    const AttentionBackward *backward;
    int64_t  B, S, U, H, G, D;
    Tensor   key_range_i, sample_i;
    int64_t  q0, k0, head0, heads, span;
    float    scale;
    double   p;
    uint64_t key;
} View;

#define VIEW(queue, a) .B = (a)->q.dim[0], .S = (a)->q.dim[1], .U = (a)->k.dim[1],                          \
    .H = (a)->q.dim[2], .G = (a)->k.dim[2], .D = (a)->q.dim[3],                                             \
    .key_range_i = (a)->key_range_i, .sample_i = (a)->sample_i, .q0 = (a)->q0, .k0 = (a)->k0,                   \
    .head0 = (a)->head0, .heads = (a)->heads, .span = (a)->span, .scale = (float)(a)->scale,                \
    .p = (a)->p, .key = dropout_key((queue)->step_state, (a)->site)

static void check(const View *x)
{
    CHECK(x->G > 0 && x->H % x->G == 0, "%lld query heads cannot share %lld key heads", (long long)x->H,
          (long long)x->G);
    if (tensor_present(x->key_range_i)) WANT(x->key_range_i, I32, x->B, x->S, 2);
    if (x->p > 0) WANT(x->sample_i, I32, x->B);
}

/* The keys held here that a query sees: [first, end) */
static void keys_seen(const View *x, int64_t b, int64_t s, int64_t *first, int64_t *end)
{
    *first = 0, *end = x->q0 + s + 1 - x->k0;
    if (tensor_present(x->key_range_i)) {
        const int32_t *row = x->key_range_i.data;
        row += b * x->key_range_i.stride[0] + s * x->key_range_i.stride[1];
        *first = row[0] - x->k0, *end = row[1] - x->k0;
    }
    if (*first < 0) *first = 0;
    if (*end > x->U) *end = x->U;
}

/* kept[i]: what the probability of key u + i is multiplied by */
static void keep_piece(const View *x, Keep *keep, float *kept, int64_t b, int64_t s, int64_t h, int64_t u,
                       int64_t n)
{
    const int32_t *sample = x->sample_i.data;
    int64_t row = (sample[b] * x->heads + x->head0 + h) * x->span + x->q0 + s;
    for (int64_t i = 0; i < n; i++) kept[i] = keep_next(keep, (uint64_t)(row * x->span + x->k0 + u + i));
}

INLINE float dot(const float *x, const float *y, int64_t n)
{
    Vec lanes = { 0 };
    float sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) lanes += *(const Vec *)(x + i) * *(const Vec *)(y + i);
    for (; i < n; i++) sum += x[i] * y[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0] + sum;
}

/* score[i] = scale q . k[u + i] */
INLINE void scores(float *score, const float *q, Tensor k, int64_t b, int64_t u, int64_t g, float scale,
                   int64_t n)
{
    for (int64_t i = 0; i < n; i++) score[i] = scale * dot(q, head(k, b, u + i, g), k.dim[3]);
}

/* lse = log of the sum over seen keys of exp(score),   o = sum of keep exp(score - lse) v */
INLINE void forward_query(const View *x, Keep *keep, int64_t b, int64_t s, int64_t h)
{
    const AttentionForward *a = x->forward;
    int64_t g = h / (x->H / x->G), first, end;
    float *o = head(a->o, b, s, h), prob[PIECE], kept[PIECE], max = -INFINITY;
    double sum = 0;
    keys_seen(x, b, s, &first, &end);
    memset(o, 0, (size_t)x->D * sizeof *o);
    for (int64_t u = first; u < end; u += PIECE) {
        int64_t n = end - u < PIECE ? end - u : PIECE;
        float before = max;
        scores(prob, head(a->q, b, s, h), a->k, b, u, g, x->scale, n);
        for (int64_t i = 0; i < n; i++) max = prob[i] > max ? prob[i] : max;
        float shrink = cpu_exp(before - max);
        for (int64_t i = 0; i < n; i++) prob[i] = cpu_exp(prob[i] - max);
        sum *= (double)shrink;
        for (int64_t i = 0; i < n; i++) sum += (double)prob[i];
        if (x->p > 0) {
            keep_piece(x, keep, kept, b, s, h, u, n);
            for (int64_t i = 0; i < n; i++) prob[i] *= kept[i];
        }
        for (int64_t d = 0; d < x->D; d++) o[d] *= shrink;
        for (int64_t i = 0; i < n; i++) {
            const float *v = head(a->v, b, u + i, g);
            for (int64_t d = 0; d < x->D; d++) o[d] += prob[i] * v[d];
        }
    }
    for (int64_t d = 0; d < x->D && first < end; d++) o[d] = (float)((double)o[d] / sum);
    *head(a->lse, b, s, h) = first < end ? (float)((double)max + log(sum)) : -INFINITY;
}

static CLONES void forward_queries(void *context, int64_t begin, int64_t end)
{
    const View *x = context;
    Keep keep = cpu_keep(x->key, x->p);
    int64_t parts = (x->S + QUERIES - 1) / QUERIES;
    for (int64_t i = begin; i < end; i++) {
        int64_t s0 = i % parts * QUERIES, h = i / parts % x->H, b = i / parts / x->H;
        for (int64_t s = s0; s < x->S && s < s0 + QUERIES; s++) forward_query(x, &keep, b, s, h);
    }
}

CPU(attention_forward, AttentionForward)
{
    View x = { VIEW(q, a), .forward = a };
    check(&x);
    WANT(a->o, F32, x.B, x.S, x.H, x.D);
    WANT(a->lse, F32, x.B, x.S, x.H);
    WANT(a->q, F32, x.B, x.S, x.H, x.D);
    WANT(a->k, F32, x.B, x.U, x.G, x.D);
    WANT(a->v, F32, x.B, x.U, x.G, x.D);
    team_for(q->team, x.B * x.H * ((x.S + QUERIES - 1) / QUERIES), 1, forward_queries, &x);
}

/* delta = sum over channels of o do */
static CLONES void delta_sequence(void *context, int64_t begin, int64_t end)
{
    const AttentionDelta *a = context;
    int64_t S = a->o.dim[1], H = a->o.dim[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % H, s = i / H % S, b = i / H / S;
        *head(a->delta, b, s, h) = dot(head(a->o, b, s, h), head(a->d_o, b, s, h), a->o.dim[3]);
    }
}

CPU(attention_delta, AttentionDelta)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->delta, F32, B, S, H);
    WANT(a->o, F32, B, S, H, D);
    WANT(a->d_o, F32, B, S, H, D);
    team_for(q->team, B * S * H, some_rows(D), delta_sequence, (void *)a);
}

/* With prob = exp(score - lse) and dprob = keep (do . v):   dv += keep prob do
 * dscore = prob (dprob - delta),   dk += scale dscore q,   dq += scale dscore k */
INLINE void backward_query(const View *x, Keep *keep, int64_t b, int64_t s, int64_t h)
{
    const AttentionBackward *a = x->backward;
    int64_t g = h / (x->H / x->G), first, end;
    const float *q = head(a->q, b, s, h), *d_o = head(a->d_o, b, s, h);
    float *dq = head(a->dq, b, s, h), lse = *head(a->lse, b, s, h), delta = *head(a->delta, b, s, h);
    float prob[PIECE], dscore[PIECE], kept[PIECE];
    keys_seen(x, b, s, &first, &end);
    for (int64_t u = first; u < end; u += PIECE) {
        int64_t n = end - u < PIECE ? end - u : PIECE;
        scores(prob, q, a->k, b, u, g, x->scale, n);
        scores(dscore, d_o, a->v, b, u, g, 1, n);
        for (int64_t i = 0; i < n; i++) kept[i] = 1;
        if (x->p > 0) keep_piece(x, keep, kept, b, s, h, u, n);
        for (int64_t i = 0; i < n; i++) {
            float whole = cpu_exp(prob[i] - lse);
            dscore[i] = x->scale * whole * (kept[i] * dscore[i] - delta);
            prob[i]   = whole * kept[i];
        }
        for (int64_t i = 0; i < n; i++) {
            const float *k = head(a->k, b, u + i, g);
            float *dk = head(a->dk, b, u + i, g), *dv = head(a->dv, b, u + i, g);
            for (int64_t d = 0; d < x->D; d++) dv[d] += prob[i] * d_o[d];
            for (int64_t d = 0; d < x->D; d++) dk[d] += dscore[i] * q[d];
            for (int64_t d = 0; d < x->D; d++) dq[d] += dscore[i] * k[d];
        }
    }
}

/* A chunk owns the dk and dv of one key-value head of one sequence, and the dq of the heads that share it. */
static CLONES void backward_heads(void *context, int64_t begin, int64_t end)
{
    const View *x = context;
    Keep keep = cpu_keep(x->key, x->p);
    int64_t group = x->H / x->G;
    for (int64_t i = begin; i < end; i++)
        for (int64_t s = 0; s < x->S; s++)
            for (int64_t h = i % x->G * group; h < (i % x->G + 1) * group; h++)
                backward_query(x, &keep, i / x->G, s, h);
}

CPU(attention_backward, AttentionBackward)
{
    View x = { VIEW(q, a), .backward = a };
    check(&x);
    WANT(a->dq, F32, x.B, x.S, x.H, x.D);
    WANT(a->dk, F32, x.B, x.U, x.G, x.D);
    WANT(a->dv, F32, x.B, x.U, x.G, x.D);
    WANT(a->d_o, F32, x.B, x.S, x.H, x.D);
    WANT(a->q, F32, x.B, x.S, x.H, x.D);
    WANT(a->k, F32, x.B, x.U, x.G, x.D);
    WANT(a->v, F32, x.B, x.U, x.G, x.D);
    WANT(a->lse, F32, x.B, x.S, x.H);
    WANT(a->delta, F32, x.B, x.S, x.H);
    team_for(q->team, x.B * x.G, 1, backward_heads, &x);
}

/* new = log(exp(lse) + exp(lse2)),   o = o exp(lse - new) + o2 exp(lse2 - new) */
static CLONES void merge_queries(void *context, int64_t begin, int64_t end)
{
    const AttentionMerge *a = context;
    int64_t S = a->o.dim[1], H = a->o.dim[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % H, s = i / H % S, b = i / H / S;
        float one = *head(a->lse, b, s, h), two = *head(a->lse2, b, s, h), max = one > two ? one : two;
        if (one == -INFINITY && two == -INFINITY) continue;            /* no key in either: o stays 0 */
        float both = (float)((double)max + log(exp((double)(one - max)) + exp((double)(two - max))));
        float part = cpu_exp(one - both), part2 = cpu_exp(two - both);
        float *o = head(a->o, b, s, h);
        const float *o2 = head(a->o2, b, s, h);
        for (int64_t d = 0; d < a->o.dim[3]; d++) o[d] = o[d] * part + o2[d] * part2;
        *head(a->lse, b, s, h) = both;
    }
}

CPU(attention_merge, AttentionMerge)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->o, F32, B, S, H, D);
    WANT(a->o2, F32, B, S, H, D);
    WANT(a->lse, F32, B, S, H);
    WANT(a->lse2, F32, B, S, H);
    team_for(q->team, B * S * H, some_rows(D), merge_queries, (void *)a);
}
