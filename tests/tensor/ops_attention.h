#ifndef TESTS_TENSOR_OPS_ATTENTION_H
#define TESTS_TENSOR_OPS_ATTENTION_H
/* The cases of the attention rows and of positions, for ops_test.c. */
#include "ops_trial.h"

static Queue ref_queue;
typedef bool Make(Arguments *a, int variant);              /* false: no such variant */

static Tensor exchanged(Tensor x, int one, int two)        /* two axes */
{
    Tensor y = x;
    y.dim[one] = x.dim[two], y.stride[one] = x.stride[two];
    y.dim[two] = x.dim[one], y.stride[two] = x.stride[one];
    return y;
}

/* key_range_i: absent, random, a window of 21 keys; linear biases, whose distances may be given key by key */
enum { CAUSAL, INTERVALS, WINDOW, RANGES = 3, ALIBI = 4, DISTANCES = 8 };
static const struct { int64_t B, S, U, H, G, D, E, q0, k0; int keys; double p, size, softcap; int64_t window; } attention[] = {
    { 1, 1, 1, 1, 1, 1, 1, 0, 0, CAUSAL, 0, 1, 0, 0 },             /* one of everything */
    { 2, 19, 19, 4, 2, 16, 16, 0, 0, CAUSAL, 0, 1, 0, 0 },         /* causal, two heads share one */
    { 2, 9, 150, 3, 1, 20, 20, 130, 0, CAUSAL, 0.2, 1, 0, 0 },     /* a cache of keys before the queries */
    { 1, 40, 70, 6, 3, 33, 33, 30, 50, CAUSAL, 0.1, 1, 0, 0 },     /* keys that begin after most queries */
    { 2, 33, 90, 4, 4, 8, 8, 0, 10, INTERVALS, 0.3, 1, 0, 0 },     /* intervals, some of them empty or outside */
    { 1, 17, 17, 2, 2, 16, 16, 0, 0, CAUSAL, 0, 300, 0, 0 },       /* scores in the ten thousands */
    { 1, 301, 301, 2, 1, 8, 8, 0, 0, CAUSAL, 0, 1, 0, 0 },         /* several tiles of queries and keys */
    { 1, 290, 290, 1, 1, 10, 6, 0, 0, WINDOW, 0.1, 1, 0, 0 },      /* tiles that nobody sees on both sides */
    { 2, 97, 193, 2, 2, 33, 80, 90, 0, INTERVALS, 0, 1, 0, 0 },    /* one more than a tile; wider values */
    { 1, 96, 192, 2, 2, 80, 33, 96, 0, CAUSAL, 0, 1, 0, 0 },       /* whole tiles; narrower values */
    { 1, 95, 95, 1, 1, 128, 128, 0, 0, CAUSAL, 0, 1, 0, 0 },       /* one less than a tile */
    { 1, 49, 50, 2, 1, 256, 256, 1, 0, CAUSAL, 0.5, 1, 0, 0 },
    { 2, 1, 150, 4, 2, 20, 12, 149, 0, CAUSAL, 0, 2, 1.5, 0 },     /* one query, as in generation */
    { 1, 120, 120, 2, 1, 256, 200, 0, 0, CAUSAL, 0, 2, 1.5, 0 },   /* a soft-cap at which many scores are */
    { 1, 290, 290, 2, 2, 24, 40, 0, 0, WINDOW, 0.1, 2, 1.5, 0 },
    { 2, 97, 193, 2, 1, 33, 80, 90, 0, INTERVALS, 0.2, 2, 50, 0 }, /* and one that few feel */
    { 1, 17, 17, 2, 2, 16, 16, 0, 0, CAUSAL, 0, 30, 3, 0 },          /* all scores at the cap */
    { 2, 230, 230, 2, 1, 16, 16, 0, 0, CAUSAL, 0.1, 1, 0, 20 },   /* a sliding window: tiles behind all of them */
    { 1, 60, 90, 2, 2, 8, 8, 40, 10, INTERVALS, 0, 1, 0, 9 },     /* and one that cuts intervals */
    { 1, 40, 40, 2, 2, 8, 8, 0, 0, CAUSAL, 0, 1, 0, 1 },          /* a query sees itself alone */
    { 2, 260, 260, 7, 7, 16, 16, 0, 0, CAUSAL | ALIBI, 0, 1, 0, 0 }, /* linear biases: heads of both slopes */
    { 1, 97, 193, 4, 2, 33, 40, 90, 10, INTERVALS | ALIBI, 0.2, 1, 2, 60 },   /* beside all else */
    { 2, 1, 150, 7, 7, 20, 12, 149, 0, CAUSAL | ALIBI, 0, 1, 0, 0 },
    { 2, 1, 150, 4, 2, 20, 20, 0, 0, INTERVALS | ALIBI | DISTANCES, 0.3, 1, 0, 0 },   /* keys of a cache in any order */
#ifdef OPS_CUDA                                                       /* tiles of tensor cores */
    { 1, 260, 260, 2, 1, 64, 64, 0, 0, CAUSAL, 0, 1, 0, 0 },      /* some without a mask */
    { 2, 150, 200, 2, 2, 64, 48, 60, 10, INTERVALS, 0, 1, 0, 0 }, /* narrower values, ranges */
    { 1, 140, 140, 4, 2, 96, 96, 0, 0, CAUSAL, 0.2, 1, 2, 70 },   /* all at once */
#endif
};
enum { ATTENTION = sizeof attention / sizeof *attention };

