/* Scaled dot-product attention with grouped key-value heads, and the merging of two chunks of keys. The two
 * passes are flash.h's, which says in which order sums are taken.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o */
#include "base/exponential.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/flash/flash.h"

#define FLASH(a)                                                                                            \
    .q = (a)->q, .k = (a)->k, .v = (a)->v, .lse = (a)->lse, .key_range_i = (a)->key_range_i,                \
    .sample_i = (a)->sample_i, .rule = (a)->rule

static Flash forward_pass(const AttentionForward *a)
{
    return (Flash){ FLASH(a), .o = a->o, .key_distance_i = a->key_distance_i };
}

static Flash backward_pass(const AttentionBackward *a)
{
    return (Flash){ FLASH(a), .d_o = a->d_o, .delta = a->delta, .dq = a->dq, .dk = a->dk, .dv = a->dv };
}

size_t cpu_attention_forward_workspace(const Queue *q, const AttentionForward *a)
{
    Flash x = forward_pass(a);
    return flash_forward_workspace(&x, q->threads);
}

size_t cpu_attention_backward_workspace(const Queue *q, const AttentionBackward *a)
{
    Flash x = backward_pass(a);
    return flash_backward_workspace(&x, q->threads);
}

static void check(const Flash *x)
{
    int64_t B = x->q.dim[0], S = x->q.dim[1], H = x->q.dim[2], D = x->q.dim[3];
    int64_t U = x->k.dim[1], G = x->k.dim[2], E = x->v.dim[3];
    CHECK(G > 0 && H % G == 0, "%lld query heads cannot share %lld key-value heads evenly", (long long)H,
          (long long)G);
    WANT(x->q, B, S, H, D);
    WANT(x->k, B, U, G, D);
    WANT(x->v, B, U, G, E);
    WANT(x->lse, B, S, H);
    if (tensor_present(x->key_range_i)) WANT(x->key_range_i, B, S, 2);
    if (x->rule.p > 0) WANT(x->sample_i, B);
    if (tensor_present(x->key_distance_i)) WANT(x->key_distance_i, B, S == 1 ? U : 0);
}

CPU(attention_forward, AttentionForward)
{
    Flash x = forward_pass(a);
    check(&x);
    WANT(a->o, a->q.dim[0], a->q.dim[1], a->q.dim[2], a->v.dim[3]);
    x.dropout_key = dropout_key(q->step_state, a->rule.site);
    x.family = q->kernels;
    flash_forward(q->team, &x, q->op_workspace, q->op_workspace_bytes);
}

/* The channels of a head at [b, s, h], as the row of a 2-dim tensor. */
static Tensor head_row(Tensor x, int64_t b, int64_t s, int64_t h)
{
    void *at = (char *)x.data
             + (b * x.stride[0] + s * x.stride[1] + h * x.stride[2]) * (int64_t)dtype_width(x.dtype);
    return tensor_at(at, x.dtype, &x.dim[3], 1);
}

/* Eight partial sums, added pairwise at the end: a fixed order that uses vector registers. */
INLINE float dot(Tensor x_E, Tensor y_E)
{
    TileBuffer x_tile, y_tile;
    Vec lanes = { 0 };
    float sum = 0;
    for (int64_t first = 0; first < x_E.dim[0]; first += TILE) {
        int64_t i = 0, n = tile_count(x_E.dim[0], first);
        const float *x = tile_read(&x_tile, x_E, 0, first, n), *y = tile_read(&y_tile, y_E, 0, first, n);
        for (; i + LANES <= n; i += LANES) lanes += *(const Vec *)(x + i) * *(const Vec *)(y + i);
        for (; i < n; i++) sum += x[i] * y[i];
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0] + sum;
}

/* delta = sum over channels of o do */
static CLONES void delta_sequence(void *context, int64_t begin, int64_t end)
{
    const AttentionDelta *a = context;
    int64_t S = a->o.dim[1], H = a->o.dim[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % H, s = i / H % S, b = i / H / S;
        *head(a->delta, b, s, h) = dot(head_row(a->o, b, s, h), head_row(a->d_o, b, s, h));
    }
}

CPU(attention_delta, AttentionDelta)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->delta, B, S, H);
    WANT(a->o, B, S, H, D);
    WANT(a->d_o, B, S, H, D);
    team_for(q->team, B * S * H, chunk_rows(D), delta_sequence, (void *)a);
}

CPU(attention_backward, AttentionBackward)
{
    Flash x = backward_pass(a);
    int64_t B = a->q.dim[0], S = a->q.dim[1], H = a->q.dim[2], D = a->q.dim[3];
    int64_t U = a->k.dim[1], G = a->k.dim[2], E = a->v.dim[3];
    check(&x);
    WANT(a->dq, B, S, H, D);
    WANT(a->dk, B, U, G, D);
    WANT(a->dv, B, U, G, E);
    WANT(a->d_o, B, S, H, E);
    WANT(a->delta, B, S, H);
    x.dropout_key = dropout_key(q->step_state, a->rule.site);
    x.family = q->kernels;
    flash_backward(q->team, &x, q->op_workspace, q->op_workspace_bytes);
}

/* new = log(exp(lse) + exp(lse2)),   o = o exp(lse - new) + o2 exp(lse2 - new) */
static CLONES void merge_queries(void *context, int64_t begin, int64_t end)
{
    const AttentionMerge *a = context;
    int64_t S = a->o.dim[1], H = a->o.dim[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % H, s = i / H % S, b = i / H / S;
        float *o = head(a->o, b, s, h);
        const float *o2 = head(a->o2, b, s, h);
        float one = *head(a->lse, b, s, h), two = *head(a->lse2, b, s, h), max = one > two ? one : two;
        if (one == -INFINITY && two == -INFINITY) continue;            /* no key in either chunk: o stays 0 */
        float both = (float)((double)max + natural_log(natural_exp((double)(one - max)) +
                                                       natural_exp((double)(two - max))));
        float part = cpu_exp(one - both), part2 = cpu_exp(two - both);
        for (int64_t d = 0; d < a->o.dim[3]; d++) o[d] = o[d] * part + o2[d] * part2;
        *head(a->lse, b, s, h) = both;
    }
}

CPU(attention_merge, AttentionMerge)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->o, B, S, H, D);
    WANT(a->o2, B, S, H, D);
    WANT(a->lse, B, S, H);
    WANT(a->lse2, B, S, H);
    team_for(q->team, B * S * H, chunk_rows(D), merge_queries, (void *)a);
}
