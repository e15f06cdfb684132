/* Core attention: softmax(scale q kT + mask) v, between the projection into heads and the output projection.
 * This file sets the scale, the mask and the global numbers of heads and positions, and
 * chooses how the keys of other context-parallel ranks are reached: ring.c, gather.c, and
 * around either of them ulysses.c. The letters are those of core_attention.h. */
#include "model/attention/core_attention.h"

static CoreLayout layout_of(const ExecContext *ctx, Tensor qkv)
{
    const Comm *ulysses = ctx->cp.ulysses, *others = ctx->cp.gather ? ctx->cp.gather : ctx->cp.ring;
    int u = context_size(ulysses), c = context_size(others);
    int64_t b = ctx->batch->sample_i.dim[0], D = ctx->config->head_dim, E = model_value_dim(ctx->config);
    int64_t H = ctx->config->heads / comm_size(ctx->tp.comm) / u;
    return (CoreLayout){ .b = b, .s = qkv.dim[0] / b, .H = H, 
        .G = (qkv.dim[1] - H * D) / (D + E), .D = D, .E = E,
        .head0 = (comm_rank(ctx->tp.comm) * u + context_rank(ulysses)) * H, .c = c,
        .r = context_rank(others), .parts = c > 1 ? 2 : 1 };
}

/* ---- parts of sequences ---- */

Tensor core_part(Tensor x, CoreLayout at, int which)
{
    int64_t s = at.s / at.parts;
    return tensor_present(x) ? tensor_slice(x, 1, which * s, s) : x;
}

Tensor core_joined_part(Tensor x, int n, int j, int which)
{
    int64_t s = x.dim[1] / (2 * n);
    return tensor_slice(x, 1, (which == 0 ? j : 2 * n - 1 - j) * s, s);
}

int64_t core_part_start(CoreLayout at, int r, int which)
{
    return at.parts == 1 ? 0 : (which == 0 ? r : 2 * at.c - 1 - r) * (at.s / 2);
}

/* ---- arguments of attention ---- */

/* Heads and positions are global numbers, so that the dropout of a probability does not depend on the
 * layout. */
static AttentionRule rule_of(const ExecContext *ctx, int64_t layer, CoreLayout at, int which, int64_t k0)
{
    return (AttentionRule){
        .q0 = core_part_start(at, at.r, which), .k0 = k0,
        .head0 = at.head0, .heads = ctx->config->heads, .span = ctx->config->sequence,
        .window = model_window(ctx->config, layer), .softcap = ctx->config->softcap,
        .alibi = ctx->config->position == POSITION_ALIBI,
        .scale = model_softmax_scale(ctx->config),
        .p = exec_dropout(ctx, ctx->config->attention_dropout),
        .site = (uint64_t)(SITES * layer) + SITE_SCORES };
}

/* n heads of `width` channels in rows [b, s, ..], from a column on */
static Tensor heads_at(Tensor x, int64_t column, int64_t n, int64_t width)
{
    Tensor heads = tensor_slice(x, 2, column, n * width);
    heads.dim[2] = n,     heads.stride[2] = width;
    heads.dim[3] = width, heads.stride[3] = 1;
    return heads;
}
static Tensor keys_of  (Tensor kv, CoreLayout at) { return heads_at(kv, 0, at.G, at.D); }
static Tensor values_of(Tensor kv, CoreLayout at) { return heads_at(kv, at.G * at.D, at.G, at.E); }

AttentionForward core_forward_call(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f,
                                   int which, Tensor kv, int64_t k0)
{
    return (AttentionForward){
        .o = core_part(f.o, at, which), .lse = core_part(f.lse, at, which), .q = core_part(f.q, at, which),
        .k = keys_of(kv, at), .v = values_of(kv, at),
        .key_range_i = core_part(ctx->batch->key_range_i, at, which),
        .sample_i = ctx->batch->sample_i, .rule = rule_of(ctx, layer, at, which, k0) };
}

AttentionBackward core_backward_call(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b,
                                     int which, Tensor dkv, Tensor kv, int64_t k0)
{
    AttentionForward f = core_forward_call(ctx, layer, at, (CoreForward){ .q = b.q, .lse = b.lse }, which,
        kv, k0);
    return (AttentionBackward){
        .dq = core_part(b.dq, at, which), .dk = keys_of(dkv, at), .dv = values_of(dkv, at),
        .d_o = core_part(b.d_o, at, which), .q = f.q, .k = f.k, .v = f.v, .lse = f.lse,
        .delta = core_part(b.delta, at, which), .key_range_i = f.key_range_i, .sample_i = f.sample_i,
        .rule = f.rule };
}

