/* Attention of a block, between its first norm and its dropout: the query, key and value projections (with
 * latents: latent.c), rotary positions, core attention over the context-parallel ranks
 * (model/attention/core_attention.c), and the output projection. Under tensor parallelism the projection
 * into heads is column-parallel and the output projection row-parallel, as in Megatron-LM (arXiv 1909.08053).
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels
 *  H query heads and G key-value heads held by this rank, of D channels   Q = (H + 2 G) D   O = H D
 *  A linear map calls its input width C and its output width K: for `out` these are O and C.
 *
 *  n -- enter -- qkv -- QK norm -- rope -- core -- out -- leave -- y      lines with <-> communicate with
 * other ranks */
#include "model/model_internal.h"

/* The query, key and value matrices are adjacent in the block, so one matmul computes all three
 * projections. */
static Tensor qkv_weight(const UnitParam *w)
{
    return unit_span(w, PARAM_ATTENTION_QUERY_WEIGHT, PARAM_ATTENTION_VALUE_WEIGHT);
}

static Tensor qkv_bias(const UnitParam *w)
{
    return unit_span(w, PARAM_ATTENTION_QUERY_BIAS, PARAM_ATTENTION_VALUE_BIAS);
}

/* A view [T, H + G, D] of the query and key heads of qkv, which rotary positions rotate; value heads are not
 * rotated. */
static Tensor rotary_heads(const ExecContext *ctx, Tensor qkv_TQ)
{
    int64_t D = ctx->config->head_dim, T = qkv_TQ.dim[0], Q = qkv_TQ.dim[1];
    int64_t G = model_groups_held(ctx->config, comm_size(ctx->tp.comm));
    return tensor_slice(tensor_view(qkv_TQ, T, Q / D, D), 1, 0, Q / D - G);
}

static bool is_latent(const ExecContext *ctx) { return ctx->config->latent.kv_rank > 0; }

/* qkv = rope(norm(n wT + bias)) */
static Tensor qkv_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                          Tensor n_TC)
{
    Tensor w_QC = qkv_weight(w), qkv_TQ = core_qkv_new(ctx, n_TC.dim[0], w_QC.dim[0]);
    linear_forward(ctx, save, LINEAR_QKV, qkv_TQ, n_TC, w_QC, qkv_bias(w));                /* <-> tp+cp */
    qk_norm_forward(ctx, w, save, qkv_TQ);                                    /* <-> tp: - | all-reduce */

    /* RoPE (arXiv 2104.09864) in place: backward needs the rotated queries and keys, not the original
     * ones. */
    RopeRule rule;
    if (model_rope(ctx->config, layer, &rule))
        rope_forward(ctx->queue, (RopeForward){ .x_TnD = rotary_heads(ctx, qkv_TQ),
            .position_i = ctx->batch->position_i, .rule = rule });
    return qkv_TQ;
}

/* o = attention(q, k, v) */
void attend_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                    Tensor n1_tC)
{
    Tensor n_TC = tp_enter_forward(&ctx->tp, n1_tC);                          /* <-> tp: - | all-gather */
    Tensor qkv_TQ = is_latent(ctx) ? latent_forward(ctx, layer, w, save, n_TC)
                                   : qkv_forward(ctx, layer, w, save, n_TC);               /* <-> tp+cp */
    if (ctx->caches) kv_cache_write(ctx, layer, qkv_TQ);
    save->qkv_TQ = core_attention_enter(ctx, qkv_TQ);                    /* <-> cp: - | all-to-all */
    core_attention_forward(ctx, layer, &save->core, save->qkv_TQ);       /* <-> cp */
}

/* rope' and norm' in place: rotated by the opposite angle */
static void qkv_backward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                         Tensor dqkv_TQ)
{
    RopeRule rule;
    if (model_rope(ctx->config, layer, &rule))
        rope_backward(ctx->queue, (RopeBackward){ .dx_TnD = rotary_heads(ctx, dqkv_TQ),
            .position_i = ctx->batch->position_i, .rule = rule });
    qk_norm_backward_input(ctx, w, save, dqkv_TQ);                            /* <-> tp: - | all-reduce */
}

