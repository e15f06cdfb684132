/* The mixture of experts of a block, between its second norm and its dropout (model/moe_config.h; Shazeer et
 * al. 2017, arXiv 1701.06538; expert parallelism: GShard, arXiv 2006.16668).
 *
 *  n -- router -- top-k -- send -- experts -- return -- weighted sum -+- y
 *   \_________________________ shared expert ________________________/     lines with <-> communicate
 *
 * Each token is sent by one rank: under sequence parallelism by the rank that holds it; without it every
 * tensor-parallel rank has all tokens, routes all in the same way and sends its share. All J ranks with
 * shards of an expert get a copy, and their partial outputs are added where the weights are applied. No copy
 * is dropped unless there is a capacity.
 *
 * Memory is that of the worst case, in which every rank sends all it can to this one: M rows below. So it
 * follows from shapes alone; it is up to P times what equal loads need (P parts of the experts), and with
 * one part exactly that. The numbers of rows are exchanged first, and the host reads them, once in each
 * direction, because the all-to-all needs them.
 *
 * t tokens held   T of them sent by this rank   C channels   E experts, X of them here K experts of a
 * token   R ranks of dispatch, J of them hold shards of one expert N rows sent, at most: K J for each
 * token   M rows received, at most: R T min(K, X), or R X capacity F hidden channels of an expert held
 * here   W columns of gate and up: 2 F with a gate, else F */
#include "model/model_internal.h"

typedef struct {
    int64_t t, first, T, most, K, E, X, R, J, N, M, C, F, capacity;   /* most: of T, on any rank */
    int64_t rows;                        /* received where all experts have equal loads */
    bool    split;                       /* the tp ranks have the same tokens, and share the sending */
} MoeSizes;

static MoeSizes sizes_of(const ExecContext *ctx, int64_t t)
{
    const ModelConfig *c = ctx->config;
    const MoeState *moe = ctx->moe;
    int64_t tp = comm_size(ctx->tp.comm), r = comm_rank(ctx->tp.comm);
    MoeSizes z = { .t = t, .T = t, .K = c->moe.topk, .E = c->experts, .C = c->hidden,
        .R = comm_size(moe->dispatch), .J = moe->shards, .split = tp > 1 && !ctx->tp.sequence_parallel };
    z.X = z.E / (z.R / z.J);
    z.F = c->expert_ffn / z.J;
    if (z.split) z.first = t * r / tp, z.T = t * (r + 1) / tp - z.first;
    z.most = z.split ? (t + tp - 1) / tp : t;
    z.N = z.most * z.K * z.J;
    z.M = z.R * z.most * (z.K < z.X ? z.K : z.X);
    z.rows = z.T * z.K * z.J;
    if (c->moe.capacity_factor > 0) {
        double each = c->moe.capacity_factor * (double)(z.K * z.most) / (double)z.E;
        z.capacity = (int64_t)each + ((double)(int64_t)each < each);
        if (z.R * z.X * z.capacity < z.M) z.M = z.R * z.X * z.capacity;
        if (z.E * z.J * z.capacity < z.N) z.N = z.E * z.J * z.capacity;
    }
    return z;
}

static Tensor mine(const MoeSizes *z, Tensor x_t) { return tensor_slice(x_t, 0, z->first, z->T); }

static Tensor bias_of(const ExecContext *ctx, int64_t layer)
{
    const MoeState *moe = ctx->moe;
    if (!tensor_present(moe->bias_nE)) return tensor_none();
    return tensor_flat(moe->bias_nE, moe->row[layer] * moe->bias_nE.dim[1], moe->bias_nE.dim[1]);
}

/* Elements [first, first + count) of the layer's row of loads; absent where nothing is trained. */
static Tensor load_of(const ExecContext *ctx, int64_t layer, int64_t first, int64_t count)
{
    const MoeState *moe = ctx->moe;
    if (!tensor_present(moe->load_nE)) return tensor_none();
    return tensor_flat(moe->load_nE, moe->row[layer] * moe->load_nE.dim[1] + first, count);
}

/* ---- the exchange ---- */

