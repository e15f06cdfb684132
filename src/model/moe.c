/* The mixture of experts of a block, between its second norm and its dropout (model/moe_config.h; Shazeer et
 * al. 2017, arXiv 1701.06538).
 *
 *  n -- router -- top-k -- send -- experts -- return -- weighted sum -+- y
 *   \_________________________ shared expert ________________________/     lines with <-> communicate
 *
 * Messages of a layer, for one micro-batch; dispatch is the etp x ep ranks that share the layer's experts,
 * and the letters are those of model/dispatch.h. Bytes of a message are those to other ranks; a copy of a
 * token is one row.
 *
 *  forward    dispatch  all-to-all      Q X integers to each rank: rows of each chunk and expert
 *             dispatch  all-to-all  Q   each row sent once in all, C of activations: n
 *             dispatch  all-to-all  Q   the same rows back: outputs of experts
 *             tp        all-reduce      t x C of activations, without sequence parallelism: y
 *  backward   dispatch  all-to-all  Q   the same rows, where MoeSizes.chunked: n again
 *             dispatch  all-to-all  Q   the same rows: gradients of the outputs
 *             dispatch  all-to-all  Q   the same rows back: gradients of n
 *             tp        all-reduce  2   t x C of activations (dn) and t x K of statistics (gradients of the
 *                                       weights), without sequence parallelism
 *             sequence  all-reduce      G x E of statistics, with an auxiliary loss for balance: counts; over
 *                                       cp, under sequence parallelism tp x cp
 *
 * The shared expert's are those of an MLP. Where a forward is repeated for backward (--recompute-granularity
 * full), its all-to-alls are, but not the all-reduce of y; --recompute-modules moe repeats those of rows.
 * Messages of chunks begin in this order: rows of chunk q + 1 (n, then gradients), rows of chunk q back.
 *
 * t tokens held   T of them sent by this rank   C channels   K experts of a token   N rows sent */
#include "model/dispatch.h"

static bool has_shared(const ExecContext *ctx) { return ctx->config->moe.shared_ffn > 0; }

/* shared = mlp(n), or where it has a gate sigmoid(n w) mlp(n), whose factors are saved */
static Tensor shared_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC,
                             bool save_alone)
{
    int64_t t = n2_tC.dim[0], C = n2_tC.dim[1];
    Tensor down_CF = unit_param(w, PARAM_MLP_DOWN_WEIGHT);
    MoeSave *moe = &save->moe;
    mlp_hidden_forward(ctx, w, save, n2_tC);                                                      /* <-> tp */
    if (ctx->config->moe.shared_gate) {
        moe->shared_tC = activation_new(ctx, "shared expert output", t, C);
        linear_leave_forward(ctx, save, LINEAR_DOWN, moe->shared_tC, save->g_TF, down_CF, tensor_none());
        gate_logits_forward(ctx, w, moe, n2_tC);
        if (save_alone) return tensor_none();
        Tensor y_tC = scratch_new(ctx, "shared expert output", t, C);
        row_gate_forward(ctx->queue, (RowGateForward){ .y_TC = y_tC, .z_T = moe->gate_t,
            .x_TC = moe->shared_tC });
        return y_tC;
    }
    if (save_alone) return tensor_none();
    Tensor y_TC = scratch_new(ctx, "shared expert output", save->g_TF.dim[0], C);
    linear_forward(ctx, save, LINEAR_DOWN, y_TC, save->g_TF, down_CF, tensor_none());
    return tp_leave_forward(&ctx->tp, y_TC);                         /* <-> tp: all-reduce | reduce-scatter */
}

/* The gradient of n through the shared expert, its gate's part aside. */
static Tensor shared_backward_input(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    MoeSave *moe = &save->moe;
    if (!ctx->config->moe.shared_gate) return mlp_backward_input(ctx, w, save, dy_tC);            /* <-> tp */
    moe->dgate_t = tensor_new(ctx->wgrad_saved, "shared expert gate gradient", ctx->precision.statistic,
        dy_tC.dim[0]);
    Tensor ds_tC = region_gradient_new(ctx, "shared expert output gradient", dy_tC.dim[0], dy_tC.dim[1]);
    row_gate_backward(ctx->queue, (RowGateBackward){ .dx_TC = ds_tC, .dz_T = moe->dgate_t, .dy_TC = dy_tC,
        .z_T = moe->gate_t, .x_TC = moe->shared_tC });
    return mlp_backward_input(ctx, w, save, ds_tC);                                               /* <-> tp */
}

/* y[t] = shared[t] + sum over k of weight[t, k] x[row of t, k]; weight may be absent, as in ExpertCombine.
 * Where tp ranks share the sending, each has the rows of its own tokens: they are joined by a sum with
 * zeros. */
