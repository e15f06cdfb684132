/* Sizes, order and messages of the exchange of tokens: model/dispatch.h. */
#include "model/dispatch.h"

#include "base/integer.h"

static int64_t capacity_of(const MoeConfig *moe, const MoeSizes *z)
{
    double each = moe->capacity_factor * (double)(z->K * z->most) / (double)z->E;
    return (int64_t)each + ((double)(int64_t)each < each);
}

MoeSizes moe_sizes(const ExecContext *ctx, int64_t t)
{
    const ModelConfig *c = ctx->config;
    const MoeState *moe = ctx->moe;
    int64_t tp = comm_size(ctx->tp.comm), r = comm_rank(ctx->tp.comm);
    MoeSizes z = { .t = t, .T = t, .K = c->moe.topk, .E = c->experts, .C = c->hidden,
        .R = comm_size(moe->dispatch), .J = moe->shards, .split = tp > 1 && !ctx->tp.sequence_parallel };
    z.X = z.E / (z.R / z.J);
    z.F = c->expert_ffn / z.J;
    if (z.split) z.first = t * r / tp, z.T = t * (r + 1) / tp - z.first;
    z.most = z.split ? divide_up(t, tp) : t;
    z.N = z.J * z.K * z.most;
    z.each = z.most, z.Q = 1;
    if (c->moe.capacity_factor == 0) {
        int64_t chunks = moe_chunks(c, z.R / z.J);
        z.chunked = chunks > 1;
        z.each = most_of(divide_up(z.most, chunks), 1);
        z.Q = most_of(divide_up(z.most, z.each), 1);
    }
    z.M = z.R * z.each * least(z.K, z.X);
    if (c->moe.capacity_factor > 0) {
        z.capacity = capacity_of(&c->moe, &z);
        z.M = least(z.M, z.R * z.X * z.capacity);
        z.N = least(z.N, z.J * z.E * z.capacity);
    }
    return z;
}

/* R most min(K, X) over J K most */
int64_t moe_chunks(const ModelConfig *config, int64_t parts)
{
    return divide_up(parts * least(config->moe.topk, config->experts / parts), config->moe.topk);
}

/* ---- chunks ---- */

static int64_t tokens_before(const MoeSizes *z, int64_t q) { return least(q * z->each, z->T); }
static int64_t tokens_of(const MoeSizes *z, int64_t q)
{
    return tokens_before(z, q + 1) - tokens_before(z, q);
}

int64_t moe_equal_rows(const MoeSizes *z, int64_t q) { return tokens_of(z, q) * z->K * z->J; }

Tensor moe_tokens(const MoeSizes *z, int64_t q, Tensor x_t)
{
    return tensor_slice(x_t, 0, z->first + tokens_before(z, q), tokens_of(z, q));
}

Tensor moe_rows(const MoeSizes *z, int64_t q, Tensor x_N)
{
    int64_t each = z->K * z->J;
    if (z->capacity > 0) return x_N;
    return tensor_slice(x_N, 0, tokens_before(z, q) * each, tokens_of(z, q) * each);
}

Tensor moe_order(const MoeSizes *z, int64_t q, const MoeSave *save)
{
    return tensor_slice(save->row_TKJ, 0, tokens_before(z, q), tokens_of(z, q));
}

Tensor moe_counts(int64_t q, Tensor count_QRX)
{
    int64_t R = count_QRX.dim[1], X = count_QRX.dim[2];
    return tensor_view(tensor_flat(count_QRX, q * R * X, R * X), R, X);
}

/* ---- order and numbers ---- */

/* A view with both outer dimensions exchanged. */
static Tensor exchanged(Tensor x)
{
    Tensor y = x;
    y.dim[0] = x.dim[1], y.stride[0] = x.stride[1];
    y.dim[1] = x.dim[0], y.stride[1] = x.stride[0];
    return y;
}

/* received[q, r] = how many rows of chunk q rank r sends for each expert that is here. What one rank gets is
 * contiguous in a message, so it has ranks outermost. */
static void exchange_counts(const ExecContext *ctx, const MoeSizes *z, MoeSave *save)
{
    Queue *queue = ctx->queue;
    Comm *comm = ctx->moe->dispatch;
    int64_t *at = ctx->moe->offset[0];
    Tensor sent = save->sent_QRX, received = save->received_QRX;
    size_t mark = arena_mark(ctx->scratch);
    for (int64_t r = 0; r <= z->R; r++) at[r] = r * z->Q * z->X;
    if (z->Q > 1) {
        sent     = tensor_new(ctx->scratch, "numbers of copies", I32, z->R, z->Q, z->X);
        received = tensor_new(ctx->scratch, "numbers of copies", I32, z->R, z->Q, z->X);
        copy_strided(queue, (CopyStrided){ .y = sent, .x = exchanged(save->sent_QRX) });
    }
    comm_all_to_all(comm, queue, received, at, sent, at);                       /* <-> etp+ep: all-to-all */
    if (z->Q > 1) copy_strided(queue, (CopyStrided){ .y = save->received_QRX, .x = exchanged(received) });
    arena_reset(ctx->scratch, mark);
}