bool core_any_visible(const ExecContext *ctx, int64_t layer, CoreLayout at, int which, int64_t k0,
                      int64_t keys)
{
    KeyBounds seen = ctx->batch->seen[which];
    int64_t window = model_window(ctx->config, layer);
    int64_t back = core_part_start(at, at.r, which) + 1 - window;     /* the window of the first query */
    if (window > 0 && seen.first < back) seen.first = back;
    return k0 < seen.end && k0 + keys > seen.first;
}

/* ---- sums ---- */

Tensor core_sum_new(const ExecContext *ctx, Tensor x, const char *what)
{
    Dtype exact = ctx->precision.statistic;
    if (x.dtype == exact) return x;
    Tensor sum = tensor_push(ctx->scratch, what, exact, x.dim, 4);
    fill_zero(ctx->queue, (FillZero){ .y = sum });
    return sum;
}

void core_sum_end(const ExecContext *ctx, Tensor x, Tensor sum)
{
    if (sum.dtype != x.dtype) accumulate(ctx->queue, (Accumulate){ .y = x, .x = sum });
}

/* ---- forward ---- */

static Tensor of_sequences(Tensor x_TQ, CoreLayout at)                          /* [b, s, Q] */
{
    return tensor_view(x_TQ, at.b, x_TQ.dim[0] / at.b, x_TQ.dim[1]);
}
/* The rows [T, n D] as [b, s, n, D], and of them the heads first .. first + count - 1 */
static Tensor heads(Tensor x_Tn, CoreLayout at, int64_t first, int64_t count)
{
    return heads_at(of_sequences(x_Tn, at), first * at.D, count, at.D);
}
static Tensor queries(Tensor qkv, CoreLayout at)  { return heads(qkv, at, 0, at.H); }
static Tensor values (Tensor x_Tn, CoreLayout at)                               /* all heads of an output */
{
    return heads_at(of_sequences(x_Tn, at), 0, x_Tn.dim[1] / at.E, at.E);
}
static Tensor keys_values(Tensor qkv, CoreLayout at)
{
    return tensor_slice(of_sequences(qkv, at), 2, at.H * at.D, at.G * (at.D + at.E));
}

static bool exchanges(const ExecContext *ctx) { return context_size(ctx->cp.ulysses) > 1; }

Tensor core_qkv_new(const ExecContext *ctx, int64_t rows, int64_t cols)
{
    return exchanges(ctx) ? scratch_new(ctx, "query key value of own tokens", rows, cols)
                          : activation_new(ctx, "query key value", rows, cols);
}

Tensor core_attention_enter(const ExecContext *ctx, Tensor qkv_TQ)
{
    if (!exchanges(ctx)) return qkv_TQ;
    int64_t Q = qkv_TQ.dim[1];
    Ulysses at = ulysses_of(ctx, qkv_TQ.dim[0], Q);
    int64_t cols = at.Hu * at.D + at.Gu * (at.D + at.E);
    Tensor y = activation_new(ctx, "query key value", at.u * at.T, cols);
    ulysses_enter(ctx, at, ULYSSES_QKV, tensor_view(y, at.b, at.u * at.T / at.b, cols, 1),  /* <-> cp */
        tensor_view(qkv_TQ, at.b, at.T / at.b, Q, 1));
    return y;
}

void core_attention_forward(const ExecContext *ctx, int64_t layer, AttentionSave *save, Tensor qkv)
{
    CoreLayout at = layout_of(ctx, qkv);
    int u = context_size(ctx->cp.ulysses);
    save->out_TO = tensor_new(save_arena(ctx, RECOMPUTE_CORE_ATTN, ctx->activations_wgrad), "attention core",
        ctx->precision.activation, qkv.dim[0] / u, u * at.H * at.E);
    save->lse_bsH = tensor_new(save_arena(ctx, RECOMPUTE_CORE_ATTN, ctx->activations), "attention lse",
        ctx->precision.statistic, at.b, at.s, at.H);
    Tensor out = u == 1 ? save->out_TO : scratch_new(ctx, "attention core of some heads", qkv.dim[0],
        at.H * at.E);
    CoreForward f = { .o = values(out, at), .lse = save->lse_bsH, .q = queries(qkv, at),
                      .kv = keys_values(qkv, at) };
    if (ctx->caches)         kv_cache_attend(ctx, layer, at, f);                            /* <-> cp */
    else if (ctx->cp.gather) gather_forward(ctx, layer, at, f);                             /* <-> cp */
    else                     ring_forward(ctx, layer, at, f);                               /* <-> cp */
    if (u == 1) return;
    Ulysses all = ulysses_of(ctx, save->out_TO.dim[0], u * at.H * at.D);
    ulysses_leave(ctx, all, ULYSSES_QUERIES, values(save->out_TO, at), f.o);             /* <-> cp */
}

