/* Scaled dot-product attention (Vaswani et al. 2017) with grouped key-value heads, and the merging of two
 * chunks of keys.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o */
#include "base/random.h"
#include "tensor/ref/ref.h"

/* What forward and backward share: the sizes, which keys a query sees, and which probabilities are
 * dropped. The fields are those of the ops' arguments (tensor/ops.def); key is the dropout key. */
typedef struct {
    int64_t  B, S, U, H, G, D, E;
    Tensor   key_range_i, sample_i, key_distance_i;
    AttentionRule rule;
    uint64_t key;
} RefAttention;

#define REF_ATTENTION(queue, a, distance) checked((RefAttention){                                           \
    .B = (a)->q.dim[0], .S = (a)->q.dim[1], .U = (a)->k.dim[1],                                             \
    .H = (a)->q.dim[2], .G = (a)->k.dim[2], .D = (a)->q.dim[3], .E = (a)->v.dim[3],                       \
    .key_range_i = (a)->key_range_i, .sample_i = (a)->sample_i, .key_distance_i = distance,                 \
    .rule = (a)->rule,                                                                                      \
    .key = dropout_key((queue)->step_state, (a)->rule.site) })

static RefAttention checked(RefAttention x)
{
    CHECK(x.G > 0 && x.H % x.G == 0, "%lld query heads cannot share %lld key-value heads evenly", (long long)x.H,
          (long long)x.G);
    if (tensor_present(x.key_range_i)) WANT(x.key_range_i, x.B, x.S, 2);
    if (x.rule.p > 0) WANT(x.sample_i, x.B);
    if (tensor_present(x.key_distance_i)) WANT(x.key_distance_i, x.B, x.S == 1 ? x.U : 0);
    return x;
}

/* Whether query s may attend to key u. Positions are global, so a chunk of keys may begin anywhere. */
static bool key_visible(const RefAttention *x, int64_t b, int64_t s, int64_t u)
{
    int64_t key = x->rule.k0 + u;
    if (x->rule.window > 0 && key <= x->rule.q0 + s - x->rule.window) return false;
    if (!tensor_present(x->key_range_i)) return key <= x->rule.q0 + s;
    const int32_t *row = x->key_range_i.data;
    row += b * x->key_range_i.stride[0] + s * x->key_range_i.stride[1];
    return key >= row[0] && key < row[1];
}

/* The dropout factor of one probability, from its index in the whole attention matrix of the model. */
static double dropout_factor(const RefAttention *x, int64_t b, int64_t s, int64_t h, int64_t u)
{
    if (x->rule.p == 0) return 1;
    int64_t row = (int1(x->sample_i, b) * x->rule.heads + x->rule.head0 + h) * x->rule.span + x->rule.q0 + s;
    return ref_dropout(x->key, (uint64_t)(row * x->rule.span + x->rule.k0 + u), x->rule.p);
}

static double product(Tensor q, Tensor k, int64_t b, int64_t s, int64_t h, int64_t u, int64_t g)
{
    double sum = 0;
    for (int64_t d = 0; d < q.dim[3]; d++) sum += *at4(q, b, s, h, d) * *at4(k, b, u, g, d);
    return sum;
}

/* logit = scale q . k,   with a soft-cap: softcap tanh(scale q . k / softcap) */
static double logit(const RefAttention *x, Tensor q, Tensor k, int64_t b, int64_t s, int64_t h, int64_t u)
{
    double scaled = x->rule.scale * product(q, k, b, s, h, u, h / (x->H / x->G));
    return x->rule.softcap > 0 ? x->rule.softcap * tanh(scaled / x->rule.softcap) : scaled;
}

/* What ALiBi adds to it: - slope times how many positions the key is before the query */
static double linear_bias(const RefAttention *x, int64_t b, int64_t s, int64_t h, int64_t u)
{
    if (!x->rule.alibi) return 0;
    int64_t before = x->rule.q0 + s - x->rule.k0 - u;
    if (tensor_present(x->key_distance_i))
        before = ((const int32_t *)x->key_distance_i.data)[b * x->key_distance_i.stride[0] + u];
    return -alibi_slope(x->rule.head0 + h, x->rule.heads) * (double)before;
}

static double score(const RefAttention *x, Tensor q, Tensor k, int64_t b, int64_t s, int64_t h, int64_t u)
{
    return logit(x, q, k, b, s, h, u) + linear_bias(x, b, s, h, u);
}

/* One query: lse = log of the sum over visible keys of exp(score),   o = sum of dropout exp(score - lse) v
 * The maximum is subtracted before exp, so that no score overflows. */
static void forward_query(const RefAttention *x, const AttentionForward *a, int64_t b, int64_t s, int64_t h)
{
    int64_t g = h / (x->H / x->G);
    double max = -INFINITY, sum = 0;
    for (int64_t u = 0; u < x->U; u++)
        if (key_visible(x, b, s, u)) max = fmax(max, score(x, a->q, a->k, b, s, h, u));
    for (int64_t u = 0; u < x->U; u++)
        if (key_visible(x, b, s, u)) sum += exp(score(x, a->q, a->k, b, s, h, u) - max);
    double lse = sum == 0 ? -INFINITY : max + log(sum);
    *at3(a->lse, b, s, h) = lse;
    for (int64_t e = 0; e < x->E; e++) *at4(a->o, b, s, h, e) = 0;
    for (int64_t u = 0; u < x->U; u++) {
        if (!key_visible(x, b, s, u)) continue;
        double prob = dropout_factor(x, b, s, h, u) * exp(score(x, a->q, a->k, b, s, h, u) - lse);
        for (int64_t e = 0; e < x->E; e++) *at4(a->o, b, s, h, e) += prob * *at4(a->v, b, u, g, e);
    }
}