static bool make_attention_forward(Arguments *a, int variant)
{
    if (variant >= ATTENTION) return false;
    int64_t B = attention[variant].B, S = attention[variant].S, U = attention[variant].U,
            D = attention[variant].D, E = attention[variant].E;
    int64_t H = attention[variant].H, G = attention[variant].G;
    double size = attention[variant].size;
    int keys = attention[variant].keys;
    Tensor kv = between(-size, size, B, U, 2 * G, D);
    Tensor o  = exchanged(real(S, B, H, E), 0, 1);         /* positions outside of sequences */
    a->attention_forward = (AttentionForward){
        .o = o, .lse = real(B, S, H), .q = tensor_slice(between(-size, size, B, S, H + 1, D), 2, 1, H),
        .k = tensor_slice(kv, 2, 0, G), .v = tensor_slice(kv, 2, G, G), .sample_i = ints(B, 0, 1000),
        .rule = { .q0 = attention[variant].q0, .k0 = attention[variant].k0, .head0 = 2, .heads = 9, .span = 301,
                  .window = attention[variant].window, .scale = 1 / sqrt((double)D), .alibi = keys & ALIBI,
                  .softcap = attention[variant].softcap, .p = attention[variant].p, .site = 3 } };
    if (E != D) a->attention_forward.v = real(B, U, G, E);
    if (keys & DISTANCES) a->attention_forward.key_distance_i = tensor_view(ints(B * U, 0, 40), B, U);
    if (keys & RANGES)
        a->attention_forward.key_range_i = visible(B, S, U + attention[variant].k0 + 5);
    for (int64_t i = 0; i < B * S && (keys & RANGES) == WINDOW; i++) {
        int32_t *range = (int32_t *)a->attention_forward.key_range_i.data + 2 * i;
        range[0] = (int32_t)(i % S) - 15, range[1] = (int32_t)(i % S) + 6;
    }
    if (size > 10) loosen = size > 100 ? 5e3 : 50;         /* scores of 1e5 have roundings of 1e-2 */
    return true;
}

static bool make_attention_delta(Arguments *a, int variant)
{
    int64_t E = variant ? 72 : 33;
    a->attention_delta = (AttentionDelta){ .delta = real(2, 5, 3), .o = real(2, 5, 3, E),
                                           .d_o = tensor_slice(real(2, 5, 4, E), 2, 1, 3) };
    return variant < 2;
}

static bool make_attention_backward(Arguments *a, int variant)
{
    if (!make_attention_forward(a, variant)) return false;
    if (attention[variant].keys & DISTANCES) return make_attention_backward(a, 0);      /* of forward alone */
    AttentionForward f = a->attention_forward;
    int64_t B = f.q.dim[0], S = f.q.dim[1], H = f.q.dim[2], D = f.q.dim[3], U = f.k.dim[1], G = f.k.dim[2];
    int64_t E = f.v.dim[3];
    Tensor d_o = real(B, S, H, E), delta = real(B, S, H);
    attention_forward(&ref_queue, f);
    attention_delta(&ref_queue, (AttentionDelta){ .delta = delta, .o = f.o, .d_o = d_o });
    a->attention_backward = (AttentionBackward){
        .dq = tensor_slice(real(B, S, H + 2, D), 2, 1, H), .dk = real(B, U, G, D), .dv = real(B, U, G, E),
        .d_o = d_o, .q = f.q, .k = f.k, .v = f.v, .lse = f.lse, .delta = delta, .key_range_i = f.key_range_i,
        .sample_i = f.sample_i, .rule = f.rule };
    return true;
}

static bool make_attention_merge(Arguments *a, int variant)
{
    a->attention_merge = (AttentionMerge){ .o = real(2, 5, 3, 33), .lse = between(-9, 9, 2, 5, 3),
        .o2 = tensor_slice(real(2, 5, 4, 33), 2, 1, 3), .lse2 = between(-9, 9, 2, 5, 3) };
    for (int i = 0; i < 30; i++) {
        if (i % 4 & 1) *element(a->attention_merge.lse, i) = -INFINITY;
        if (i % 4 & 2) *element(a->attention_merge.lse2, i) = -INFINITY;
        for (int d = 0; d < 33 && i % 4 == 3; d++) *element(a->attention_merge.o, i * 33 + d) = 0;
    }
    return variant < 1;
}

