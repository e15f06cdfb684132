/* A transformer block of two residual branches, x + branch(x): attention, then the MLP. Norms are in front of
 * the branches, after them, or both (NormPlacement). This file has the norms, dropouts and residual
 * additions; attention.c and mlp.c have what is between a norm and a dropout.
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels
 *  F hidden channels held by this rank
 *
 *  x -- norm1 -- attention -- (norm) -- dropout -+- x2 -- norm2 -- MLP -- (norm) -- dropout -+- y
 *   \___________________________________________/    \______________________________________/
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

/* What the two branches name alike. */
typedef struct { ParamId gain, bias, after_gain, after_bias, weight, end_bias; LinearId linear; } Branch;
static const Branch attention_branch = { PARAM_NORM1_GAIN, PARAM_NORM1_BIAS, PARAM_NORM1_AFTER_GAIN,
    PARAM_NORM1_AFTER_BIAS, PARAM_ATTENTION_OUT_WEIGHT, PARAM_ATTENTION_OUT_BIAS, LINEAR_OUT };
static const Branch mlp_branch = { PARAM_NORM2_GAIN, PARAM_NORM2_BIAS, PARAM_NORM2_AFTER_GAIN,
    PARAM_NORM2_AFTER_BIAS, PARAM_MLP_DOWN_WEIGHT, PARAM_MLP_DOWN_BIAS, LINEAR_DOWN };

/* n = norm(x), or x itself */
static Tensor branch_enter(const ExecContext *ctx, int64_t layer, const UnitParam *w, const Branch *b,
                           Tensor *mean_t, Tensor *rstd_t, Tensor x_tC)
{
    if (!model_norm_before(ctx->config, layer)) return x_tC;
    return norm_unit_forward(ctx, mean_t, rstd_t, x_tC, unit_param(w, b->gain), unit_param(w, b->bias));
}

/* y = residual + drop(norm(after->x)); without y the statistics alone. */
static void branch_norm(const ExecContext *ctx, const UnitParam *w, const Branch *b, NormAfterSave *after,
                        DropoutForward end)
{
    size_t mark = arena_mark(ctx->scratch);
    end.x_TC = norm_after_forward(ctx, after, unit_param(w, b->after_gain), unit_param(w, b->after_bias));
    if (tensor_present(end.y_TC)) dropout_forward(ctx->queue, end);
    arena_reset(ctx->scratch, mark);
}

/* The last map of a branch:  y = end.residual + drop(norm(x wT + bias)), with or without the norm. y may be
 * absent: what backward reads is computed alone. */
static void branch_leave(const ExecContext *ctx, int64_t layer, const UnitParam *w, const Branch *b,
                         BlockSave *save, NormAfterSave *after, Tensor x_TK, DropoutForward end)
{
    Tensor w_CK = unit_param(w, b->weight), bias_C = unit_param(w, b->end_bias), y_tC = end.y_TC;
    if (!model_norm_after(ctx->config, layer)) {
        end.bias_C = bias_C;
        if (tensor_present(y_tC))
            linear_residual_forward(ctx, save, b->linear, x_TK, w_CK, end);             /* <-> tp */
        else
            linear_forward_scales(ctx, save, b->linear, x_TK, w_CK);                    /* <-> tp+cp */
        return;
    }
    after->x_tC = tensor_new(ctx->activations_wgrad, "branch output", ctx->precision.activation,
        end.residual_TC.dim[0], end.residual_TC.dim[1]);
    linear_leave_forward(ctx, save, b->linear, after->x_tC, x_TK, w_CK, bias_C);        /* <-> tp */
    branch_norm(ctx, w, b, after, end);
}

/* x2 = x + drop(attention(norm1(x)) + bias),   y = x2 + drop(mlp(norm2(x2)) + bias)
 * One operation adds bias, dropout and residual, and without tensor parallelism multiplies as well, so that
 * none of the intermediate values is stored; a norm after a branch stores its input. Where only the saves are
 * wanted, since they are recomputed, y is absent and not computed. */
