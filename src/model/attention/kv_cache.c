/* Keys and values of earlier positions in pages, for generation. All context-parallel ranks compute the same
 * rows; each writes the keys of its pages, attends to the keys that it has, and the results are gathered and
 * merged in the order of ranks.
 *
 *  T rows of a forward   H query and G key-value heads held here   D channels of a key, E of a value
 *  R cp ranks */
#include "model/attention/core_attention.h"

/* The keys and values are the last columns of qkv. */
void kv_cache_write(const ExecContext *ctx, int64_t layer, Tensor qkv_TQ)
{
    const KvCaches *caches = ctx->caches;
    KvCache cache = caches->layer[layer];
    int64_t G = cache.k.dim[2], D = cache.k.dim[3], E = cache.v.dim[3], Q = qkv_TQ.dim[1];
    Tensor k_TGD = tensor_slice(qkv_TQ, 1, Q - G * (D + E), G * D);
    Tensor v_TGE = tensor_slice(qkv_TQ, 1, Q - G * E, G * E);
    k_TGD.dim[1] = G, k_TGD.stride[1] = D, k_TGD.dim[2] = D, k_TGD.stride[2] = 1;
    v_TGE.dim[1] = G, v_TGE.stride[1] = E, v_TGE.dim[2] = E, v_TGE.stride[2] = 1;
    page_write(ctx->queue, (PageWrite){ .k_NLGD = cache.k, .v_NLGE = cache.v, .k_TGD = k_TGD, .v_TGE = v_TGE,
                                        .slot_i = caches->slot_i });
}

/* [1, T, ..] as [T, ..] */
static Tensor rows_of(Tensor x)
{
    for (int i = 0; i < 3; i++) x.dim[i] = x.dim[i + 1], x.stride[i] = x.stride[i + 1];
    x.dim[3] = 1, x.stride[3] = 1;
    return x;
}

/* o and lse of the keys that this rank has. */
static void attend_own(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    const KvCaches *caches = ctx->caches;
    KvCache cache = caches->layer[layer];
    AttentionRule rule = core_forward_call(ctx, layer, at, f, 0, f.kv, 0).rule;
    rule.window = 0;                            /* it is in the key ranges */
    paged_attention_forward(ctx->queue, (PagedAttentionForward){ .o = rows_of(f.o), .lse = rows_of(f.lse),
        .q = rows_of(f.q), .k = cache.k, .v = cache.v, .page_i = caches->page_i,
        .sequence_i = caches->sequence_i,
        .key_range_i = caches->key_range_i[model_window(ctx->config, layer) > 0],
        .position_i = ctx->batch->position_i, .key_position_i = caches->key_position_i, .rule = rule });
}

/* o and lse of rank r in what the ranks gather: of each first all of o, then all of lse */
static CoreForward rank_result(Tensor all_Rn, CoreLayout at, int64_t r)
{
    int64_t rows = at.s * at.H, n = rows * (at.E + 1);
    Tensor o = tensor_flat(all_Rn, r * n, rows * at.E), lse = tensor_flat(all_Rn, r * n + rows * at.E, rows);
    return (CoreForward){ .o = tensor_view(o, 1, at.s, at.H, at.E), .lse = tensor_view(lse, 1, at.s, at.H) };
}

void kv_cache_attend(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    Comm *cp = ctx->caches->cp;
    int64_t R = comm_size(cp), n = at.s * at.H * (at.E + 1);
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
    int64_t values = at.s * at.H * at.E;
    convert(ctx->queue, (Convert){ .y_N = tensor_view(f.o, values), .x_N = tensor_view(sum.o, values) });
}