/* ---- rotary positions, QK norm ---- */

/* Pairs of any frequency; the last variants turn a part of the channels, and neighbours. */
static RopeRule rope_rule_of(int64_t pairs, bool interleaved, double base)
{
    RopeRule rule = { .pairs = pairs, .interleaved = interleaved, .scale = interleaved ? 1.25 : 1 };
    for (int64_t i = 0; i < pairs; i++) rule.frequency[i] = pow(base, -(double)i / (double)pairs);
    return rule;
}

static bool make_rope_forward(Arguments *a, int variant)
{
    int64_t D = variant == 0 ? 2 : variant == 3 ? 150 : 64, pairs = variant == 2 ? 9 : variant == 3 ? 70 : D / 2;
    Tensor qkv = real(37, 6, D);
    a->rope_forward = (RopeForward){ .x_TnD = tensor_slice(qkv, 1, 2, 3), .position_i = ints(37, 0, 50000),
                                     .rule = rope_rule_of(pairs, variant >= 3, 10000) };
    return variant < 5;
}

static bool make_rope_backward(Arguments *a, int variant)
{
    int64_t D = variant == 0 ? 2 : variant == 3 ? 64 : 10, pairs = variant == 2 ? 3 : variant == 3 ? 24 : D / 2;
    Tensor qkv = real(37, 6, D);
    a->rope_backward = (RopeBackward){ .dx_TnD = tensor_slice(qkv, 1, 0, 4), .position_i = ints(37, 0, 50000),
                                       .rule = rope_rule_of(pairs, variant >= 3, 500) };
    return variant < 5;
}

/* Statistics of each head or of all; by further bits one gain for all heads, and in place */
typedef struct { Tensor x, y, rstd, sum, gain; double channels; } HeadNorm;
static HeadNorm head_norm_of(int variant)
{
    static const struct { int64_t T, n, D; } sizes[] = { { 1, 1, 1 }, { 5, 3, 33 }, { 40, 4, 128 }, { 3, 2, 600 } };
    int64_t T = sizes[variant / 8 % 4].T, n = sizes[variant / 8 % 4].n, D = sizes[variant / 8 % 4].D;
    int64_t M = variant & 1 ? 1 : n;
    return (HeadNorm){ .x = tensor_slice(real(T, n + 2, D), 1, 1, n), .y = tensor_slice(real(T, n + 1, D), 1, 0, n),
        .rstd = between(0.5, 2, T, M), .sum = between(0.5, 2, T, M), .gain = real(variant & 2 ? 1 : n, D),
        .channels = (double)(n / M * D) * 1.5 };
}

static bool make_head_norm_sums(Arguments *a, int variant)
{
    HeadNorm h = head_norm_of(variant);
    a->head_norm_sums = (HeadNormSums){ h.sum, h.x };
    return variant < 32;
}

static bool make_head_norm_forward(Arguments *a, int variant)
{
    HeadNorm h = head_norm_of(variant);
    a->head_norm_forward = (HeadNormForward){ variant & 4 ? h.x : h.y, h.rstd, h.x, h.gain, h.sum, h.channels, 1e-5, variant & 1 };
    return variant < 32;
}

static bool make_head_norm_backward_sums(Arguments *a, int variant)
{
    HeadNorm h = head_norm_of(variant);
    a->head_norm_backward_sums = (HeadNormBackwardSums){ h.sum, h.y, h.x, h.rstd, h.gain, variant & 1 };
    return variant < 32;
}

static bool make_head_norm_backward_input(Arguments *a, int variant)
{
    HeadNorm h = head_norm_of(variant);
    Tensor apart = real(h.x.dim[0], h.x.dim[1], h.x.dim[2]);
    a->head_norm_backward_input = (HeadNormBackwardInput){ variant & 4 ? h.y : apart, h.y, h.x, h.rstd, h.gain, h.sum,
                                                           h.channels, variant & 1 };
    return variant < 32;
}

static bool make_head_norm_backward_weight(Arguments *a, int variant)
{
    HeadNorm h = head_norm_of(variant);
    a->head_norm_backward_weight = (HeadNormBackwardWeight){ h.gain, h.y, h.x, h.rstd };
    rounded_before = one_off;                              /* with one token and one channel the sum may be near 0 */
    return variant < 32;
}

/* ---- positions ---- */
static bool make_sinusoid_forward(Arguments *a, int variant)
{
    int64_t C = variant & 1 ? 4 : 1102;
    a->sinusoid_forward = (SinusoidForward){ .y_TC = matrix(19, C, !(variant & 2)), .position_i = ints(19, 0, 2000), .first = 2 };
    return variant < 4;
}
#endif
