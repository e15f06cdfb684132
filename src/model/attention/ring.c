/* Ring attention (arXiv 2310.01889): attention of this rank's queries over the keys of all ranks of the ring.
 * In step i of c steps a rank computes with the keys and values of rank (r - i) mod c, while it sends them to
 * rank r + 1 and receives the next ones from rank r - 1. Partial results are merged by their log-sum-exp.
 * Pairs of parts in which no query sees a key are not computed; the keys are sent on all the same, since
 * another rank may need them. The letters are those of core_attention.h.
 *
 *  Messages of keys and values: forward c - 1; backward c - 1, and c - 1 of their gradients, which are sums
 *  and have the type of statistics */
#include "model/attention/core_attention.h"

static int ring_rank(CoreLayout at, int by) { return (at.r + by + at.c) % at.c; }

/* Starts sending to the next rank and receiving from the previous one. Both buffers belong to comm until
 * rotate_end. */
static Pending rotate_begin(const ExecContext *ctx, CoreLayout at, Tensor to_next, Tensor from_previous)
{
    return comm_exchange_begin(ctx->cp.ring, ctx->queue, from_previous, ring_rank(at, -1), to_next,
        ring_rank(at, 1));                                                                  /* <-> cp: send */
}

static void rotate_end(const ExecContext *ctx, Pending pending) { comm_wait(ctx->cp.ring, pending); }

static void rotate(const ExecContext *ctx, CoreLayout at, Tensor to_next, Tensor from_previous)
{
    rotate_end(ctx, rotate_begin(ctx, at, to_next, from_previous));                         /* <-> cp: send */
}

/* Two buffers that swap roles after each ring step: one is computed with and sent, the other one received. */
typedef struct { Tensor at[2]; } RingBuffers;

static RingBuffers ring_buffers_new(const ExecContext *ctx, Tensor like, Dtype type, const char *what)
{
    RingBuffers buffers;
    for (int i = 0; i < 2; i++) buffers.at[i] = tensor_push(ctx->scratch, what, type, like.dim, 4);
    return buffers;
}

/* The keys and values of this rank, ready for step 0: a copy, since messages are contiguous. */
static RingBuffers keys_ring(const ExecContext *ctx, Tensor kv)
{
    RingBuffers buffers = ring_buffers_new(ctx, kv, kv.dtype, "ring keys and values");
    copy_strided(ctx->queue, (CopyStrided){ .y = buffers.at[0], .x = kv });
    return buffers;
}

/* One ring step: both parts of the queries with both parts of the keys of rank `from`. A part of the queries
 * with its own keys is computed first, directly into the output; all other pairs are computed into the
 * buffers of `other` and merged with it. Own keys are therefore never skipped, even where a key range hides
 * all of them. */
static void ring_step_forward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f,
                              CoreForward other, Tensor kv, int from)
{
    for (int qh = 0; qh < 2; qh++)
        for (int i = 0; i < 2; i++) {
            int kh = (qh + i) % 2;
            bool own = from == at.r && qh == kh;
            int64_t k0 = core_part_start(at, from, kh);
            if (!own && !core_any_visible(ctx, layer, at, qh, k0, at.s / 2)) continue;
            AttentionForward a = core_forward_call(ctx, layer, at, f, qh, core_part(kv, at, kh), k0);
            Tensor o = a.o, lse = a.lse;
            if (!own) a.o = other.o, a.lse = other.lse;
            attention_forward(ctx->queue, a);
            if (!own)
                attention_merge(ctx->queue, (AttentionMerge){ .o = o, .lse = lse, .o2 = a.o, .lse2 = a.lse });
        }
}

static Tensor flat_view(Tensor x) { return tensor_view(x, tensor_count(x)); }

/* The output and what is merged with it have the type of statistics, so that the output is rounded once.
 * Their memory is taken also where no keys are merged: it must follow from the layout alone, never from the
 * data. */