/* ---- backward ---- */

/* What Ulysses exchanges: in, the gradient of the output and delta, which is computed before from whole heads
 * of own tokens; out, dq and dkv. The gradients of keys and values have the type of statistics where heads
 * are copied, because the copies' gradients are summed. */
static void backward_exchanged(const ExecContext *ctx, int64_t layer, CoreLayout at, Tensor dqkv,
                               CoreBackward b)
{
    Dtype type = ctx->precision.activation;
    Ulysses all = ulysses_of(ctx, dqkv.dim[0], dqkv.dim[1]);
    int64_t W = at.G * (at.D + at.E);
    Dtype pairs = ulysses_copies(all) ? ctx->precision.statistic : type;
    Tensor d_o = tensor_new(ctx->scratch, "attention gradient of some heads", type, at.b, at.s, at.H, at.E);
    Tensor delta = tensor_new(ctx->scratch, "attention delta of some heads", b.delta.dtype, at.b, at.s, at.H);
    Tensor own_dq  = heads(dqkv, at, 0, all.H);
    Tensor own_dkv = heads_at(of_sequences(dqkv, at), all.H * at.D, all.G * (at.D + at.E), 1);
    ulysses_enter(ctx, all, ULYSSES_QUERIES, d_o, b.d_o);                                   /* <-> cp */
    ulysses_enter(ctx, all, ULYSSES_QUERIES, delta, b.delta);                               /* <-> cp */
    b.d_o = d_o, b.delta = delta;
    b.dq  = tensor_new(ctx->scratch, "query gradient of some heads", type, at.b, at.s, at.H, at.D);
    Tensor dkv = tensor_new(ctx->scratch, "key value gradient of some heads", pairs, at.b, at.s, W, 1);
    fill_zero(ctx->queue, (FillZero){ .y = b.dq });
    fill_zero(ctx->queue, (FillZero){ .y = dkv });
    b.dkv = tensor_view(dkv, at.b, at.s, W);
    if (ctx->cp.gather) gather_backward(ctx, layer, at, b);                                 /* <-> cp */
    else                ring_backward(ctx, layer, at, b);                                   /* <-> cp */
    Tensor sum = ulysses_copies(all) ? core_sum_new(ctx, own_dkv, "key value gradient of copies") : own_dkv;
    ulysses_leave(ctx, all, ULYSSES_QUERIES, own_dq, b.dq);                                 /* <-> cp */
    ulysses_leave(ctx, all, ULYSSES_PAIRS, sum, dkv);                                       /* <-> cp */
    core_sum_end(ctx, own_dkv, sum);
}

void core_attention_backward(const ExecContext *ctx, int64_t layer, Tensor dqkv, const AttentionSave *save,
                             Tensor qkv, Tensor d_out)
{
    CoreLayout at = layout_of(ctx, qkv);
    int64_t u = context_size(ctx->cp.ulysses);
    CoreBackward b = { .d_o = values(d_out, at), .lse = save->lse_bsH, .q = queries(qkv, at),
                       .kv = keys_values(qkv, at),
                       .delta = tensor_new(ctx->scratch, "attention delta", ctx->precision.statistic, at.b,
                                           at.s / u, u * at.H) };
    attention_delta(ctx->queue, (AttentionDelta){ .delta = b.delta, .o = values(save->out_TO, at),
        .d_o = b.d_o });
    fill_zero(ctx->queue, (FillZero){ .y = dqkv });
    if (exchanges(ctx)) { backward_exchanged(ctx, layer, at, dqkv, b); return; }            /* <-> cp */
    b.dq  = queries(dqkv, at);
    b.dkv = keys_values(dqkv, at);
    if (ctx->cp.gather) gather_backward(ctx, layer, at, b);                                 /* <-> cp */
    else                ring_backward(ctx, layer, at, b);                                   /* <-> cp */
}
