#include <math.h>
#include "model/model_internal.h"
/*  Attention of this rank's queries over the keys of all context-parallel ranks (ring attention, arXiv 2310.01889): keys and values
 *  go round while each rank computes on those at hand. A rank holds two parts of each sequence, one early and one late, so all ranks
 *  have equal causal work.
 *
 *  b sequences   s positions of a sequence held here   H query, G key-value heads held here   D channels of a head
 *  c = cp size; at turn i a rank has the keys of rank (r - i) mod c.  Sent: forward c - 1 times (k, v), backward twice that.      */

typedef struct { int64_t b, s, H, G, D; int c, r, parts; } RingState;

static RingState held_of(const ExecContext *ctx)
{
    int tp = comm_size(ctx->tp.comm), c = comm_size(ctx->cp);
    int64_t b = ctx->batch->sample_i.dim[0];
    return (RingState){ .b = b, .s = ctx->batch->token_i.dim[0] / b, .H = ctx->config->heads / tp, .G = ctx->config->groups / tp,
                  .D = ctx->config->head_dim, .c = c, .r = comm_rank(ctx->cp), .parts = c > 1 ? 2 : 1 };
}

static Tensor heads(Tensor x_Tn, RingState held, int64_t first, int64_t count)        /* [b, s, count, D] of rows [T, n D] */
{
    Tensor x_bsnD = tensor_view(x_Tn, held.b, held.s, x_Tn.dim[1] / held.D, held.D);
    return tensor_slice(x_bsnD, 2, first, count);
}
static Tensor queries(Tensor qkv, RingState held) { return heads(qkv, held, 0, held.H); }
static Tensor keys_values  (Tensor qkv, RingState held) { return heads(qkv, held, held.H, 2 * held.G); }           /* keys, then values */

static Tensor part(Tensor x, RingState held, int which)
{
    return tensor_present(x) ? tensor_slice(x, 1, which * (held.s / held.parts), held.s / held.parts) : x;
}

/* where part `which` of rank `rank` begins in its sequence: parts r and 2 c - 1 - r of 2 c */
static int64_t part_start(RingState held, int rank, int which)
{
    return held.parts == 1 ? 0 : (which == 0 ? rank : 2 * held.c - 1 - rank) * (held.s / 2);
}

static int around(RingState held, int by) { return (held.r + by + held.c) % held.c; }

static void send_round(const ExecContext *ctx, RingState held, Tensor to_next, Tensor from_previous, Pending pending[2])
{
    pending[0] = comm_send_begin(ctx->cp, ctx->queue, to_next, around(held, 1));                   /* <-> cp: send */
    pending[1] = comm_recv_begin(ctx->cp, ctx->queue, from_previous, around(held, -1));            /* <-> cp: receive */
}
static void arrive(const ExecContext *ctx, Pending pending[2])
{
    comm_wait(ctx->cp, pending[0]);
    comm_wait(ctx->cp, pending[1]);
}

static AttentionForward forward_arguments(const ExecContext *ctx, int64_t layer, RingState held, int which)
{
    int tp_rank = comm_rank(ctx->tp.comm);
    return (AttentionForward){ .key_range_i = part(ctx->batch->key_range_i, held, which), .sample_i = ctx->batch->sample_i,
        .q0 = ctx->cache ? ctx->cache[layer].used : part_start(held, held.r, which), .head0 = tp_rank * held.H, .heads = ctx->config->heads,
        .span = ctx->config->sequence, .scale = 1 / sqrt((double)held.D), .p = exec_dropout(ctx, ctx->config->attention_dropout),
        .site = (uint64_t)(SITES * layer) + SITE_SCORES };
}

typedef struct { int64_t first, end; } KeyRange;

/* The keys that any query of this part sees: up to its last query or, where the batch has key ranges, from the least first to the
 * largest end of them. Batches are host memory. A dry run has no ranges to read and counts all keys.                            */
static KeyRange keys_of_part(RingState held, const AttentionForward *a)
{
    Tensor visible_bs2 = a->key_range_i;
    if (!tensor_present(visible_bs2)) return (KeyRange){ 0, a->q0 + held.s / held.parts };
    if (!visible_bs2.data) return (KeyRange){ 0, a->span };
    KeyRange range = { a->span, 0 };
    for (int64_t b = 0; b < visible_bs2.dim[0]; b++)
        for (int64_t s = 0; s < visible_bs2.dim[1]; s++) {
            const int32_t *keys = (const int32_t *)visible_bs2.data + b * visible_bs2.stride[0] + s * visible_bs2.stride[1];
            if (keys[0] >= keys[1]) continue;                        /* this query sees none */
            if (keys[0] < range.first) range.first = keys[0];
            if (keys[1] > range.end)   range.end   = keys[1];
        }
    return range;
}