/* do = dy out,  dqkv = norm'(rope'(attention'(do))),  dn = dqkv w
 * dya and dqkv are needed again by attend_backward_weight, dn by the norm's weight gradient: all three are in
 * wgrad_saved. */
Tensor attend_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                             Tensor dy_tC)
{
    save->dya_TC = tp_leave_backward(&ctx->tp, dy_tC, ctx->wgrad_saved);      /* <-> tp: - | all-gather */
    int64_t T = save->dya_TC.dim[0];
    Tensor do_TO = scratch_new(ctx, "attention core gradient", T, save->core.out_TO.dim[1]);
    linear_backward_input(ctx, save, LINEAR_OUT, do_TO, save->dya_TC,                      /* <-> tp+cp */
        unit_param(w, PARAM_ATTENTION_OUT_WEIGHT));                           /* C is O, K is C */

    Tensor dqkv_TQ = activation_gradient_new(ctx, "query key value gradient", 0, T,
        is_latent(ctx) ? latent_columns(ctx) : qkv_weight(w).dim[0]);
    core_attention_backward(ctx, layer, dqkv_TQ, &save->core, save->qkv_TQ, do_TO);        /* <-> cp */
    if (is_latent(ctx)) latent_backward_input(ctx, layer, w, save, dqkv_TQ);
    else                qkv_backward(ctx, layer, w, save, dqkv_TQ);                        /* <-> tp */

    save->dqkv_TQ = activation_gradient_keep(ctx, 0, save->qkv_TQ, dqkv_TQ);
    Tensor dn_TC = region_gradient_new(ctx, "attention input gradient", T, save->dya_TC.dim[1]);
    if (is_latent(ctx))
        matmul_backward_input(ctx->queue, (MatmulBackwardInput){ .dx_TC = dn_TC, .dy_TK = save->ddown_TP,
            .w_KC = latent_down_weight(w) });
    else linear_backward_input(ctx, save, LINEAR_QKV, dn_TC, save->dqkv_TQ, qkv_weight(w)); /* <-> tp+cp */
    if (!ctx->beside)
        return tp_enter_backward(&ctx->tp, dn_TC, ctx->wgrad_saved); /* <-> tp: all-reduce | reduce-scatter */
    Pending pending;
    Tensor dn_tC = tp_enter_backward_begin(&ctx->tp, dn_TC, ctx->wgrad_saved, &pending);       /* <-> tp */
    attend_backward_weight(ctx, ctx->beside, save);                                       /* <-> tp */
    comm_wait(ctx->tp.comm, pending);                                         /* <-> tp */
    return dn_tC;
}

/* dout += dyT o,  dw += dqkvT n,  biases += column sums
 * The bias of `out` is replicated over tp: under sequence parallelism each rank adds its own rows, and the
 * ranks' sums are added once per step (parallel/buckets.c). n is gathered again instead of saved, which saves
 * T - t rows per block. */
void attend_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    Tensor db_C = unit_param(dw, PARAM_ATTENTION_OUT_BIAS), db_Q = qkv_bias(dw);
    linear_backward_weight(ctx, save, LINEAR_OUT, unit_param(dw, PARAM_ATTENTION_OUT_WEIGHT),
        save->dya_TC, save->core.out_TO);                                     /* C is O, K is C */
    if (tensor_present(db_C))
        bias_backward(q, (BiasBackward){ .db_K = db_C, .dy_TK = tp_rows(&ctx->tp, save->dya_TC) });
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n1_tC);                    /* <-> tp: - | all-gather */
    if (is_latent(ctx)) { latent_backward_weight(ctx, dw, save, n_TC); return; }
    linear_backward_weight(ctx, save, LINEAR_QKV, qkv_weight(dw), save->dqkv_TQ, n_TC);
    if (tensor_present(db_Q)) bias_backward(q, (BiasBackward){ .db_K = db_Q, .dy_TK = save->dqkv_TQ });
    qk_norm_backward_weight(ctx, dw, save);
}