/* at[r] = elements before those of rank r, `width` for each row. The host reads the counts, which are in
 * host memory of a CPU. A dry run has none and takes equal parts of z->rows. */
static const int64_t *offsets(const ExecContext *ctx, const MoeSizes *z, int64_t *at, Tensor count_RX,
                              int64_t width)
{
    const int32_t *count = count_RX.data;
    queue_wait(ctx->queue);
    at[0] = 0;
    for (int64_t r = 0; r < z->R; r++) {
        int64_t rows = z->rows * (r + 1) / z->R - z->rows * r / z->R;
        if (count) rows = 0;
        for (int64_t x = 0; count && x < z->X; x++) rows += count[r * z->X + x];
        at[r + 1] = at[r] + rows * width;
    }
    return at;
}

/* received[r] = how many rows rank r sends for each expert that is here */
static void exchange_counts(const ExecContext *ctx, const MoeSizes *z, MoeSave *save)
{
    int64_t *at = ctx->moe->offset[0];
    Comm *comm = ctx->moe->dispatch;
    for (int64_t r = 0; r <= z->R; r++) at[r] = r * z->X;
    comm_all_to_all(comm, ctx->queue, save->received_RX, at, save->sent_RX, at); /* <-> etp+ep: all-to-all */
}

/* Rows of copies to the ranks of their experts. Of a single rank both tensors are one. */
static void send_rows(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save, Tensor x_MC,
                      Tensor rows_NC)
{
    Comm *comm = ctx->moe->dispatch;
    if (z->R == 1) return;
    const int64_t *received = offsets(ctx, z, ctx->moe->offset[0], save->received_RX, z->C);
    const int64_t *sent     = offsets(ctx, z, ctx->moe->offset[1], save->sent_RX, z->C);
    comm_all_to_all(comm, ctx->queue, x_MC, received, rows_NC, sent);            /* <-> etp+ep: all-to-all */
}

static void return_rows(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save, Tensor rows_NC,
                        Tensor y_MC)
{
    Comm *comm = ctx->moe->dispatch;
    if (z->R == 1) return;
    const int64_t *received = offsets(ctx, z, ctx->moe->offset[0], save->received_RX, z->C);
    const int64_t *sent     = offsets(ctx, z, ctx->moe->offset[1], save->sent_RX, z->C);
    comm_all_to_all(comm, ctx->queue, rows_NC, sent, y_MC, received);            /* <-> etp+ep: all-to-all */
}

/* The other side of `rows` in an exchange, on `arena`; the tensor itself where there is one rank. */
static Tensor other_side(const ExecContext *ctx, const MoeSizes *z, Arena *arena, const char *what,
                         int64_t rows, Tensor itself)
{
    return z->R == 1 ? itself : tensor_new(arena, what, ctx->precision.activation, rows, z->C);
}

/* ---- experts: gate and up are the two halves of h, or up is all of it ---- */

static bool gated(const ExecContext *ctx) { return ctx->config->activation == ACT_SWIGLU; }
static Tensor gate_half(const MoeSizes *z, Tensor h_MW) { return tensor_slice(h_MW, 1, 0, z->F); }
static Tensor up_half(const MoeSizes *z, Tensor h_MW)
{
    return tensor_slice(h_MW, 1, h_MW.dim[1] - z->F, z->F);
}

/* h = x [gate, up]T,  g = act(h),  y = g downT */
static void experts_forward(const ExecContext *ctx, const MoeSizes *z, const UnitParam *w,
                            const MoeSave *save, Tensor y_MC)
{
    Queue *q = ctx->queue;
    if (gated(ctx))
        grouped_matmul_forward(q, (GroupedMatmulForward){ .y_MF = gate_half(z, save->h_MW),
            .x_MC = save->x_MC, .w_XFC = unit_param(w, PARAM_EXPERTS_GATE_WEIGHT),
            .count_RX = save->received_RX, .rows = z->rows });
    grouped_matmul_forward(q, (GroupedMatmulForward){ .y_MF = up_half(z, save->h_MW), .x_MC = save->x_MC,
        .w_XFC = unit_param(w, PARAM_EXPERTS_UP_WEIGHT), .count_RX = save->received_RX, .rows = z->rows });
    grouped_activation_forward(q, (GroupedActivationForward){ .y_MF = save->g_MF, .x_MF = save->h_MW,
        .count_RX = save->received_RX, .kind = ctx->config->activation });
    grouped_matmul_forward(q, (GroupedMatmulForward){ .y_MF = y_MC, .x_MC = save->g_MF,
        .w_XFC = unit_param(w, PARAM_EXPERTS_DOWN_WEIGHT), .count_RX = save->received_RX, .rows = z->rows });
}