REF(attention_forward, AttentionForward)
{
    RefAttention x = REF_ATTENTION(q, a, a->key_distance_i);
    WANT(a->o, x.B, x.S, x.H, x.E);
    WANT(a->lse, x.B, x.S, x.H);
    WANT(a->q, x.B, x.S, x.H, x.D);
    WANT(a->k, x.B, x.U, x.G, x.D);
    WANT(a->v, x.B, x.U, x.G, x.E);
    for (int64_t b = 0; b < x.B; b++)
        for (int64_t s = 0; s < x.S; s++)
            for (int64_t h = 0; h < x.H; h++) forward_query(&x, a, b, s, h);
}

/* delta = sum over channels of o do */
REF(attention_delta, AttentionDelta)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->delta, B, S, H);
    WANT(a->o, B, S, H, D);
    WANT(a->d_o, B, S, H, D);
    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < H; h++) {
                double sum = 0;
                for (int64_t d = 0; d < D; d++) sum += *at4(a->o, b, s, h, d) * *at4(a->d_o, b, s, h, d);
                *at3(a->delta, b, s, h) = sum;
            }
}

/* With prob = exp(score - lse) and dprob = dropout (do . v):   dv += dropout prob do
 * dscore = prob (dprob - delta),   dk += scale dscore q,   dq += scale dscore k;   ALiBi's bias is constant.
 * With a soft-cap, dscore is also multiplied by 1 - (score / softcap)^2. */
static void backward_query(const RefAttention *x, const AttentionBackward *a, int64_t b, int64_t s, int64_t h)
{
    int64_t g = h / (x->H / x->G);
    for (int64_t u = 0; u < x->U; u++) {
        if (!key_visible(x, b, s, u)) continue;
        double capped = logit(x, a->q, a->k, b, s, h, u);
        double prob = exp(capped + linear_bias(x, b, s, h, u) - *at3(a->lse, b, s, h));
        double factor = dropout_factor(x, b, s, h, u), dprob = factor * product(a->d_o, a->v, b, s, h, u, g);
        double dscore = a->rule.scale * prob * (dprob - *at3(a->delta, b, s, h));
        if (x->rule.softcap > 0) dscore *= 1 - capped / x->rule.softcap * (capped / x->rule.softcap);
        for (int64_t e = 0; e < x->E; e++)
            *at4(a->dv, b, u, g, e) += factor * prob * *at4(a->d_o, b, s, h, e);
        for (int64_t d = 0; d < x->D; d++) {
            *at4(a->dk, b, u, g, d) += dscore * *at4(a->q, b, s, h, d);
            *at4(a->dq, b, s, h, d) += dscore * *at4(a->k, b, u, g, d);
        }
    }
}

REF(attention_backward, AttentionBackward)
{
    RefAttention x = REF_ATTENTION(q, a, tensor_none());
    WANT(a->dq, x.B, x.S, x.H, x.D);
    WANT(a->dk, x.B, x.U, x.G, x.D);
    WANT(a->dv, x.B, x.U, x.G, x.E);
    WANT(a->d_o, x.B, x.S, x.H, x.E);
    WANT(a->q, x.B, x.S, x.H, x.D);
    WANT(a->k, x.B, x.U, x.G, x.D);
    WANT(a->v, x.B, x.U, x.G, x.E);
    WANT(a->lse, x.B, x.S, x.H);
    WANT(a->delta, x.B, x.S, x.H);
    for (int64_t b = 0; b < x.B; b++)
        for (int64_t s = 0; s < x.S; s++)
            for (int64_t h = 0; h < x.H; h++) backward_query(&x, a, b, s, h);
}

/* new = log(exp(lse) + exp(lse2)),   o = o exp(lse - new) + o2 exp(lse2 - new) */
REF(attention_merge, AttentionMerge)
{
    int64_t B = a->o.dim[0], S = a->o.dim[1], H = a->o.dim[2], D = a->o.dim[3];
    WANT(a->o, B, S, H, D);
    WANT(a->o2, B, S, H, D);
    WANT(a->lse, B, S, H);
    WANT(a->lse2, B, S, H);
    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < H; h++) {
                double one = *at3(a->lse, b, s, h), two = *at3(a->lse2, b, s, h), max = fmax(one, two);
                if (one == -INFINITY && two == -INFINITY) continue;    /* no key in either chunk: o stays 0 */
                double both = max + log(exp(one - max) + exp(two - max));
                double part = exp(one - both), part2 = exp(two - both);
                for (int64_t d = 0; d < D; d++)
                    *at4(a->o, b, s, h, d) = *at4(a->o, b, s, h, d) * part + *at4(a->o2, b, s, h, d) * part2;
                *at3(a->lse, b, s, h) = both;
            }
}
