/* Ring attention (arXiv 2310.01889): attention of this rank's queries over the keys of all context-parallel
 * ranks. In step i of cp steps a rank computes with the keys and values of rank (r - i) mod cp, while it
 * sends them to rank r + 1 and receives the next ones from rank r - 1. Partial results are merged by their
 * log-sum-exp.
 *
 * The causal mask would give late positions more work than early ones. As in Megatron-LM, each sequence is
 * therefore cut into 2 cp parts, of which rank r holds part r and part 2 cp - 1 - r (zigzag), so that all
 * ranks have the same causal work. data/loader.c makes this split: batches have these parts only.
 *
 *  b sequences   s positions of a sequence held here   T = b s
 *  H query, G key-value heads held here   D channels of a head
 *  Messages of keys and values: forward cp - 1; backward cp - 1, and cp - 1 of their gradients */
#include <math.h>
#include "model/model_internal.h"

/* parts: of each sequence held here, 2, or 1 where the context is not distributed */
typedef struct { int64_t b, s, H, G, D; int c, r, parts; } RingLayout;

static RingLayout ring_layout(const ExecContext *ctx)
{
    int tp = comm_size(ctx->tp.comm), c = comm_size(ctx->cp);
    int64_t b = ctx->batch->sample_i.dim[0];
    return (RingLayout){ .b = b, .s = ctx->batch->token_i.dim[0] / b, .H = ctx->config->heads / tp,
        .G = ctx->config->groups / tp, .D = ctx->config->head_dim, .c = c, .r = comm_rank(ctx->cp),
        .parts = c > 1 ? 2 : 1 };
}

/* Views of the rows [T, n D] of heads: [b, s, count, D] of `count` heads, of the query heads, and of keys
 * followed by values. */
static Tensor heads(Tensor x_Tn, RingLayout ring, int64_t first, int64_t count)
{
    Tensor x_bsnD = tensor_view(x_Tn, ring.b, ring.s, x_Tn.dim[1] / ring.D, ring.D);
    return tensor_slice(x_bsnD, 2, first, count);
}
static Tensor queries    (Tensor qkv, RingLayout ring) { return heads(qkv, ring, 0, ring.H); }
static Tensor keys_values(Tensor qkv, RingLayout ring) { return heads(qkv, ring, ring.H, 2 * ring.G); }

/* Part `which` of the sequences, a view of axis 1; an absent tensor remains absent. */
static Tensor part(Tensor x, RingLayout ring, int which)
{
    return tensor_present(x) ? tensor_slice(x, 1, which * (ring.s / ring.parts), ring.s / ring.parts) : x;
}

/* Position in its sequence of the first token of part `which` held by `rank`: parts rank and
 * 2 cp - 1 - rank of 2 cp. */
static int64_t part_start(RingLayout ring, int rank, int which)
{
    return ring.parts == 1 ? 0 : (which == 0 ? rank : 2 * ring.c - 1 - rank) * (ring.s / 2);
}

static int ring_rank(RingLayout ring, int by) { return (ring.r + by + ring.c) % ring.c; }

/* Starts sending to the next rank and receiving from the previous one. Both buffers belong to comm until
 * rotate_end. */
static void rotate_begin(const ExecContext *ctx, RingLayout ring, Tensor to_next, Tensor from_previous,
                         Pending pending[2])
{
    pending[0] = comm_send_begin(ctx->cp, ctx->queue, to_next, ring_rank(ring, 1));         /* <-> cp: send */
    pending[1] = comm_recv_begin(ctx->cp, ctx->queue, from_previous, ring_rank(ring, -1));  /* <-> cp: recv */
}

static void rotate_end(const ExecContext *ctx, Pending pending[2])
{
    comm_wait(ctx->cp, pending[0]);
    comm_wait(ctx->cp, pending[1]);
}

/* Everything but the tensors and the first key. Heads and positions are global numbers, so that the dropout
 * of an attention probability does not depend on the layout. During generation the queries follow the cached
 * positions. */
static AttentionForward forward_arguments(const ExecContext *ctx, int64_t layer, RingLayout ring, int which)
{
    int tp_rank = comm_rank(ctx->tp.comm);
    return (AttentionForward){ .key_range_i = part(ctx->batch->key_range_i, ring, which),
        .sample_i = ctx->batch->sample_i,
        .q0 = ctx->cache ? ctx->cache[layer].used : part_start(ring, ring.r, which),
        .head0 = tp_rank * ring.H, .heads = ctx->config->heads, .span = ctx->config->sequence,
        .scale = 1 / sqrt((double)ring.D),
        .p = exec_dropout(ctx, ctx->config->attention_dropout),
        .site = (uint64_t)(SITES * layer) + SITE_SCORES };
}

