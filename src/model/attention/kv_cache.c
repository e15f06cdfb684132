/* Keys and values of earlier positions, for generation. The first forward of a sequence is that of training,
 * distributed over context-parallel ranks as there, and each rank caches the keys and values of its own
 * positions. Later forwards are of one position, the same on all cp ranks: each attends to the keys that it
 * has, and the results are gathered and merged in the order of ranks.
 *
 *  b sequences   s positions of a forward   H query and G key-value heads held here   D channels of a key,
 * E of a value
 *  R cp ranks */
#include "model/attention/core_attention.h"

/* The keys and values are the last columns of qkv. A dry run counts the last positions. */
void kv_cache_write(const ExecContext *ctx, int64_t layer, Tensor qkv_TQ)
{
    const KvCaches *caches = ctx->caches;
    Tensor to[2] = { caches->layer[layer].k, caches->layer[layer].v };
    int64_t b = to[0].dim[0], G = to[0].dim[2], s = qkv_TQ.dim[0] / b, Q = qkv_TQ.dim[1];
    int64_t width[2] = { to[0].dim[3], to[1].dim[3] }, first[2] = { Q - G * (width[0] + width[1]),
                                                                    Q - G * width[1] };
    Tensor qkv_bsQ = tensor_view(qkv_TQ, b, s, Q);
    for (int64_t i = 0; caches->write && i < b; i++) {
        int64_t used = qkv_TQ.data ? caches->used[i] : to[0].dim[1] - s;
        for (int kind = 0; kind < 2; kind++) {
            Tensor new = tensor_slice(qkv_bsQ, 2, first[kind], G * width[kind]);
            new.dim[2] = G,           new.stride[2] = width[kind];
            new.dim[3] = width[kind], new.stride[3] = 1;
            copy_strided(ctx->queue, (CopyStrided){ .x = tensor_slice(new, 0, i, 1),
                .y = tensor_slice(tensor_slice(to[kind], 0, i, 1), 1, used, s) });
        }
    }
}

/* The most keys of a sequence, the new ones included. */
static int64_t keys_most(const KvCaches *caches, Tensor k, int64_t s)
{
    int64_t most = s;
    if (!k.data) return k.dim[1];
    for (int64_t i = 0; i < k.dim[0]; i++)
        if (caches->used[i] + s > most) most = caches->used[i] + s;
    return most < k.dim[1] ? most : k.dim[1];
}

/* o and lse of the keys that this rank has. */
static void attend_own(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    const KvCaches *caches = ctx->caches;
    KvCache cache = caches->layer[layer];
    int64_t keys = keys_most(caches, cache.k, at.s);
    AttentionForward a = core_forward_call(ctx, layer, at, f, 0, f.kv, 0);
    a.k = tensor_slice(cache.k, 1, 0, keys);
    a.v = tensor_slice(cache.v, 1, 0, keys);
    a.key_range_i = caches->key_range_i[model_window(ctx->config, layer) > 0];
    if (a.rule.alibi) a.key_distance_i = tensor_slice(caches->key_distance_i, 1, 0, keys);
    a.rule.window = 0;                          /* it is in the key ranges */
    attention_forward(ctx->queue, a);
}

/* o and lse of rank r in what the ranks gather: of each first all of o, then all of lse */
static CoreForward rank_result(Tensor all_Rn, CoreLayout at, int64_t r)
{
    int64_t rows = at.b * at.s * at.H, n = rows * (at.E + 1);
    Tensor o = tensor_flat(all_Rn, r * n, rows * at.E), lse = tensor_flat(all_Rn, r * n + rows * at.E, rows);
    return (CoreForward){ .o = tensor_view(o, at.b, at.s, at.H, at.E),
                          .lse = tensor_view(lse, at.b, at.s, at.H) };
}

void kv_cache_attend(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    Comm *cp = ctx->caches->cp;
    int64_t R = comm_size(cp), n = at.b * at.s * at.H * (at.E + 1);
    if (R == 1) { attend_own(ctx, layer, at, f); return; }
    Tensor own_n  = tensor_new(ctx->scratch, "attention partial output", ctx->precision.statistic, n);
    Tensor all_Rn = tensor_new(ctx->scratch, "attention gathered partials", ctx->precision.statistic, R, n);
    CoreForward own = rank_result(own_n, at, 0), sum = rank_result(all_Rn, at, 0);
    own.q = f.q, own.kv = f.kv;
    attend_own(ctx, layer, at, own);
    comm_all_gather(cp, ctx->queue, all_Rn, own_n);                              /* <-> cp: all-gather */
    for (int64_t r = 1; r < R; r++) {
        CoreForward next = rank_result(all_Rn, at, r);
        attention_merge(ctx->queue, (AttentionMerge){ .o = sum.o, .lse = sum.lse, .o2 = next.o,
                                                      .lse2 = next.lse });
    }
    int64_t values = at.b * at.s * at.H * at.E;
    convert(ctx->queue, (Convert){ .y_N = tensor_view(f.o, values), .x_N = tensor_view(sum.o, values) });
}
