#include "model/model_internal.h"
/*  t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels   F hidden channels held by this rank
 *  G rows of the first matrix held: F, or 2 F where a gate stands beside up
 *
 *  n -- enter -- up -- act -- down -- leave -- y              lines with <-> talk to other ranks  */

static Tensor up_of(const UnitParam *w, const char *gate, const char *up)      /* gate and up are stored as one matrix */
{
    Tensor both = unit_span(w, gate, up);
    return tensor_present(both) ? both : unit_param(w, up);
}
static Tensor up_weight(const UnitParam *w) { return up_of(w, "mlp.gate.weight", "mlp.up.weight"); }
static Tensor up_bias  (const UnitParam *w) { return up_of(w, "mlp.gate.bias", "mlp.up.bias"); }

/* h = n upT,  g = act(h + bias),  y = g downT */
Tensor mlp_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor n2_tC)
{
    Queue *q = ctx->queue;
    Tensor up_GC = up_weight(w), down_CF = unit_param(w, "mlp.down.weight");
    Tensor n_TC = tp_enter_forward(&ctx->tp, n2_tC);                          /* <-> tp: - | all-gather */
    int64_t T = n_TC.dim[0];
    save->h = activation_new(ctx, "mlp hidden", T, up_GC.dim[0]);
    save->g = activation_new(ctx, "mlp activation", T, down_CF.dim[1]);
    Tensor y_TC = scratch_new(ctx, "mlp output", T, n_TC.dim[1]);
    matmul_forward(q, (MatmulForward){ .y_TK = save->h, .x_TC = n_TC, .w_KC = up_GC });
    activation_forward(q, (ActivationForward){ .y_TF = save->g, .x_TF = save->h, .bias_F = up_bias(w), .kind = ctx->config->activation });
    matmul_forward(q, (MatmulForward){ .y_TK = y_TC, .x_TC = save->g, .w_KC = down_CF });
    return tp_leave_forward(&ctx->tp, y_TC);                                  /* <-> tp: all-reduce | reduce-scatter */
}

/* dg = dy down,  dh = act'(h + bias) dg,  dn = dh up */
Tensor mlp_backward_input(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    Queue *q = ctx->queue;
    save->dy2 = tp_leave_backward(&ctx->tp, dy_tC, ctx->wgrad_saved);                /* <-> tp: - | all-gather */
    int64_t T = save->dy2.dim[0];
    Tensor dg_TF = scratch_new(ctx, "mlp activation gradient", T, save->g.dim[1]);
    save->dh = wgrad_saved_new(ctx, "mlp hidden gradient", T, save->h.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = dg_TF, .dy_TK = save->dy2, .w_KC = unit_param(w, "mlp.down.weight") });
    activation_backward(q, (ActivationBackward){ .dx_TF = save->dh, .dy_TF = dg_TF, .x_TF = save->h, .bias_F = up_bias(w), .kind = ctx->config->activation });
    Tensor dn_TC = wgrad_saved_new(ctx, "mlp input gradient", T, save->dy2.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = dn_TC, .dy_TK = save->dh, .w_KC = up_weight(w) });
    Region wgrad_saved = region_wgrad_saved(ctx);
    return tp_enter_backward(&wgrad_saved, dn_TC);                                   /* <-> tp: all-reduce | reduce-scatter */
}

/* ddown += dyT g,  dup += dhT n,  biases += column sums; replicated ones from this rank's rows alone, summed over tp at the step */
void mlp_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    Tensor db_C = unit_param(dw, "mlp.down.bias"), db_G = up_bias(dw);
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, "mlp.down.weight"), .dy_TK = save->dy2, .x_TC = save->g });
    if (tensor_present(db_C)) bias_backward(q, (BiasBackward){ .db_K = db_C, .dy_TK = tp_rows(&ctx->tp, save->dy2) });
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n2);                       /* <-> tp: - | all-gather: the shard was kept */
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = up_weight(dw), .dy_TK = save->dh, .x_TC = n_TC });
    if (tensor_present(db_G)) bias_backward(q, (BiasBackward){ .db_K = db_G, .dy_TK = save->dh });
}
