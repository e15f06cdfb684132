/* All-gather context parallelism: each rank gathers the keys and values of all ranks and attends to them with
 * its own queries. Backward gathers them again instead of keeping them, and reduce-scatters their gradients,
 * which have the type of statistics until then. The letters are those of core_attention.h.
 *
 *  Messages: forward one all-gather of kv; backward the same, and one reduce-scatter of dkv */
#include "model/attention/core_attention.h"

/* What each rank holds, rank after rank [c, b, s, W], and the joined sequences [b, c s, W] */
static Tensor block_of(Tensor blocks_cbsn, CoreLayout at, int rank)
{
    int64_t n = at.G * (at.D + at.E), count = at.b * at.s * n;
    return tensor_view(tensor_flat(blocks_cbsn, rank * count, count), at.b, at.s, n);
}

/* All keys and values, in order of positions. */
static Tensor keys_gathered(const ExecContext *ctx, CoreLayout at, Tensor kv)
{
    Tensor whole = tensor_new(ctx->scratch, "gathered keys and values", kv.dtype, at.b, at.c * at.s,
        at.G * (at.D + at.E));
    size_t mark = arena_mark(ctx->scratch);
    Tensor mine = tensor_push(ctx->scratch, "own keys and values", kv.dtype, kv.dim, 4);
    Tensor blocks = tensor_new(ctx->scratch, "keys and values by rank", kv.dtype, at.c * tensor_count(mine));
    copy_strided(ctx->queue, (CopyStrided){ .y = mine, .x = kv });
    comm_all_gather(ctx->cp.gather, ctx->queue, blocks, mine);                   /* <-> cp: all-gather */
    for (int j = 0; j < at.c; j++)
        for (int which = 0; which < 2; which++)
            copy_strided(ctx->queue, (CopyStrided){
                .y = core_joined_part(whole, at.c, j, which),
                .x = core_part(block_of(blocks, at, j), at, which) });
    arena_reset(ctx->scratch, mark);
    return whole;
}

void gather_forward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f)
{
    size_t mark = arena_mark(ctx->scratch);
    Tensor whole = keys_gathered(ctx, at, f.kv);                                 /* <-> cp: all-gather */
    for (int which = 0; which < at.parts; which++)
        attention_forward(ctx->queue, core_forward_call(ctx, layer, at, f, which, whole, 0));
    arena_reset(ctx->scratch, mark);
}

void gather_backward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b)
{
    size_t before = arena_mark(ctx->scratch);
    Dtype exact = ctx->precision.statistic;
    Tensor dwhole = tensor_new(ctx->scratch, "gathered key and value gradients", exact, at.b, at.c * at.s,
        at.G * (at.D + at.E));
    Tensor mine = tensor_push(ctx->scratch, "own key and value gradients", exact, b.dkv.dim, 4);
    size_t mark = arena_mark(ctx->scratch);
    Tensor whole = keys_gathered(ctx, at, b.kv);                                 /* <-> cp: all-gather */
    fill_zero(ctx->queue, (FillZero){ .y = dwhole });
    for (int which = 0; which < at.parts; which++)
        attention_backward(ctx->queue, core_backward_call(ctx, layer, at, b, which, dwhole, whole, 0));
    arena_reset(ctx->scratch, mark);
    Tensor blocks = tensor_new(ctx->scratch, "key and value gradients by rank", exact,
        at.c * tensor_count(mine));
    for (int j = 0; j < at.c; j++)
        for (int which = 0; which < 2; which++)
            copy_strided(ctx->queue, (CopyStrided){ .y = core_part(block_of(blocks, at, j), at, which),
                .x = core_joined_part(dwhole, at.c, j, which) });
    comm_reduce_scatter(ctx->cp.gather, ctx->queue, mine, blocks, ctx->scratch); /* <-> cp: reduce-scatter */
    accumulate(ctx->queue, (Accumulate){ .y = b.dkv, .x = mine });
    arena_reset(ctx->scratch, before);
}
