/* A transformer block with pre-norm residual branches: x + attention(norm1(x)), then + MLP(norm2(.)). This
 * file has the norms, dropouts and residual additions; attention.c and mlp.c have what is between a norm and
 * a dropout.
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels
 *  F hidden channels held by this rank
 *
 *  x -- norm1 -- attention -- dropout -+- x2 -- norm2 -- MLP -- dropout -+- y
 *   \_________________________________/    \____________________________/
 *
 *  Lines with <-> communicate with other ranks. */
#include "model/model_internal.h"

/* The context of a layer of experts, in which `mlp` is the shared expert. */
static ExecContext layer_context(const ExecContext *ctx, int64_t layer)
{
    ExecContext of = *ctx;
    if (!model_layer_is_moe(ctx->config, layer)) return of;
    of.recompute &= ~(unsigned)RECOMPUTE_MLP;
    if (ctx->recompute & (RECOMPUTE_SHARED_EXPERTS | RECOMPUTE_MOE)) of.recompute |= RECOMPUTE_MLP;
    return of;
}

/* x2 = x + drop(attention(norm1(x)) + bias),   y = x2 + drop(mlp(norm2(x2)) + bias)
 * One operation adds bias, dropout and residual, and without tensor parallelism multiplies as well, so that
 * none of the intermediate values is stored. Where only the saves are wanted, since they are recomputed, y is
 * absent and not computed. */
void block_forward(const ExecContext *ctx, int64_t layer, Tensor y_tC, const UnitParam *w, BlockSave *save,
                   Tensor x_tC)
{
    double p = exec_dropout(ctx, ctx->config->hidden_dropout);
    Tensor index_t = tp_rows(&ctx->tp, ctx->batch->dropout_index_i);
    uint64_t site = (uint64_t)(SITES * layer);

    save->fp8   = linear_scales(ctx, layer);
    save->x_tC  = x_tC;                            /* no copy: the caller keeps x until backward */
    save->n1_tC = norm_unit_forward(ctx, &save->mean1_t, &save->rstd1_t, x_tC,
        unit_param(w, PARAM_NORM1_GAIN), unit_param(w, PARAM_NORM1_BIAS));
    attend_forward(ctx, layer, w, save, save->n1_tC);                                   /* <-> tp cp */
    save->x2_tC = tensor_new(ctx->activations_wgrad, "residual", ctx->precision.activation, x_tC.dim[0],
        x_tC.dim[1]);
    linear_residual_forward(ctx, save, LINEAR_OUT, save->core.out_TO,                   /* <-> tp */
        unit_param(w, PARAM_ATTENTION_OUT_WEIGHT), (DropoutForward){ .y_TC = save->x2_tC,
        .residual_TC = x_tC, .bias_C = unit_param(w, PARAM_ATTENTION_OUT_BIAS), .dropout_index_i = index_t,
        .p = p, .site = site + SITE_ATTENTION });

    save->n2_tC = norm_unit_forward(ctx, &save->mean2_t, &save->rstd2_t, save->x2_tC,
        unit_param(w, PARAM_NORM2_GAIN), unit_param(w, PARAM_NORM2_BIAS));
    if (model_layer_is_moe(ctx->config, layer)) {
        ExecContext of = layer_context(ctx, layer);
        /* <-> etp+ep tp */
        Tensor m_tC = moe_forward(&of, layer, w, save, save->n2_tC, !tensor_present(y_tC));
        if (tensor_present(y_tC))
            dropout_forward(ctx->queue, (DropoutForward){ .y_TC = y_tC, .residual_TC = save->x2_tC,
                .x_TC = m_tC, .dropout_index_i = index_t, .p = p, .site = site + SITE_MLP });
        return;
    }
    mlp_hidden_forward(ctx, w, save, save->n2_tC);                                      /* <-> tp */
    if (!tensor_present(y_tC)) {
        linear_forward_scales(ctx, save, LINEAR_DOWN, save->g_TF,                       /* <-> tp+cp */
                              unit_param(w, PARAM_MLP_DOWN_WEIGHT));
        return;
    }
    linear_residual_forward(ctx, save, LINEAR_DOWN, save->g_TF,                         /* <-> tp */
        unit_param(w, PARAM_MLP_DOWN_WEIGHT), (DropoutForward){ .y_TC = y_tC, .residual_TC = save->x2_tC,
        .bias_C = unit_param(w, PARAM_MLP_DOWN_BIAS), .dropout_index_i = index_t, .p = p,
        .site = site + SITE_MLP });
}

/* The saves of the modules that are recomputed in backward: the same operations with the same inputs, and
 * with the same dropout keys, so the same bits. */