typedef struct { int64_t first, end; } KeyRange;

/* The keys that at least one query of the part sees: under the causal mask all up to its last query; with the
 * batch's key ranges (attention reset at document ends) from the least `first` to the largest `end`. The
 * ranges are read on the host, where batches are. A dry run has no data to read and assumes all keys, which
 * is an upper bound of memory and work. */
static KeyRange keys_of_part(RingLayout ring, const AttentionForward *a)
{
    Tensor range_bs2 = a->key_range_i;
    if (!tensor_present(range_bs2)) return (KeyRange){ 0, a->q0 + ring.s / ring.parts };
    if (!range_bs2.data) return (KeyRange){ 0, a->span };
    KeyRange range = { a->span, 0 };
    for (int64_t b = 0; b < range_bs2.dim[0]; b++)
        for (int64_t s = 0; s < range_bs2.dim[1]; s++) {
            const int32_t *keys = (const int32_t *)range_bs2.data + b * range_bs2.stride[0]
                    + s * range_bs2.stride[1];
            if (keys[0] >= keys[1]) continue;                        /* this query sees no keys */
            if (keys[0] < range.first) range.first = keys[0];
            if (keys[1] > range.end)   range.end   = keys[1];
        }
    return range;
}

/* Whether any query of the part sees any key of the part that begins at a->k0; pairs of parts without any are
 * skipped. */
static bool any_key_visible(RingLayout ring, const AttentionForward *a)
{
    KeyRange seen = keys_of_part(ring, a);
    return a->k0 < seen.end && a->k0 + ring.s / ring.parts > seen.first;
}

/* The output of all this rank's queries, o [b, s, H, D] and lse [b, s, H], and of one part of them with the
 * keys of another part. o and o2 have the type of statistics where there is anything to merge. */
typedef struct { Tensor o, lse, o2, lse2; } RingForward;

/* One ring step: both parts of the queries with both parts of the keys of rank `from`. A part of the queries
 * with its own keys is computed first, directly into the output; all other pairs are computed into the
 * buffers o2, lse2 and merged with it. Own keys are therefore never skipped, even where a key range hides all
 * of them. */
static void ring_step_forward(const ExecContext *ctx, int64_t layer, RingLayout ring, const RingForward *out,
                              Tensor qkv, Tensor kv, int from)
{
    for (int qh = 0; qh < ring.parts; qh++)
        for (int i = 0; i < ring.parts; i++) {
            int kh = (qh + i) % ring.parts;
            bool own = from == ring.r && qh == kh;
            AttentionForward a = forward_arguments(ctx, layer, ring, qh);
            a.k0 = part_start(ring, from, kh);
            if (!own && !any_key_visible(ring, &a)) continue;
            Tensor o = part(out->o, ring, qh), lse = part(out->lse, ring, qh);
            a.o   = own ? o : out->o2;
            a.lse = own ? lse : out->lse2;
            a.q = part(queries(qkv, ring), ring, qh);
            a.k = part(tensor_slice(kv, 2, 0, ring.G), ring, kh);
            a.v = part(tensor_slice(kv, 2, ring.G, ring.G), ring, kh);
            attention_forward(ctx->queue, a);
            if (!own)
                attention_merge(ctx->queue, (AttentionMerge){ .o = o, .lse = lse, .o2 = out->o2,
                                                              .lse2 = out->lse2 });
        }
}

/* Generation: appends the new keys and values to the layer's cache; the new queries see all keys of the
 * cache. */
static void forward_cached(const ExecContext *ctx, int64_t layer, RingLayout ring, AttentionSave *save,
                           Tensor qkv)
{
    KvCache *cache = &ctx->cache[layer];
    Tensor kv = keys_values(qkv, ring);
    copy_strided(ctx->queue, (CopyStrided){ .y = tensor_slice(cache->k, 1, cache->used, ring.s),
        .x = tensor_slice(kv, 2, 0, ring.G) });
    copy_strided(ctx->queue, (CopyStrided){ .y = tensor_slice(cache->v, 1, cache->used, ring.s),
        .x = tensor_slice(kv, 2, ring.G, ring.G) });
    AttentionForward a = forward_arguments(ctx, layer, ring, 0);
    a.o = queries(save->out_TO, ring);
    a.lse = save->lse_bsH;
    a.q = queries(qkv, ring);
    a.k = tensor_slice(cache->k, 1, 0, cache->used + ring.s);
    a.v = tensor_slice(cache->v, 1, 0, cache->used + ring.s);
    attention_forward(ctx->queue, a);
}