/* dg = dy down,  dh = act'(h) dg,  dx = dh [gate, up] */
static void experts_backward_input(const ExecContext *ctx, const MoeSizes *z, const UnitParam *w,
                                   MoeSave *save, Tensor dx_MC)
{
    Queue *q = ctx->queue;
    Tensor dh_MW = activation_gradient_new(ctx, "experts hidden gradient", 0, z->M, save->h_MW.dim[1]);
    Tensor dg_MF = dh_MW;
    if (gated(ctx)) dg_MF = scratch_new(ctx, "experts activation gradient", z->M, z->F);
    grouped_matmul_backward_input(q, (GroupedMatmulBackwardInput){ .dx_MC = dg_MF, .dy_MF = save->dy_MC,
        .w_XFC = unit_param(w, PARAM_EXPERTS_DOWN_WEIGHT), .count_RX = save->received_RX, .rows = z->rows });
    grouped_activation_backward(q, (GroupedActivationBackward){ .dx_MF = dh_MW, .dy_MF = dg_MF,
        .x_MF = save->h_MW, .count_RX = save->received_RX, .kind = ctx->config->activation });
    save->dh_MW = activation_gradient_keep(ctx, 0, save->h_MW, dh_MW);
    if (gated(ctx))
        grouped_matmul_backward_input(q, (GroupedMatmulBackwardInput){ .dx_MC = dx_MC, .dy_MF = gate_half(z,
            save->dh_MW), .w_XFC = unit_param(w, PARAM_EXPERTS_GATE_WEIGHT), .count_RX = save->received_RX,
            .rows = z->rows });
    grouped_matmul_backward_input(q, (GroupedMatmulBackwardInput){ .dx_MC = dx_MC, .dy_MF = up_half(z,
        save->dh_MW), .w_XFC = unit_param(w, PARAM_EXPERTS_UP_WEIGHT), .count_RX = save->received_RX,
        .rows = z->rows, .add = gated(ctx) });
}

/* ---- router ---- */

/* logits = n wT, experts and weights of all tokens held, and the order of the copies that this rank sends */
static void route(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w, MoeSave *save,
                  Tensor n_tC)
{
    Queue *q = ctx->queue;
    Dtype statistic = ctx->precision.statistic;
    Arena *a = ctx->activations;
    save->logits_tE = tensor_new(a, "router logits", statistic, z->t, z->E);
    save->weight_tK = tensor_new(a, "router weights", statistic, z->t, z->K);
    save->expert_tK = tensor_new(a, "router experts", I32, z->t, z->K);
    save->row_TKJ   = tensor_slice(tensor_new(a, "order of copies", I32, z->most, z->K, z->J), 0, 0, z->T);
    save->slot_N    = tensor_new(a, "order of copies", I32, z->N);
    save->sent_RX   = tensor_new(a, "numbers of copies", I32, z->R, z->X);
    save->received_RX = save->sent_RX;
    matmul_forward(q, (MatmulForward){ .y_TK = save->logits_tE, .x_TC = n_tC,
        .w_KC = unit_param(w, PARAM_ROUTER_WEIGHT) });
    route_forward(q, (RouteForward){ .weight_TK = save->weight_tK, .expert_TK = save->expert_tK,
        .logits_TE = save->logits_tE, .bias_E = bias_of(ctx, layer), .rule = ctx->config->moe.rule });
    route_sort(q, (RouteSort){ .row_TKJ = save->row_TKJ, .slot_N = save->slot_N, .count_RX = save->sent_RX,
        .expert_TK = mine(z, save->expert_tK), .weight_TK = mine(z, save->weight_tK), .capacity = z->capacity,
        .by_position = ctx->config->moe.by_position });
}