void ring_forward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    if (at.c == 1) {
        attention_forward(ctx->queue, core_forward_call(ctx, layer, at, f, 0, f.kv, 0));
        return;
    }
    size_t mark = arena_mark(ctx->scratch);
    Dtype exact = ctx->precision.statistic;
    RingBuffers keys = keys_ring(ctx, f.kv);
    CoreForward sum = f, other;
    if (f.o.dtype != exact) sum.o = tensor_push(ctx->scratch, "attention sum", exact, f.o.dim, 4);
    other.o   = tensor_new(ctx->scratch, "attention part", exact, at.b, at.s / 2, at.H, at.E);
    other.lse = tensor_new(ctx->scratch, "attention part", exact, at.b, at.s / 2, at.H);
    for (int i = 0; i < at.c; i++) {
        Pending pending = { -1 };
        Tensor kv = keys.at[i % 2], next = keys.at[(i + 1) % 2];
        bool more = i + 1 < at.c;
        if (more && ctx->cp.overlap) pending = rotate_begin(ctx, at, kv, next);             /* <-> cp: send */
        ring_step_forward(ctx, layer, at, sum, other, kv, ring_rank(at, -i));
        if (more && ctx->cp.overlap) rotate_end(ctx, pending);
        else if (more)               rotate(ctx, at, kv, next);                             /* <-> cp: send */
    }
    if (sum.o.dtype != f.o.dtype)
        convert(ctx->queue, (Convert){ .y_N = flat_view(f.o), .x_N = flat_view(sum.o) });
    arena_reset(ctx->scratch, mark);
}

/* This rank's queries with the keys and values of rank `from`, whose gradients are added to dkv. */
static void ring_step_backward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b,
                               Tensor dkv, Tensor kv, int from)
{
    for (int qh = 0; qh < 2; qh++)
        for (int kh = 0; kh < 2; kh++) {
            int64_t k0 = core_part_start(at, from, kh);
            if (!core_any_visible(ctx, layer, at, qh, k0, at.s / 2)) continue;
            attention_backward(ctx->queue, core_backward_call(ctx, layer, at, b, qh, core_part(dkv, at, kh),
                core_part(kv, at, kh), k0));
        }
}

/* Keys and values rotate as in forward; their gradients rotate one step later. Step 0 adds to this rank's own
 * sums. In step 1 the rank after the owner starts a gradient buffer at zero; each rank adds its part and
 * sends it on with the keys, and after step c - 1 it returns to the owner, who adds it to its own. A gradient
 * can be sent only after this rank has added to it, so it does not overlap with computation. */
void ring_backward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b)
{
    Queue *q = ctx->queue;
    if (at.c == 1) {
        attention_backward(q, core_backward_call(ctx, layer, at, b, 0, b.dkv, b.kv, 0));
        return;
    }
    size_t mark = arena_mark(ctx->scratch);
    CoreBackward sum = b;
    sum.dq  = core_sum_new(ctx, b.dq,  "ring query gradients");
    sum.dkv = core_sum_new(ctx, b.dkv, "ring own key value gradients");
    RingBuffers keys = keys_ring(ctx, b.kv);
    RingBuffers grads = ring_buffers_new(ctx, b.dkv, ctx->precision.statistic, "ring key value gradients");
    for (int i = 0; i < at.c; i++) {
        Pending key = { -1 };
        Tensor kv = keys.at[i % 2], next = keys.at[(i + 1) % 2], dkv = i == 0 ? sum.dkv : grads.at[i % 2];
        bool more = i + 1 < at.c;
        if (more && ctx->cp.overlap) key = rotate_begin(ctx, at, kv, next);                 /* <-> cp: send */
        if (i == 1) fill_zero(q, (FillZero){ .y = dkv });
        ring_step_backward(ctx, layer, at, sum, dkv, kv, ring_rank(at, -i));
        if (i > 0) rotate(ctx, at, dkv, grads.at[(i + 1) % 2]);                             /* <-> cp: send */
        if (more && ctx->cp.overlap) rotate_end(ctx, key);
        else if (more)               rotate(ctx, at, kv, next);                             /* <-> cp: send */
    }
    accumulate(q, (Accumulate){ .y = sum.dkv, .x = grads.at[at.c % 2] });
    core_sum_end(ctx, b.dkv, sum.dkv);
    core_sum_end(ctx, b.dq, sum.dq);
    arena_reset(ctx->scratch, mark);
}