/* Two buffers that swap roles after each ring step: one is computed with and sent, the other one received. */
typedef struct { Tensor at[2]; } RingBuffers;

static RingBuffers ring_buffers_new(const ExecContext *ctx, RingLayout ring, const char *what)
{
    RingBuffers buffers;
    for (int i = 0; i < 2; i++)
        buffers.at[i] = tensor_new(ctx->scratch, what, ctx->precision.activation, ring.b, ring.s,
            2 * ring.G, ring.D);
    return buffers;
}

/* The keys and values of this rank, ready for step 0: a contiguous copy where they are sent, since messages
 * are contiguous; a view of qkv where there is one rank only. */
static RingBuffers keys_ring(const ExecContext *ctx, RingLayout ring, Tensor qkv)
{
    if (ring.c == 1) return (RingBuffers){ { keys_values(qkv, ring) } };
    RingBuffers buffers = ring_buffers_new(ctx, ring, "ring keys and values");
    copy_strided(ctx->queue, (CopyStrided){ .y = buffers.at[0], .x = keys_values(qkv, ring) });
    return buffers;
}

/* A sum over ring steps of the shape of x [b, s, H, D]: x itself, or a tensor in the type of statistics where
 * x is narrower, so that it is rounded once and not in every step. */
static Tensor ring_sum_new(const ExecContext *ctx, RingLayout ring, Tensor x, const char *what)
{
    if (x.dtype == ctx->precision.statistic) return x;
    return tensor_new(ctx->scratch, what, ctx->precision.statistic, ring.b, ring.s, ring.H, ring.D);
}

static Tensor flat_view(Tensor x) { return tensor_view(x, tensor_count(x)); }

void ring_forward(const ExecContext *ctx, int64_t layer, AttentionSave *save, Tensor qkv)
{
    RingLayout ring = ring_layout(ctx);
    save->out_TO = tensor_new(save_arena(ctx, RECOMPUTE_CORE_ATTN, ctx->activations_wgrad), "attention core",
        ctx->precision.activation, qkv.dim[0], ring.H * ring.D);
    save->lse_bsH = tensor_new(save_arena(ctx, RECOMPUTE_CORE_ATTN, ctx->activations), "attention lse",
        ctx->precision.statistic, ring.b, ring.s, ring.H);
    if (ctx->cache) { forward_cached(ctx, layer, ring, save, qkv); return; }
    RingBuffers keys = keys_ring(ctx, ring, qkv);

    /* Allocated also where no keys are merged: memory must follow from the layout alone, never from the
     * data. */
    Dtype exact = ctx->precision.statistic;
    RingForward out = { .o = queries(save->out_TO, ring), .lse = save->lse_bsH };
    if (ring.c > 1) {
        out.o    = ring_sum_new(ctx, ring, out.o, "attention sum");
        int64_t b = ring.b, s = ring.s / ring.parts;
        out.o2   = tensor_new(ctx->scratch, "attention part", exact, b, s, ring.H, ring.D);
        out.lse2 = tensor_new(ctx->scratch, "attention part", exact, b, s, ring.H);
    }
    for (int i = 0; i < ring.c; i++) {
        Pending pending[2];
        Tensor kv = keys.at[i % 2];
        bool more = i + 1 < ring.c;
        if (more) rotate_begin(ctx, ring, kv, keys.at[(i + 1) % 2], pending);    /* <-> cp: send */
        ring_step_forward(ctx, layer, ring, &out, qkv, kv, ring_rank(ring, -i));
        if (more) rotate_end(ctx, pending);
    }
    if (out.o.dtype != save->out_TO.dtype)
        convert(ctx->queue, (Convert){ .y_N = flat_view(save->out_TO), .x_N = flat_view(out.o) });
}

/* What the steps of backward share, of all this rank's queries: d_out, q, dq [b, s, H, D]; lse and delta
 * [b, s, H] */
typedef struct { Tensor d_out, lse, delta, q, dq; } RingBackward;