/* dlogits += the gradients of the auxiliary losses, whose sums are recorded. Every rank that holds a part of
 * a group of tokens needs the counts of all of it. */
static void balance(const ExecContext *ctx, int64_t layer, const MoeSizes *z, Tensor dlogits_tE,
                    Tensor logits_tE)
{
    Queue *q = ctx->queue;
    const MoeConfig *m = &ctx->config->moe;
    bool alone = ctx->tp.sequence_parallel || comm_rank(ctx->tp.comm) == 0,
        counted = m->balance != MOE_BALANCE_NONE;
    int64_t sequences = ctx->batch->sample_i.dim[0], T = ctx->batch->token_i.dim[0];
    int64_t groups = m->balance == MOE_BALANCE_SEQUENCE ? sequences : 1;
    int64_t first  = ctx->tp.sequence_parallel ? comm_rank(ctx->tp.comm) * z->t : 0;
    if (!counted && m->z_coefficient == 0) return;
    Tensor count_GE = tensor_new(ctx->scratch, "balance counts", ctx->precision.statistic, groups, z->E);
    fill_zero(q, (FillZero){ .y = count_GE });
    if (counted) {
        balance_count(q, (BalanceCount){ .count_GE = count_GE, .logits_TE = logits_tE, .topk = z->K,
            .first = first, .length = T / groups });
        comm_all_reduce(ctx->moe->sequence, q, count_GE, ctx->scratch);            /* <-> tp+cp: all-reduce */
    }
    balance_backward(q, (BalanceBackward){ .dlogits_TE = dlogits_tE, .logits_TE = logits_tE,
        .count_GE = count_GE, .loss_2 = alone ? load_of(ctx, layer, z->E + MOE_BALANCE, 2) : tensor_none(),
        .score = m->rule.score, .topk = z->K, .first = first, .length = T / groups,
        .tokens = sequences / groups * ctx->config->sequence, .coefficient = counted ? m->coefficient : 0,
        .z_coefficient = m->z_coefficient });
}

/* x in the type of statistics: itself, or a copy on scratch. The router's gradients are computed in it. */
static Tensor in_statistic(const ExecContext *ctx, Tensor x)
{
    Dtype statistic = ctx->precision.statistic;
    if (x.dtype == statistic) return x;
    Tensor y = tensor_new(ctx->scratch, "router input", statistic, x.dim[0], x.dim[1]);
    convert(ctx->queue, (Convert){ .y_N = tensor_view(y, tensor_count(y)), .x_N = tensor_view(x,
        tensor_count(x)) });
    return y;
}

/* dn += dlogits w */
static void router_backward_input(const ExecContext *ctx, const UnitParam *w, Tensor dn_tC, Tensor dlogits_tE)
{
    size_t mark = arena_mark(ctx->scratch);
    Tensor d_tC = tensor_new(ctx->scratch, "router input gradient", ctx->precision.statistic, dn_tC.dim[0],
        dn_tC.dim[1]);
    matmul_backward_input(ctx->queue, (MatmulBackwardInput){ .dx_TC = d_tC, .dy_TK = dlogits_tE,
        .w_KC = in_statistic(ctx, unit_param(w, PARAM_ROUTER_WEIGHT)) });
    accumulate(ctx->queue, (Accumulate){ .y = dn_tC, .x = d_tC });
    arena_reset(ctx->scratch, mark);
}

/* ---- the branch ---- */

static bool has_shared(const ExecContext *ctx) { return ctx->config->moe.shared_ffn > 0; }

static Tensor shared_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC,
                             bool save_alone)
{
    mlp_hidden_forward(ctx, w, save, n2_tC);                                                      /* <-> tp */
    if (save_alone) return tensor_none();
    Tensor y_TC = scratch_new(ctx, "shared expert output", save->g_TF.dim[0], n2_tC.dim[1]);
    linear_forward(ctx, save, LINEAR_DOWN, y_TC, save->g_TF, unit_param(w, PARAM_MLP_DOWN_WEIGHT),
        tensor_none());
    return tp_leave_forward(&ctx->tp, y_TC);                         /* <-> tp: all-reduce | reduce-scatter */
}

