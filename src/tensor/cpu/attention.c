/* Scaled dot-product attention with grouped key-value heads, and the merging of two chunks of keys.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of a head A query processes its keys in blocks with a running maximum and sum (online
 * softmax, Milakov & Gimelshein 2018), so no row of scores is stored whole and memory does not grow
 * with the length of the sequence. */
#include "tensor/cpu/cpu.h"

enum { KEY_BLOCK = 64, QUERY_BLOCK = 16 };       /* keys of a block of scores; queries of a chunk of work */

/* What forward and backward share: the sizes, which keys a query sees, and which probabilities are
 * dropped. The fields are those of the ops' arguments (tensor/ops.def); key is the dropout key. One of
 * forward and backward is set. */
typedef struct {
    const AttentionForward  *forward;
    const AttentionBackward *backward;
    int64_t  B, S, U, H, G, D;
    Tensor   key_range_i, sample_i;
    int64_t  q0, k0, head0, heads, span;
    float    scale;
    double   p;
    uint64_t key;
} CpuAttention;

#define CPU_ATTENTION(queue, a) .B = (a)->q.dim[0], .S = (a)->q.dim[1], .U = (a)->k.dim[1],                 \
    .H = (a)->q.dim[2], .G = (a)->k.dim[2], .D = (a)->q.dim[3],                                             \
    .key_range_i = (a)->key_range_i, .sample_i = (a)->sample_i, .q0 = (a)->q0, .k0 = (a)->k0,               \
    .head0 = (a)->head0, .heads = (a)->heads, .span = (a)->span, .scale = (float)(a)->scale,                \
    .p = (a)->p, .key = dropout_key((queue)->step_state, (a)->site)

static void check(const CpuAttention *x)
{
    CHECK(x->G > 0 && x->H % x->G == 0, "%lld query heads cannot share %lld key-value heads evenly", (long long)x->H,
          (long long)x->G);
    if (tensor_present(x->key_range_i)) WANT(x->key_range_i, I32, x->B, x->S, 2);
    if (x->p > 0) WANT(x->sample_i, I32, x->B);
}

/* The keys of this chunk that query s sees: [first, end), empty when first >= end */
static void visible_keys(const CpuAttention *x, int64_t b, int64_t s, int64_t *first, int64_t *end)
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

/* factor[i] = the dropout factor of the probability of key u + i */
static void dropout_factors(const CpuAttention *x, DropoutMask *mask, float *factor, int64_t b, int64_t s,
                            int64_t h, int64_t u, int64_t n)
{
    const int32_t *sample = x->sample_i.data;
    int64_t row = (sample[b] * x->heads + x->head0 + h) * x->span + x->q0 + s;
    for (int64_t i = 0; i < n; i++)
        factor[i] = dropout_factor(mask, (uint64_t)(row * x->span + x->k0 + u + i));
}

/* Eight partial sums, added pairwise at the end: a fixed order that uses vector registers. */
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

/* lse = log of the sum over visible keys of exp(score),   o = sum of dropout exp(score - lse) v
 * When a block raises the maximum, the sum and o so far are scaled down to it. The sum is in double and
 * without dropout, so that lse is exact enough for the backward op. */