void block_forward(const ExecContext *ctx, int64_t layer, Tensor y_tC, const UnitParam *w, BlockSave *save,
                   Tensor x_tC)
{
    DropoutForward end = { .residual_TC = x_tC,
        .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i),
        .p = exec_dropout(ctx, ctx->config->hidden_dropout),
        .site = (uint64_t)(SITES * layer) + SITE_ATTENTION };

    save->fp8   = linear_scales(ctx, layer);
    save->x_tC  = x_tC;                            /* no copy: the caller keeps x until backward */
    save->n1_tC = branch_enter(ctx, layer, w, &attention_branch, &save->mean1_t, &save->rstd1_t, x_tC);
    attend_forward(ctx, layer, w, save, save->n1_tC);                                   /* <-> tp cp */
    save->x2_tC = tensor_new(ctx->activations_wgrad, "residual", ctx->precision.activation, x_tC.dim[0],
        x_tC.dim[1]);
    end.y_TC = save->x2_tC;
    branch_leave(ctx, layer, w, &attention_branch, save, &save->after1, save->core.out_TO,  /* <-> tp */
        end);

    save->n2_tC = branch_enter(ctx, layer, w, &mlp_branch, &save->mean2_t, &save->rstd2_t, save->x2_tC);
    end.y_TC        = y_tC;
    end.residual_TC = save->x2_tC;
    end.site        = (uint64_t)(SITES * layer) + SITE_MLP;
    if (!model_layer_is_moe(ctx->config, layer)) {
        mlp_hidden_forward(ctx, w, save, save->n2_tC);                                  /* <-> tp */
        branch_leave(ctx, layer, w, &mlp_branch, save, &save->after2, save->g_TF, end); /* <-> tp */
        return;
    }
    ExecContext of = layer_context(ctx, layer);
    bool after = model_norm_after(ctx->config, layer), wanted = tensor_present(y_tC);
    Arena *arena = after ? ctx->activations_wgrad : wanted ? ctx->scratch : NULL;
    Tensor m_tC = moe_forward(&of, layer, w, save, save->n2_tC, arena);                 /* <-> etp+ep tp */
    save->after2.x_tC = end.x_TC = m_tC;
    if (after) branch_norm(ctx, w, &mlp_branch, &save->after2, end);
    else if (wanted) dropout_forward(ctx->queue, end);
}

/* The saves of the modules that are recomputed in backward: the same operations with the same inputs, and
 * with the same dropout keys, so the same bits. */