/* Does any query of the part see any of the keys from a->k0 on? */
static bool meets(RingState held, const AttentionForward *a)
{
    KeyRange seen = keys_of_part(held, a);
    return a->k0 < seen.end && a->k0 + held.s / held.parts > seen.first;
}

/* One part of the queries with one part of the keys. `own`: their own keys, which come first and are written; others go to the
 * part's shared buffers o2, lse2 and are merged. Own keys are never left out, since they begin what is merged into.             */
static void ring_step_forward(const ExecContext *ctx, int64_t layer, RingState held, AttentionSave *save, Tensor qkv, Tensor kv, int from, Tensor o2, Tensor lse2)
{
    for (int qh = 0; qh < held.parts; qh++)
        for (int i = 0; i < held.parts; i++) {
            int kh = (qh + i) % held.parts;
            bool own = from == held.r && qh == kh;
            AttentionForward a = forward_arguments(ctx, layer, held, qh);
            a.k0 = part_start(held, from, kh);
            if (!own && !meets(held, &a)) continue;
            Tensor o = part(queries(save->out_TO, held), held, qh), lse = part(save->lse_bsH, held, qh);
            a.o   = own ? o : o2;
            a.lse = own ? lse : lse2;
            a.q = part(queries(qkv, held), held, qh);
            a.k = part(tensor_slice(kv, 2, 0, held.G), held, kh);
            a.v = part(tensor_slice(kv, 2, held.G, held.G), held, kh);
            attention_forward(ctx->queue, a);
            if (!own) attention_merge(ctx->queue, (AttentionMerge){ .o = o, .lse = lse, .o2 = o2, .lse2 = lse2 });
        }
}

/* new keys and values join those of earlier positions; queries see all of them */
static void forward_cached(const ExecContext *ctx, int64_t layer, RingState held, AttentionSave *save, Tensor qkv)
{
    Cache *cache = &ctx->cache[layer];
    Tensor kv = keys_values(qkv, held);
    copy_strided(ctx->queue, (CopyStrided){ .y = tensor_slice(cache->k, 1, cache->used, held.s), .x = tensor_slice(kv, 2, 0, held.G) });
    copy_strided(ctx->queue, (CopyStrided){ .y = tensor_slice(cache->v, 1, cache->used, held.s), .x = tensor_slice(kv, 2, held.G, held.G) });
    AttentionForward a = forward_arguments(ctx, layer, held, 0);
    a.o = queries(save->out_TO, held);
    a.lse = save->lse_bsH;
    a.q = queries(qkv, held);
    a.k = tensor_slice(cache->k, 1, 0, cache->used + held.s);
    a.v = tensor_slice(cache->v, 1, 0, cache->used + held.s);
    attention_forward(ctx->queue, a);
}

/* two buffers that swap roles each turn: one at hand, one arriving */
typedef struct { Tensor at[2]; } Ring;

static Ring ring_new(const ExecContext *ctx, RingState held, const char *what)
{
    Ring ring;
    for (int i = 0; i < 2; i++) ring.at[i] = tensor_new(ctx->scratch, what, ctx->queue->real, held.b, held.s, 2 * held.G, held.D);
    return ring;
}

static Ring keys_ring(const ExecContext *ctx, RingState held, Tensor qkv)
{
    if (held.c == 1) return (Ring){ { keys_values(qkv, held) } };
    Ring ring = ring_new(ctx, held, "travelling keys");
    copy_strided(ctx->queue, (CopyStrided){ .y = ring.at[0], .x = keys_values(qkv, held) });         /* what travels is contiguous */
    return ring;
}