INLINE void forward_query(const CpuAttention *x, DropoutMask *mask, int64_t b, int64_t s, int64_t h)
{
    const AttentionForward *a = x->forward;
    int64_t g = h / (x->H / x->G), first, end;
    float *o = head(a->o, b, s, h), prob[KEY_BLOCK], factor[KEY_BLOCK], max = -INFINITY;
    double sum = 0;
    visible_keys(x, b, s, &first, &end);
    memset(o, 0, (size_t)x->D * sizeof *o);
    for (int64_t u = first; u < end; u += KEY_BLOCK) {
        int64_t n = end - u < KEY_BLOCK ? end - u : KEY_BLOCK;
        float old_max = max;
        scores(prob, head(a->q, b, s, h), a->k, b, u, g, x->scale, n);
        for (int64_t i = 0; i < n; i++) max = prob[i] > max ? prob[i] : max;
        float shrink = cpu_exp(old_max - max);
        for (int64_t i = 0; i < n; i++) prob[i] = cpu_exp(prob[i] - max);
        sum *= (double)shrink;
        for (int64_t i = 0; i < n; i++) sum += (double)prob[i];
        if (x->p > 0) {
            dropout_factors(x, mask, factor, b, s, h, u, n);
            for (int64_t i = 0; i < n; i++) prob[i] *= factor[i];
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
    const CpuAttention *x = context;
    DropoutMask mask = cpu_dropout_mask(x->key, x->p);
    int64_t query_blocks = (x->S + QUERY_BLOCK - 1) / QUERY_BLOCK;
    for (int64_t i = begin; i < end; i++) {
        int64_t s0 = i % query_blocks * QUERY_BLOCK, h = i / query_blocks % x->H, b = i / query_blocks / x->H;
        for (int64_t s = s0; s < x->S && s < s0 + QUERY_BLOCK; s++) forward_query(x, &mask, b, s, h);
    }
}

CPU(attention_forward, AttentionForward)
{
    CpuAttention x = { CPU_ATTENTION(q, a), .forward = a };
    check(&x);
    WANT(a->o, F32, x.B, x.S, x.H, x.D);
    WANT(a->lse, F32, x.B, x.S, x.H);
    WANT(a->q, F32, x.B, x.S, x.H, x.D);
    WANT(a->k, F32, x.B, x.U, x.G, x.D);
    WANT(a->v, F32, x.B, x.U, x.G, x.D);
    team_for(q->team, x.B * x.H * ((x.S + QUERY_BLOCK - 1) / QUERY_BLOCK), 1, forward_queries, &x);
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
    team_for(q->team, B * S * H, chunk_rows(D), delta_sequence, (void *)a);
}

/* With prob = exp(score - lse) and dprob = dropout (do . v):   dv += dropout prob do
 * dscore = prob (dprob - delta),   dk += scale dscore q,   dq += scale dscore k
 * Scores are computed again from q and k instead of stored (Dao et al. 2022, FlashAttention). */
INLINE void backward_query(const CpuAttention *x, DropoutMask *mask, int64_t b, int64_t s, int64_t h)
{
    const AttentionBackward *a = x->backward;
    int64_t g = h / (x->H / x->G), first, end;
    const float *q = head(a->q, b, s, h), *d_o = head(a->d_o, b, s, h);
    float *dq = head(a->dq, b, s, h), lse = *head(a->lse, b, s, h), delta = *head(a->delta, b, s, h);
    float prob[KEY_BLOCK], dscore[KEY_BLOCK], factor[KEY_BLOCK];
    visible_keys(x, b, s, &first, &end);
    for (int64_t u = first; u < end; u += KEY_BLOCK) {
        int64_t n = end - u < KEY_BLOCK ? end - u : KEY_BLOCK;
        scores(prob, q, a->k, b, u, g, x->scale, n);
        scores(dscore, d_o, a->v, b, u, g, 1, n);
        for (int64_t i = 0; i < n; i++) factor[i] = 1;
        if (x->p > 0) dropout_factors(x, mask, factor, b, s, h, u, n);
        for (int64_t i = 0; i < n; i++) {
            float undropped = cpu_exp(prob[i] - lse);
            dscore[i] = x->scale * undropped * (factor[i] * dscore[i] - delta);
            prob[i]   = undropped * factor[i];
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

/* A chunk of work owns dk and dv of one key-value head of one sequence and dq of the query heads that
 * share it, so that no two threads add to the same element and the order of additions is fixed. */
static CLONES void backward_heads(void *context, int64_t begin, int64_t end)
{
    const CpuAttention *x = context;
    DropoutMask mask = cpu_dropout_mask(x->key, x->p);
    int64_t group = x->H / x->G;
    for (int64_t i = begin; i < end; i++)
        for (int64_t s = 0; s < x->S; s++)
            for (int64_t h = i % x->G * group; h < (i % x->G + 1) * group; h++)
                backward_query(x, &mask, i / x->G, s, h);
}

CPU(attention_backward, AttentionBackward)
{
    CpuAttention x = { CPU_ATTENTION(q, a), .backward = a };
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
        if (one == -INFINITY && two == -INFINITY) continue;            /* no key in either chunk: o stays 0 */
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
    team_for(q->team, B * S * H, chunk_rows(D), merge_queries, (void *)a);
}