static void recompute_modules(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save)
{
    ExecContext again = exec_recompute(ctx);
    if (ctx->recompute & RECOMPUTE_LAYERNORM) {
        save->n1_tC = norm_unit_forward(&again, &save->mean1_t, &save->rstd1_t, save->x_tC,
            unit_param(w, PARAM_NORM1_GAIN), unit_param(w, PARAM_NORM1_BIAS));
        save->n2_tC = norm_unit_forward(&again, &save->mean2_t, &save->rstd2_t, save->x2_tC,
            unit_param(w, PARAM_NORM2_GAIN), unit_param(w, PARAM_NORM2_BIAS));
    }
    if (model_layer_is_moe(ctx->config, layer))
        moe_recompute(&again, w, save, ctx->recompute);                                 /* <-> etp+ep */
    if (model_layer_ffn(ctx->config, layer) == 0) ;                /* experts alone */
    else if (ctx->recompute & RECOMPUTE_MLP)
        mlp_hidden_forward(&again, w, save, save->n2_tC);                               /* <-> tp */
    else if (ctx->recompute & RECOMPUTE_MLP_ACT)
        mlp_activation_forward(&again, w, save);
    if (ctx->recompute & RECOMPUTE_CORE_ATTN)
        core_attention_forward(&again, layer, &save->core, save->qkv_TQ);               /* <-> cp */
}

static void norm1_backward_weight(Queue *q, const UnitParam *dw, const BlockSave *save)
{
    norm_backward_weight(q, (NormBackwardWeight){ .dgain_C = unit_param(dw, PARAM_NORM1_GAIN),
        .dbias_C = unit_param(dw, PARAM_NORM1_BIAS), .dy_TC = save->dn1_tC, .x_TC = save->x_tC,
        .mean_T = save->mean1_t, .rstd_T = save->rstd1_t });
}

static void norm2_backward_weight(Queue *q, const UnitParam *dw, const BlockSave *save)
{
    norm_backward_weight(q, (NormBackwardWeight){ .dgain_C = unit_param(dw, PARAM_NORM2_GAIN),
        .dbias_C = unit_param(dw, PARAM_NORM2_BIAS), .dy_TC = save->dn2_tC, .x_TC = save->x2_tC,
        .mean_T = save->mean2_t, .rstd_T = save->rstd2_t });
}

/* dx2 = dy + dnorm2(dmlp(drop(dy))),   dx = dx2 + dnorm1(dattention(drop(dx2)))
 * norm_backward_input adds the gradient of the residual branch (.residual_TC) to its own result. */
void block_backward_input(const ExecContext *caller, int64_t layer, Tensor dx_tC, const UnitParam *w,
                          const UnitParam *dw, BlockSave *save, Tensor dy_tC)
{
    ExecContext of = layer_context(caller, layer), *ctx = &of;
    Queue *q = ctx->queue;
    double p = exec_dropout(ctx, ctx->config->hidden_dropout);
    Tensor index_t = tp_rows(&ctx->tp, ctx->batch->dropout_index_i);
    uint64_t site = (uint64_t)(SITES * layer);
    int64_t t = dy_tC.dim[0], C = dy_tC.dim[1];

    if (ctx->recompute) recompute_modules(ctx, layer, w, save);                         /* <-> tp cp */
    /* dm and da become save->dy2 and save->dya where tensor parallelism gathers nothing. */
    Tensor dm_tC = region_gradient_new(ctx, "mlp output gradient", t, C);
    dropout_backward(q, (DropoutBackward){ .dx_TC = dm_tC, .dy_TC = dy_tC, .dropout_index_i = index_t, .p = p,
        .site = site + SITE_MLP });
    save->dn2_tC = model_layer_is_moe(ctx->config, layer)
        ? moe_backward_input(ctx, layer, w, dw, save, dm_tC)                            /* <-> etp+ep tp+cp */
        : mlp_backward_input(ctx, w, save, dm_tC);                                      /* <-> tp */
    Tensor dx2_tC = scratch_new(ctx, "residual gradient", t, C);
    norm_backward_input(q, (NormBackwardInput){ .dx_TC = dx2_tC, .dy_TC = save->dn2_tC, .x_TC = save->x2_tC,
        .mean_T = save->mean2_t, .rstd_T = save->rstd2_t, .gain_C = unit_param(w, PARAM_NORM2_GAIN),
        .residual_TC = dy_tC });
    if (ctx->beside) norm2_backward_weight(q, ctx->beside, save);

    Tensor da_tC = region_gradient_new(ctx, "attention output gradient", t, C);
    dropout_backward(q, (DropoutBackward){ .dx_TC = da_tC, .dy_TC = dx2_tC, .dropout_index_i = index_t,
        .p = p, .site = site + SITE_ATTENTION });
    save->dn1_tC = attend_backward_input(ctx, layer, w, save, da_tC);                   /* <-> tp cp */
    norm_backward_input(q, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = save->dn1_tC, .x_TC = save->x_tC,
        .mean_T = save->mean1_t, .rstd_T = save->rstd1_t, .gain_C = unit_param(w, PARAM_NORM1_GAIN),
        .residual_TC = dx2_tC });
    if (ctx->beside) norm1_backward_weight(q, ctx->beside, save);
}

/* The gradients of norm gains and biases belong to the weight gradients, so that a schedule can defer all of
 * them. */
void block_backward_weight(const ExecContext *ctx, int64_t layer, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    if (model_layer_is_moe(ctx->config, layer)) moe_backward_weight(ctx, dw, save);     /* <-> tp */
    else mlp_backward_weight(ctx, dw, save);                                            /* <-> tp */
    norm2_backward_weight(q, dw, save);
    attend_backward_weight(ctx, dw, save);                                              /* <-> tp */
    norm1_backward_weight(q, dw, save);
}