/* y[t] = sum over k of weight experts(n)[t, k]  (+ shared(n)) */
Tensor moe_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *block, Tensor n2_tC,
                   bool save_alone)
{
    Queue *q = ctx->queue;
    Dtype type = ctx->precision.activation;
    MoeSizes z = sizes_of(ctx, n2_tC.dim[0]);
    MoeSave *save = &block->moe;
    Tensor shared_tC = tensor_none();
    route(ctx, layer, &z, w, save, n2_tC);
    if (z.R > 1) {
        save->received_RX = tensor_new(ctx->activations_wgrad, "numbers of copies", I32, z.R, z.X);
        exchange_counts(ctx, &z, save);                                                       /* <-> etp+ep */
    } else if (ctx->activations != ctx->activations_wgrad) {
        save->received_RX = tensor_new(ctx->activations_wgrad, "numbers of copies", I32, z.R, z.X);
        copy_strided(q, (CopyStrided){ .y = save->received_RX, .x = save->sent_RX });
    }
    save->x_MC = tensor_new(ctx->activations_wgrad, "tokens of experts", type, z.M, z.C);
    Tensor send_NC = other_side(ctx, &z, ctx->scratch, "copies sent", z.N, save->x_MC);
    expert_gather(q, (ExpertGather){ .y_NC = send_NC, .x_TC = mine(&z, n2_tC), .slot_N = save->slot_N,
        .K = z.K });
    send_rows(ctx, &z, save, save->x_MC, send_NC);                                            /* <-> etp+ep */
    save->h_MW = activation_new(ctx, "experts hidden", z.M, gated(ctx) ? 2 * z.F : z.F);
    save->g_MF = tensor_new(ctx->activations_wgrad, "experts activation", type, z.M, z.F);
    save->back_NC = activation_new(ctx, "outputs of experts", z.R == 1 ? z.M : z.N, z.C);
    Tensor y_MC = other_side(ctx, &z, ctx->scratch, "outputs of experts", z.M, save->back_NC);
    experts_forward(ctx, &z, w, save, y_MC);
    return_rows(ctx, &z, save, save->back_NC, y_MC);                                          /* <-> etp+ep */
    if (has_shared(ctx)) shared_tC = shared_forward(ctx, w, block, n2_tC, save_alone);           /* <-> tp */
    if (save_alone) return tensor_none();

    Tensor y_tC = scratch_new(ctx, "experts branch", z.t, z.C);
    if (z.split) fill_zero(q, (FillZero){ .y = y_tC });
    expert_combine(q, (ExpertCombine){ .y_TC = mine(&z, y_tC), .residual_TC = z.split ? tensor_none()
        : shared_tC, .x_NC = save->back_NC, .weight_TK = mine(&z, save->weight_tK),
        .row_TKJ = save->row_TKJ });
    if (z.split) {
        comm_all_reduce(ctx->tp.comm, q, y_tC, ctx->scratch);                        /* <-> tp: all-reduce */
        if (has_shared(ctx)) accumulate(q, (Accumulate){ .y = y_tC, .x = shared_tC });
    }
    return y_tC;
}

/* dweight = dy . back,  d(back) = weight dy,  dn = the sum of the copies' gradients + dlogits w (+ dshared)
 * Where tp ranks share the sending, each knows the gradients of its own tokens: they are joined by a sum with
 * zeros. */