static void combine(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save, Tensor y_tC, Tensor x_NC,
                    Tensor weight_tK, Tensor shared_tC)
{
    Queue *queue = ctx->queue;
    bool residual = tensor_present(shared_tC) && !z->split;
    if (z->split) fill_zero(queue, (FillZero){ .y = y_tC });
    for (int64_t q = 0; q < z->Q; q++)
        expert_combine(queue, (ExpertCombine){ .y_TC = moe_tokens(z, q, y_tC),
            .residual_TC = residual ? moe_tokens(z, q, shared_tC) : tensor_none(),
            .x_NC = moe_rows(z, q, x_NC), .row_TKJ = moe_order(z, q, save),
            .weight_TK = tensor_present(weight_tK) ? moe_tokens(z, q, weight_tK) : tensor_none() });
    if (!z->split) return;
    comm_all_reduce(ctx->tp.comm, queue, y_tC, ctx->scratch);                        /* <-> tp: all-reduce */
    if (tensor_present(shared_tC)) accumulate(queue, (Accumulate){ .y = y_tC, .x = shared_tC });
}

/* y[t] = sum over k of weight experts(n)[t, k]  (+ shared(n)) */
Tensor moe_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *block, Tensor n2_tC,
                   Arena *arena)
{
    MoeSizes z = moe_sizes(ctx, n2_tC.dim[0]);
    MoeSave *save = &block->moe;
    Tensor shared_tC = tensor_none();
    router_forward(ctx, layer, &z, w, save, n2_tC);
    dispatch_sort(ctx, &z, save);                                                             /* <-> etp+ep */
    experts_forward(ctx, &z, w, save, n2_tC);                                                 /* <-> etp+ep */
    if (has_shared(ctx)) shared_tC = shared_forward(ctx, w, block, n2_tC, !arena);           /* <-> tp */
    if (!arena) return tensor_none();
    Tensor y_tC = tensor_new(arena, "experts branch", ctx->precision.activation, z.t, z.C);
    combine(ctx, &z, save, y_tC, save->back_NC, save->weight_tK, shared_tC);                     /* <-> tp */
    return y_tC;
}

/* The saves of experts that modules compute again: order and numbers of copies are kept. */
void moe_recompute(const ExecContext *ctx, const UnitParam *w, BlockSave *block, unsigned modules)
{
    MoeSizes z = moe_sizes(ctx, block->n2_tC.dim[0]);
    if (modules & RECOMPUTE_MOE) experts_forward(ctx, &z, w, &block->moe, block->n2_tC);      /* <-> etp+ep */
    else if (modules & RECOMPUTE_MOE_ACT) experts_activation_forward(ctx, &z, &block->moe);
}

/* dweight[t, k] = dy[t] . x[row of t, k] */
static Tensor weights_gradient(const ExecContext *ctx, const MoeSizes *z, const MoeSave *save, Tensor dy_tC)
{
    Queue *queue = ctx->queue;
    Tensor dweight_tK = tensor_new(ctx->scratch, "router weights gradient", ctx->precision.statistic, z->t,
        z->K);
    if (z->split) fill_zero(queue, (FillZero){ .y = dweight_tK });
    for (int64_t q = 0; q < z->Q; q++)
        expert_combine_backward_weight(queue, (ExpertCombineBackwardWeight){
            .dweight_TK = moe_tokens(z, q, dweight_tK), .dy_TC = moe_tokens(z, q, dy_tC),
            .x_NC = moe_rows(z, q, save->back_NC), .row_TKJ = moe_order(z, q, save) });
    return dweight_tK;
}

/* dweight = dy . back,  d(back) = weight dy,  dn = sum of the copies' gradients + dlogits w (+ dshared) */
Tensor moe_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, const UnitParam *dw,
                          BlockSave *block, Tensor dy_tC)
{
    MoeSizes z = moe_sizes(ctx, dy_tC.dim[0]);
    MoeSave *save = &block->moe;
    Tensor shared_tC = tensor_none();
    if (has_shared(ctx)) shared_tC = shared_backward_input(ctx, w, block, dy_tC);                 /* <-> tp */
    save->dlogits_tE = tensor_new(ctx->wgrad_saved, "router logits gradient", ctx->precision.statistic, z.t,
        z.E);
    Tensor dn_tC = wgrad_saved_new(ctx, "mlp input gradient", z.t, z.C);
    Tensor dweight_tK = weights_gradient(ctx, &z, save, dy_tC);
    Tensor dn_NC = scratch_new(ctx, "copies returned", z.N, z.C);
    experts_backward_input(ctx, &z, w, dw, save, dn_NC, block->n2_tC, dy_tC);                 /* <-> etp+ep */
    combine(ctx, &z, save, dn_tC, dn_NC, tensor_none(), shared_tC);                              /* <-> tp */
    if (z.split) comm_all_reduce(ctx->tp.comm, ctx->queue, dweight_tK, ctx->scratch);     /* <-> tp */
    router_backward_input(ctx, layer, &z, w, save, dn_tC, dweight_tK);                         /* <-> tp+cp */
    return dn_tC;
}

void moe_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *block)
{
    MoeSizes z = moe_sizes(ctx, block->n2_tC.dim[0]);
    if (has_shared(ctx)) mlp_backward_weight(ctx, dw, block);                                     /* <-> tp */
    router_backward_weight(ctx, dw, &block->moe, block->n2_tC);
    experts_backward_weight(ctx, &z, dw, &block->moe);
}

bool moe_defers_weight(const ExecContext *ctx) { return !moe_sizes(ctx, exec_rows(ctx)).chunked; }
