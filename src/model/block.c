#include "model/model_internal.h"
/*  t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels   F hidden channels held by this rank
 *
 *  x -- norm1 -- attention -- dropout -+- x2 -- norm2 -- MLP -- dropout -+- y
 *   \_________________________________/    \____________________________/          lines with <-> talk to other ranks   */

/* x2 = x + drop(attention(norm1(x)) + bias),   y = x2 + drop(mlp(norm2(x2)) + bias) */
void block_forward(const ExecContext *ctx, int64_t layer, Tensor y_tC, const UnitParam *w, BlockSave *save, Tensor x_tC)
{
    Queue *q = ctx->queue;
    double p = exec_dropout(ctx, ctx->config->hidden_dropout);
    Tensor place_t = tp_rows(&ctx->tp, ctx->batch->dropout_index_i);
    uint64_t site = (uint64_t)(SITES * layer);

    save->x  = x_tC;
    save->n1 = norm_unit_forward(ctx, w, "norm1", &save->mean1, &save->rstd1, x_tC);
    Tensor a_tC = attend_forward(ctx, layer, w, save, save->n1);                              /* <-> tp cp */
    save->x2 = activation_new(ctx, "residual", x_tC.dim[0], x_tC.dim[1]);
    dropout_forward(q, (DropoutForward){ .y_TC = save->x2, .residual_TC = x_tC, .x_TC = a_tC,
        .bias_C = unit_param(w, "attention.out.bias"), .dropout_index_i = place_t, .p = p, .site = site + SITE_ATTENTION });

    save->n2 = norm_unit_forward(ctx, w, "norm2", &save->mean2, &save->rstd2, save->x2);
    Tensor m_tC = mlp_forward(ctx, w, save, save->n2);                                        /* <-> tp */
    dropout_forward(q, (DropoutForward){ .y_TC = y_tC, .residual_TC = save->x2, .x_TC = m_tC,
        .bias_C = unit_param(w, "mlp.down.bias"), .dropout_index_i = place_t, .p = p, .site = site + SITE_MLP });
}

/* dx2 = dy + dnorm2(dmlp(drop(dy))),   dx = dx2 + dnorm1(dattention(drop(dx2))) */
void block_backward_input(const ExecContext *ctx, int64_t layer, Tensor dx_tC, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    Queue *q = ctx->queue;
    double p = exec_dropout(ctx, ctx->config->hidden_dropout);
    Tensor place_t = tp_rows(&ctx->tp, ctx->batch->dropout_index_i);
    uint64_t site = (uint64_t)(SITES * layer);
    int64_t t = dy_tC.dim[0], C = dy_tC.dim[1];

    Tensor dm_tC = wgrad_saved_new(ctx, "mlp output gradient", t, C);
    dropout_backward(q, (DropoutBackward){ .dx_TC = dm_tC, .dy_TC = dy_tC, .dropout_index_i = place_t, .p = p, .site = site + SITE_MLP });
    save->dn2 = mlp_backward_input(ctx, w, save, dm_tC);                                      /* <-> tp */
    Tensor dx2_tC = scratch_new(ctx, "residual gradient", t, C);
    norm_backward_input(q, (NormBackwardInput){ .dx_TC = dx2_tC, .dy_TC = save->dn2, .x_TC = save->x2, .mean_T = save->mean2,
        .rstd_T = save->rstd2, .gain_C = unit_param(w, "norm2.gain"), .residual_TC = dy_tC });

    Tensor da_tC = wgrad_saved_new(ctx, "attention output gradient", t, C);
    dropout_backward(q, (DropoutBackward){ .dx_TC = da_tC, .dy_TC = dx2_tC, .dropout_index_i = place_t, .p = p, .site = site + SITE_ATTENTION });
    save->dn1 = attend_backward_input(ctx, layer, w, save, da_tC);                            /* <-> tp cp */
    norm_backward_input(q, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = save->dn1, .x_TC = save->x, .mean_T = save->mean1,
        .rstd_T = save->rstd1, .gain_C = unit_param(w, "norm1.gain"), .residual_TC = dx2_tC });
}

void block_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    mlp_backward_weight(ctx, dw, save);                                                       /* <-> tp */
    norm_unit_backward_weight(ctx, dw, "norm2", save->dn2, save->x2, save->mean2, save->rstd2);
    attend_backward_weight(ctx, dw, save);                                                    /* <-> tp */
    norm_unit_backward_weight(ctx, dw, "norm1", save->dn1, save->x, save->mean1, save->rstd1);
}