void ring_forward(const ExecContext *ctx, int64_t layer, AttentionSave *save, Tensor qkv)
{
    RingState held = held_of(ctx);
    save->out_TO = activation_new(ctx, "attention core", qkv.dim[0], held.H * held.D);
    save->lse_bsH = tensor_new(ctx->activations, "attention lse", ctx->queue->real, held.b, held.s, held.H);
    if (ctx->cache) { forward_cached(ctx, layer, held, save, qkv); return; }
    Ring keys = keys_ring(ctx, held, qkv);
    Tensor o2 = tensor_none(), lse2 = tensor_none();                 /* taken also where no keys are merged: bytes follow from the layout alone */
    if (held.c > 1) {
        o2   = tensor_new(ctx->scratch, "attention part", ctx->queue->real, held.b, held.s / held.parts, held.H, held.D);
        lse2 = tensor_new(ctx->scratch, "attention part", ctx->queue->real, held.b, held.s / held.parts, held.H);
    }
    for (int i = 0; i < held.c; i++) {
        Pending pending[2];
        Tensor here = keys.at[i % 2];
        bool more = i + 1 < held.c;
        if (more) send_round(ctx, held, here, keys.at[(i + 1) % 2], pending);    /* <-> cp: send */
        ring_step_forward(ctx, layer, held, save, qkv, here, around(held, -i), o2, lse2);
        if (more) arrive(ctx, pending);
    }
}

typedef struct { Tensor d_out, lse, delta, q, dq; } Back;          /* of this rank's queries, whole rows */

/* this rank's queries with the keys of rank `from`: their gradients add up in dkv */
static void ring_step_backward(const ExecContext *ctx, int64_t layer, RingState held, const Back *back, Tensor dkv, Tensor kv, int from)
{
    for (int qh = 0; qh < held.parts; qh++)
        for (int kh = 0; kh < held.parts; kh++) {
            AttentionForward f = forward_arguments(ctx, layer, held, qh);
            f.k0 = part_start(held, from, kh);
            if (!meets(held, &f)) continue;
            attention_backward(ctx->queue, (AttentionBackward){
                .dq = part(back->dq, held, qh), .d_o = part(back->d_out, held, qh), .q = part(back->q, held, qh),
                .lse = part(back->lse, held, qh), .delta = part(back->delta, held, qh),
                .dk = part(tensor_slice(dkv, 2, 0, held.G), held, kh), .dv = part(tensor_slice(dkv, 2, held.G, held.G), held, kh),
                .k  = part(tensor_slice(kv,  2, 0, held.G), held, kh), .v  = part(tensor_slice(kv,  2, held.G, held.G), held, kh),
                .key_range_i = f.key_range_i, .sample_i = f.sample_i, .q0 = f.q0, .k0 = f.k0, .head0 = f.head0, .heads = f.heads,
                .span = f.span, .scale = f.scale, .p = f.p, .site = f.site });
        }
}

/* A key's gradient is begun by the rank after its own, travels on with the keys and comes home last, where the own part waits. */
void ring_backward(const ExecContext *ctx, int64_t layer, Tensor dqkv, const AttentionSave *save, Tensor qkv, Tensor d_out)
{
    RingState held = held_of(ctx);
    Queue *q = ctx->queue;
    Back back = { .d_out = heads(d_out, held, 0, held.H), .lse = save->lse_bsH, .q = queries(qkv, held), .dq = queries(dqkv, held),
                  .delta = tensor_new(ctx->scratch, "attention delta", q->real, held.b, held.s, held.H) };
    attention_delta(q, (AttentionDelta){ .delta = back.delta, .o = heads(save->out_TO, held, 0, held.H), .d_o = back.d_out });
    fill_zero(q, (FillZero){ .y = dqkv });
    Ring keys = keys_ring(ctx, held, qkv), grads = { { tensor_none() } };
    if (held.c > 1) grads = ring_new(ctx, held, "travelling key gradients");
    for (int i = 0; i < held.c; i++) {
        Pending key[2], grad[2];
        Tensor here = keys.at[i % 2], dhere = i == 0 ? keys_values(dqkv, held) : grads.at[i % 2];
        bool more = i + 1 < held.c;
        if (more) send_round(ctx, held, here, keys.at[(i + 1) % 2], key);        /* <-> cp: send */
        if (i == 1) fill_zero(q, (FillZero){ .y = dhere });
        ring_step_backward(ctx, layer, held, &back, dhere, here, around(held, -i));
        if (i > 0) { send_round(ctx, held, dhere, grads.at[(i + 1) % 2], grad); arrive(ctx, grad); }   /* <-> cp: send */
        if (more) arrive(ctx, key);
    }
    if (held.c > 1) accumulate(q, (Accumulate){ .y = keys_values(dqkv, held), .x = grads.at[held.c % 2] });
}