/* This rank's queries with the keys and values of rank `from`, whose gradients are added to dkv. lse and
 * delta are those of the whole rows, so the gradients of the parts add up without a correction
 * (FlashAttention-2, arXiv 2307.08691). */
static void ring_step_backward(const ExecContext *ctx, int64_t layer, RingLayout ring,
                               const RingBackward *back, Tensor dkv, Tensor kv, int from)
{
    for (int qh = 0; qh < ring.parts; qh++)
        for (int kh = 0; kh < ring.parts; kh++) {
            AttentionForward f = forward_arguments(ctx, layer, ring, qh);
            f.k0 = part_start(ring, from, kh);
            if (!any_key_visible(ring, &f)) continue;
            attention_backward(ctx->queue, (AttentionBackward){
                .dq  = part(back->dq, ring, qh),  .d_o   = part(back->d_out, ring, qh),
                .q   = part(back->q, ring, qh),
                .lse = part(back->lse, ring, qh), .delta = part(back->delta, ring, qh),
                .dk = part(tensor_slice(dkv, 2, 0, ring.G), ring, kh),
                .dv = part(tensor_slice(dkv, 2, ring.G, ring.G), ring, kh),
                .k  = part(tensor_slice(kv,  2, 0, ring.G), ring, kh),
                .v  = part(tensor_slice(kv,  2, ring.G, ring.G), ring, kh),
                .key_range_i = f.key_range_i, .sample_i = f.sample_i, .q0 = f.q0, .k0 = f.k0,
                .head0 = f.head0, .heads = f.heads,
                .span = f.span, .scale = f.scale, .p = f.p, .site = f.site });
        }
}

/* Keys and values rotate as in forward; their gradients rotate one step later. Step 0 adds this rank's part
 * directly to dqkv. In step 1 the rank after the owner starts a gradient buffer at zero; each rank adds its
 * part and sends it on with the keys, and after step cp - 1 it returns to the owner, who adds it to dqkv. A
 * gradient can be sent only after this rank has added to it, so unlike the keys it does not overlap with
 * computation. */
void ring_backward(const ExecContext *ctx, int64_t layer, Tensor dqkv, const AttentionSave *save, Tensor qkv,
                   Tensor d_out)
{
    RingLayout ring = ring_layout(ctx);
    Queue *q = ctx->queue;
    RingBackward back = { .d_out = heads(d_out, ring, 0, ring.H), .lse = save->lse_bsH,
        .q = queries(qkv, ring), .dq = queries(dqkv, ring),
        .delta = tensor_new(ctx->scratch, "attention delta", ctx->precision.statistic, ring.b, ring.s,
                            ring.H) };
    attention_delta(q, (AttentionDelta){ .delta = back.delta, .o = heads(save->out_TO, ring, 0, ring.H),
        .d_o = back.d_out });
    fill_zero(q, (FillZero){ .y = dqkv });
    if (ring.c > 1) back.dq = ring_sum_new(ctx, ring, back.dq, "ring query gradients");
    if (back.dq.dtype != dqkv.dtype) fill_zero(q, (FillZero){ .y = back.dq });
    RingBuffers keys = keys_ring(ctx, ring, qkv), grads = { { tensor_none() } };
    if (ring.c > 1) grads = ring_buffers_new(ctx, ring, "ring key and value gradients");
    for (int i = 0; i < ring.c; i++) {
        Pending key[2], grad[2];
        Tensor kv = keys.at[i % 2], dkv = i == 0 ? keys_values(dqkv, ring) : grads.at[i % 2];
        bool more = i + 1 < ring.c;
        if (more) rotate_begin(ctx, ring, kv, keys.at[(i + 1) % 2], key);                   /* <-> cp: send */
        if (i == 1) fill_zero(q, (FillZero){ .y = dkv });
        ring_step_backward(ctx, layer, ring, &back, dkv, kv, ring_rank(ring, -i));
        if (i > 0) {
            rotate_begin(ctx, ring, dkv, grads.at[(i + 1) % 2], grad);                      /* <-> cp: send */
            rotate_end(ctx, grad);
        }
        if (more) rotate_end(ctx, key);
    }
    if (ring.c > 1) accumulate(q, (Accumulate){ .y = keys_values(dqkv, ring), .x = grads.at[ring.c % 2] });
    if (back.dq.dtype != dqkv.dtype) accumulate(q, (Accumulate){ .y = queries(dqkv, ring), .x = back.dq });
}