void dispatch_sort(const ExecContext *ctx, const MoeSizes *z, MoeSave *save)
{
    Queue *queue = ctx->queue;
    Arena *a = ctx->activations;
    save->row_TKJ  = tensor_slice(tensor_new(a, "order of copies", I32, z->most, z->K, z->J), 0, 0, z->T);
    save->slot_N   = tensor_new(a, "order of copies", I32, z->N);
    save->sent_QRX = tensor_new(a, "numbers of copies", I32, z->Q, z->R, z->X);
    save->received_QRX = save->sent_QRX;
    for (int64_t q = 0; q < z->Q; q++)
        route_sort(queue, (RouteSort){ .row_TKJ = moe_order(z, q, save),
            .slot_N = moe_rows(z, q, save->slot_N), .count_RX = moe_counts(q, save->sent_QRX),
            .expert_TK = moe_tokens(z, q, save->expert_tK), .weight_TK = moe_tokens(z, q, save->weight_tK),
            .capacity = z->capacity, .by_position = ctx->config->moe.by_position });
    if (z->R == 1 && a == ctx->activations_wgrad) return;
    save->received_QRX = tensor_new(ctx->activations_wgrad, "numbers of copies", I32, z->Q, z->R, z->X);
    if (z->R > 1) exchange_counts(ctx, z, save);                                              /* <-> etp+ep */
    else copy_strided(queue, (CopyStrided){ .y = save->received_QRX, .x = save->sent_QRX });
}

/* ---- rows ---- */

static int64_t *offsets(const ExecContext *ctx, const MoeSizes *z, bool sent, int64_t q)
{
    return ctx->moe->offset[sent] + q * (z->R + 1);
}

/* at[r] = elements before those of rank r. A dry run has no counts and takes equal parts of the rows of equal
 * loads. */
static void offsets_of_chunk(int64_t *at, const MoeSizes *z, int64_t q, Tensor count_QRX)
{
    const int32_t *count = count_QRX.data;
    int64_t equal = moe_equal_rows(z, q);
    at[0] = 0;
    for (int64_t r = 0; r < z->R; r++) {
        int64_t rows = equal * (r + 1) / z->R - equal * r / z->R;
        if (count) rows = 0;
        for (int64_t x = 0; count && x < z->X; x++) rows += count[(q * z->R + r) * z->X + x];
        at[r + 1] = at[r] + rows * z->C;
    }
}

/* The counts are in host memory of a CPU. */
void dispatch_offsets(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save)
{
    if (z->R == 1) return;
    queue_wait(ctx->queue);
    for (int64_t q = 0; q < z->Q; q++) {
        offsets_of_chunk(offsets(ctx, z, false, q), z, q, save->received_QRX);
        offsets_of_chunk(offsets(ctx, z, true,  q), z, q, save->sent_QRX);
    }
}

/* Without overlap it waits at once. */
static Pending begun(const ExecContext *ctx, Pending pending)
{
    if (ctx->moe->overlap) return pending;
    comm_wait(ctx->moe->dispatch, pending);                                                   /* <-> etp+ep */
    return (Pending){ -1 };
}

Pending dispatch_send_begin(const ExecContext *ctx, const MoeSizes *z, int64_t q, Tensor x_MC,
                            Tensor rows_NC)
{
    if (z->R == 1) return (Pending){ -1 };
    return begun(ctx, comm_all_to_all_begin(ctx->moe->dispatch, ctx->queue, x_MC, /* <-> etp+ep: all-to-all */
        offsets(ctx, z, false, q), rows_NC, offsets(ctx, z, true, q)));
}

Pending dispatch_return_begin(const ExecContext *ctx, const MoeSizes *z, int64_t q, Tensor rows_NC,
                              Tensor y_MC)
{
    if (z->R == 1) return (Pending){ -1 };
    return begun(ctx, comm_all_to_all_begin(ctx->moe->dispatch, ctx->queue,       /* <-> etp+ep: all-to-all */
        rows_NC, offsets(ctx, z, true, q), y_MC, offsets(ctx, z, false, q)));
}

Tensor dispatch_other(const ExecContext *ctx, const MoeSizes *z, Arena *arena, const char *what,
                      int64_t rows, Tensor itself)
{
    return z->R == 1 ? itself : tensor_new(arena, what, ctx->precision.activation, rows, z->C);
}