Tensor moe_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *block,
                          Tensor dy_tC)
{
    Queue *q = ctx->queue;
    MoeSizes z = sizes_of(ctx, dy_tC.dim[0]);
    MoeSave *save = &block->moe;
    Dtype statistic = ctx->precision.statistic;
    Tensor shared_tC = tensor_none();
    if (has_shared(ctx)) shared_tC = mlp_backward_input(ctx, w, block, dy_tC);                    /* <-> tp */
    save->dlogits_tE = tensor_new(ctx->wgrad_saved, "router logits gradient", statistic, z.t, z.E);
    save->dy_MC = wgrad_saved_new(ctx, "experts output gradient", z.M, z.C);
    Tensor dn_tC = wgrad_saved_new(ctx, "mlp input gradient", z.t, z.C);

    Tensor dweight_tK = tensor_new(ctx->scratch, "router weights gradient", statistic, z.t, z.K);
    if (z.split) fill_zero(q, (FillZero){ .y = dweight_tK });
    expert_combine_backward_weight(q, (ExpertCombineBackwardWeight){ .dweight_TK = mine(&z, dweight_tK),
        .dy_TC = mine(&z, dy_tC), .x_NC = save->back_NC, .row_TKJ = save->row_TKJ });
    Tensor send_NC = other_side(ctx, &z, ctx->scratch, "copies sent", z.N, save->dy_MC);
    expert_gather(q, (ExpertGather){ .y_NC = send_NC, .x_TC = mine(&z, dy_tC), .weight_TK = mine(&z,
        save->weight_tK), .slot_N = save->slot_N, .K = z.K });
    send_rows(ctx, &z, save, save->dy_MC, send_NC);                                           /* <-> etp+ep */
    Tensor dx_MC = scratch_new(ctx, "experts input gradient", z.M, z.C);
    Tensor back_NC = other_side(ctx, &z, ctx->scratch, "copies returned", z.N, dx_MC);
    experts_backward_input(ctx, &z, w, save, dx_MC);
    return_rows(ctx, &z, save, back_NC, dx_MC);                                               /* <-> etp+ep */

    if (z.split) fill_zero(q, (FillZero){ .y = dn_tC });
    expert_combine(q, (ExpertCombine){ .y_TC = mine(&z, dn_tC), .residual_TC = z.split ? tensor_none()
        : shared_tC, .x_NC = back_NC, .row_TKJ = save->row_TKJ });
    if (z.split) {
        comm_all_reduce(ctx->tp.comm, q, dn_tC, ctx->scratch);                       /* <-> tp: all-reduce */
        comm_all_reduce(ctx->tp.comm, q, dweight_tK, ctx->scratch);                  /* <-> tp: all-reduce */
        if (has_shared(ctx)) accumulate(q, (Accumulate){ .y = dn_tC, .x = shared_tC });
    }
    route_backward(q, (RouteBackward){ .dlogits_TE = save->dlogits_tE, .dweight_TK = dweight_tK,
        .logits_TE = save->logits_tE, .expert_TK = save->expert_tK, .rule = ctx->config->moe.rule });
    balance(ctx, layer, &z, save->dlogits_tE, save->logits_tE);                                /* <-> tp+cp */
    load_add(q, (LoadAdd){ .load_E1 = load_of(ctx, layer, 0, z.E + 1), .count_RX = save->sent_RX,
        .copies = z.T * z.K });
    router_backward_input(ctx, w, dn_tC, save->dlogits_tE);
    return dn_tC;
}

/* drouter += dlogitsT n,  ddown += dyT g,  d[gate, up] += dhT x */
void moe_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *block)
{
    Queue *q = ctx->queue;
    const MoeSave *save = &block->moe;
    MoeSizes z = sizes_of(ctx, block->n2_tC.dim[0]);
    if (has_shared(ctx)) mlp_backward_weight(ctx, dw, block);                                     /* <-> tp */
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, PARAM_ROUTER_WEIGHT),
        .dy_TK = save->dlogits_tE, .x_TC = in_statistic(ctx, block->n2_tC) });
    grouped_matmul_backward_weight(q, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
        PARAM_EXPERTS_DOWN_WEIGHT), .dy_MF = save->dy_MC, .x_MC = save->g_MF, .count_RX = save->received_RX,
        .rows = z.rows });
    if (gated(ctx))
        grouped_matmul_backward_weight(q, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
            PARAM_EXPERTS_GATE_WEIGHT), .dy_MF = gate_half(&z, save->dh_MW), .x_MC = save->x_MC,
            .count_RX = save->received_RX, .rows = z.rows });
    grouped_matmul_backward_weight(q, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
        PARAM_EXPERTS_UP_WEIGHT), .dy_MF = up_half(&z, save->dh_MW), .x_MC = save->x_MC,
        .count_RX = save->received_RX, .rows = z.rows });
}
