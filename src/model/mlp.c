/* The MLP of a block, between its second norm and its dropout: GELU or another activation between two
 * matrices, or SwiGLU (arXiv 2002.05202) with a gate. `up` is column-parallel and `down` row-parallel
 * (Megatron-LM, arXiv 1909.08053), so the activation between them needs no communication.
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels
 *  F hidden channels held by this rank
 *  W rows of the first matrix held by this rank: 2 F where a gate is stored with up, else F
 *  A linear map calls its input width C and its output width K: for `down` these are F and C, for `up` C and
 *  W.
 *
 *  n -- enter -- up -- act -- down -- leave -- y              lines with <-> communicate with other ranks */
#include "model/model_internal.h"

/* Gate and up are adjacent in the block, so one matmul computes both; without a gate these are up alone. */
static Tensor up_weight(const UnitParam *w)
{
    return unit_span(w, PARAM_MLP_GATE_WEIGHT, PARAM_MLP_UP_WEIGHT);
}
static Tensor up_bias  (const UnitParam *w) { return unit_span(w, PARAM_MLP_GATE_BIAS, PARAM_MLP_UP_BIAS); }

static Tensor activation_output(const ExecContext *ctx, const UnitParam *w, const BlockSave *save)
{
    Arena *arena = save_arena(ctx, RECOMPUTE_MLP | RECOMPUTE_MLP_ACT, ctx->activations_wgrad);
    return tensor_new(arena, "mlp activation", ctx->precision.activation, save->h_TW.dim[0],
        unit_param(w, PARAM_MLP_DOWN_WEIGHT).dim[1]);
}

/* g = act(h + bias): the operation adds the bias of `up` */
void mlp_activation_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save)
{
    save->g_TF = activation_output(ctx, w, save);
    activation_forward(ctx->queue, (ActivationForward){ .y_TF = save->g_TF, .x_TF = save->h_TW,
        .bias_F = up_bias(w), .kind = ctx->config->activation });
}

/* h = n upT,  g = act(h + bias) */
void mlp_hidden_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC)
{
    Tensor up_WC = up_weight(w);
    Tensor n_TC = tp_enter_forward(&ctx->tp, n2_tC);                          /* <-> tp: - | all-gather */
    save->h_TW = tensor_new(save_arena(ctx, RECOMPUTE_MLP, ctx->activations), "mlp hidden",
        ctx->precision.activation, n_TC.dim[0], up_WC.dim[0]);
    save->g_TF = activation_output(ctx, w, save);
    linear_activation_forward(ctx, save, LINEAR_UP, save->g_TF, save->h_TW, n_TC, up_WC,   /* <-> tp+cp */
        up_bias(w));
}

/* dg = dy down,  dh = act'(h + bias) dg,  dn = dh up */
Tensor mlp_backward_input(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    Queue *q = ctx->queue;
    save->dy2_TC = tp_leave_backward(&ctx->tp, dy_tC, ctx->wgrad_saved);      /* <-> tp: - | all-gather */
    int64_t T = save->dy2_TC.dim[0];
    Tensor dh_TW = activation_gradient_new(ctx, "mlp hidden gradient", RECOMPUTE_MLP, save->h_TW.dim[0],
        save->h_TW.dim[1]);
    Tensor dg_TF = dh_TW;                  /* in place, where there is no gate that makes dh twice as wide */
    if (ACT_GATED(ctx->config->activation))
        dg_TF = scratch_new(ctx, "mlp activation gradient", T, save->g_TF.dim[1]);
    linear_backward_input(ctx, save, LINEAR_DOWN, dg_TF, save->dy2_TC,                     /* <-> tp+cp */
        unit_param(w, PARAM_MLP_DOWN_WEIGHT));                                /* C is F, K is C */
    activation_backward(q, (ActivationBackward){ .dx_TF = dh_TW, .dy_TF = dg_TF, .x_TF = save->h_TW,
        .bias_F = up_bias(w), .kind = ctx->config->activation });
    save->dh_TW = activation_gradient_keep(ctx, RECOMPUTE_MLP, save->h_TW, dh_TW);
    Tensor dn_TC = region_gradient_new(ctx, "mlp input gradient", T, save->dy2_TC.dim[1]);
    linear_backward_input(ctx, save, LINEAR_UP, dn_TC, save->dh_TW, up_weight(w));         /* <-> tp+cp */
    if (!ctx->beside)
        return tp_enter_backward(&ctx->tp, dn_TC, ctx->wgrad_saved); /* <-> tp: all-reduce | reduce-scatter */
    Pending pending;
    Tensor dn_tC = tp_enter_backward_begin(&ctx->tp, dn_TC, ctx->wgrad_saved, &pending);       /* <-> tp */
    mlp_backward_weight(ctx, ctx->beside, save);                                       /* <-> tp */
    comm_wait(ctx->tp.comm, pending);                                         /* <-> tp */
    return dn_tC;
}

/* ddown += dyT g,  dup += dhT n,  biases += column sums
 * The bias of `down` is replicated over tp: it takes this rank's rows alone, and the ranks' sums are added
 * once per step. */
void mlp_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    Tensor db_C = unit_param(dw, PARAM_MLP_DOWN_BIAS), db_W = up_bias(dw);
    linear_backward_weight(ctx, save, LINEAR_DOWN, unit_param(dw, PARAM_MLP_DOWN_WEIGHT), save->dy2_TC,
        save->g_TF);                                                          /* C is F, K is C */
    if (tensor_present(db_C))
        bias_backward(q, (BiasBackward){ .db_K = db_C, .dy_TK = tp_rows(&ctx->tp, save->dy2_TC) });
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n2_tC);         /* <-> tp: - | all-gather, as in forward */
    linear_backward_weight(ctx, save, LINEAR_UP, up_weight(dw), save->dh_TW, n_TC);
    if (tensor_present(db_W)) bias_backward(q, (BiasBackward){ .db_K = db_W, .dy_TK = save->dh_TW });
}