static void recompute_modules(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save)
{
    ExecContext again = exec_recompute(ctx);
    if (ctx->recompute & RECOMPUTE_LAYERNORM) {
        save->n1_tC = branch_enter(&again, layer, w, &attention_branch, &save->mean1_t, &save->rstd1_t,
            save->x_tC);
        save->n2_tC = branch_enter(&again, layer, w, &mlp_branch, &save->mean2_t, &save->rstd2_t,
            save->x2_tC);
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

/* Of both norms of a branch, those that it has. */
static void norms_backward_weight(Queue *q, const UnitParam *dw, const Branch *b, const NormAfterSave *after,
                                  Tensor dn_tC, Tensor x_tC, Tensor mean_t, Tensor rstd_t)
{
    Tensor dgain_C = unit_param(dw, b->gain), dgain_after_C = unit_param(dw, b->after_gain);
    if (tensor_present(dgain_C))
        norm_backward_weight(q, (NormBackwardWeight){ .dgain_C = dgain_C, .dbias_C = unit_param(dw, b->bias),
            .dy_TC = dn_tC, .x_TC = x_tC, .mean_T = mean_t, .rstd_T = rstd_t });
    if (tensor_present(dgain_after_C))
        norm_backward_weight(q, (NormBackwardWeight){ .dgain_C = dgain_after_C,
            .dbias_C = unit_param(dw, b->after_bias), .dy_TC = after->dy_tC, .x_TC = after->x_tC,
            .mean_T = after->mean_t, .rstd_T = after->rstd_t });
}

static void norms1_backward_weight(Queue *q, const UnitParam *dw, const BlockSave *save)
{
    norms_backward_weight(q, dw, &attention_branch, &save->after1, save->dn1_tC, save->x_tC, save->mean1_t,
        save->rstd1_t);
}

static void norms2_backward_weight(Queue *q, const UnitParam *dw, const BlockSave *save)
{
    norms_backward_weight(q, dw, &mlp_branch, &save->after2, save->dn2_tC, save->x2_tC, save->mean2_t,
        save->rstd2_t);
}

/* The gradient of a branch's output, from that of the residual stream:  dropnorm'(drop(dy)) */
static Tensor leave_backward(const ExecContext *ctx, int64_t layer, const UnitParam *w, const Branch *b,
                             NormAfterSave *after, const char *what, DropoutBackward end)
{
    int64_t t = end.dy_TC.dim[0], C = end.dy_TC.dim[1];
    bool norm = model_norm_after(ctx->config, layer);
    if (norm) {
        after->dy_tC = end.dx_TC = wgrad_saved_new(ctx, "norm output gradient", t, C);
        dropout_backward(ctx->queue, end);
    }
    /* It becomes save->dy2 or save->dya where tensor parallelism gathers nothing. */
    Tensor d_tC = region_gradient_new(ctx, what, t, C);
    if (!norm) {
        end.dx_TC = d_tC;
        dropout_backward(ctx->queue, end);
        return d_tC;
    }
    norm_backward_input(ctx->queue, (NormBackwardInput){ .dx_TC = d_tC, .dy_TC = after->dy_tC,
        .x_TC = after->x_tC, .mean_T = after->mean_t, .rstd_T = after->rstd_t,
        .gain_C = unit_param(w, b->after_gain), .residual_TC = tensor_none(),
        .gain_offset = model_gain_offset(ctx->config) });
    return d_tC;
}

/* dx = residual + norm'(dn), or residual + dn where no norm is in front of the branch */
static void enter_backward(const ExecContext *ctx, int64_t layer, const UnitParam *w, const Branch *b,
                           NormBackwardInput norm)
{
    if (!model_norm_before(ctx->config, layer)) {
        dropout_forward(ctx->queue, (DropoutForward){ .y_TC = norm.dx_TC, .residual_TC = norm.residual_TC,
            .x_TC = norm.dy_TC, .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i) });
        return;
    }
    norm.gain_C      = unit_param(w, b->gain);
    norm.gain_offset = model_gain_offset(ctx->config);
    norm_backward_input(ctx->queue, norm);
}

/* dx2 = dy + dnorm2(dmlp(drop(dy))),   dx = dx2 + dnorm1(dattention(drop(dx2))), with further norms as in
 * forward */
void block_backward_input(const ExecContext *caller, int64_t layer, Tensor dx_tC, const UnitParam *w,
                          const UnitParam *dw, BlockSave *save, Tensor dy_tC)
{
    ExecContext of = layer_context(caller, layer), *ctx = &of;
    Queue *q = ctx->queue;
    DropoutBackward end = { .dy_TC = dy_tC, .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i),
        .p = exec_dropout(ctx, ctx->config->hidden_dropout), .site = (uint64_t)(SITES * layer) + SITE_MLP };

    if (ctx->recompute) recompute_modules(ctx, layer, w, save);                         /* <-> tp cp */
    Tensor dm_tC = leave_backward(ctx, layer, w, &mlp_branch, &save->after2, "mlp output gradient", end);
    save->dn2_tC = model_layer_is_moe(ctx->config, layer)
        ? moe_backward_input(ctx, layer, w, dw, save, dm_tC)                            /* <-> etp+ep tp+cp */
        : mlp_backward_input(ctx, w, save, dm_tC);                                      /* <-> tp */
    Tensor dx2_tC = scratch_new(ctx, "residual gradient", dy_tC.dim[0], dy_tC.dim[1]);
    enter_backward(ctx, layer, w, &mlp_branch, (NormBackwardInput){ .dx_TC = dx2_tC, .dy_TC = save->dn2_tC,
        .x_TC = save->x2_tC, .mean_T = save->mean2_t, .rstd_T = save->rstd2_t, .residual_TC = dy_tC });
    if (ctx->beside) norms2_backward_weight(q, ctx->beside, save);

    end.dy_TC = dx2_tC;
    end.site  = (uint64_t)(SITES * layer) + SITE_ATTENTION;
    Tensor da_tC = leave_backward(ctx, layer, w, &attention_branch, &save->after1,
        "attention output gradient", end);
    save->dn1_tC = attend_backward_input(ctx, layer, w, save, da_tC);                   /* <-> tp cp */
    enter_backward(ctx, layer, w, &attention_branch, (NormBackwardInput){ .dx_TC = dx_tC,
        .dy_TC = save->dn1_tC, .x_TC = save->x_tC, .mean_T = save->mean1_t, .rstd_T = save->rstd1_t,
        .residual_TC = dx2_tC });
    if (ctx->beside) norms1_backward_weight(q, ctx->beside, save);
}

/* The gradients of norm gains and biases belong to the weight gradients, so that a schedule can defer all of
 * them. */
void block_backward_weight(const ExecContext *ctx, int64_t layer, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    if (model_layer_is_moe(ctx->config, layer)) moe_backward_weight(ctx, dw, save);     /* <-> tp */
    else mlp_backward_weight(ctx, dw, save);                                            /* <-> tp */
    norms2_backward_weight(q, dw, save);
    attend_backward_weight(ctx, dw, save);                                              /* <-> tp */
    norms1_backward_weight(q, dw, save);
}
