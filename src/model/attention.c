#include "model/model_internal.h"
/*  t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels
 *  H query heads and G key-value heads held by this rank, of D channels   K = (H + 2 G) D   O = H D
 *  To the matmul ops a map's input width is C and its output width K: for `out` these are O and C here.
 *
 *  n -- enter -- qkv -- rope -- ring -- out -- leave -- y      lines with <-> talk to other ranks  */

static Tensor qkv_weight(const UnitParam *w) { return unit_span(w, PARAM_ATTENTION_QUERY_WEIGHT, PARAM_ATTENTION_VALUE_WEIGHT); }
static Tensor qkv_bias  (const UnitParam *w) { return unit_span(w, PARAM_ATTENTION_QUERY_BIAS, PARAM_ATTENTION_VALUE_BIAS); }

/* the query and key heads of qkv: what turns with position */
static Tensor turning_heads(const ExecContext *ctx, Tensor qkv_TK)
{
    int64_t D = ctx->config->head_dim, T = qkv_TK.dim[0], K = qkv_TK.dim[1];
    int64_t G = ctx->config->groups / comm_size(ctx->tp.comm);
    return tensor_slice(tensor_view(qkv_TK, T, K / D, D), 1, 0, K / D - G);
}

/* qkv = rope(n wT + bias),  o = attention(q, k, v),  y = o outT */
Tensor attend_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor n1_tC)
{
    Queue *q = ctx->queue;
    Tensor w_KC = qkv_weight(w);
    Tensor n_TC = tp_enter_forward(&ctx->tp, n1_tC);                          /* <-> tp: - | all-gather */
    int64_t T = n_TC.dim[0];
    save->qkv_TK = activation_new(ctx, "query key value", T, w_KC.dim[0]);
    matmul_forward(q, (MatmulForward){ .y_TK = save->qkv_TK, .x_TC = n_TC, .w_KC = w_KC, .bias_K = qkv_bias(w) });
    if (ctx->config->position == POSITION_ROPE)
        rope_forward(q, (RopeForward){ .x_TnD = turning_heads(ctx, save->qkv_TK), .position_i = ctx->batch->position_i,
            .base = ctx->config->rope_base });                                 /* in place */
    ring_forward(ctx, layer, &save->core, save->qkv_TK);                      /* <-> cp: keys and values go round */
    Tensor y_TC = scratch_new(ctx, "attention output", T, n_TC.dim[1]);
    matmul_forward(q, (MatmulForward){ .y_TK = y_TC, .x_TC = save->core.out_TO,        /* the op's C is O */
        .w_KC = unit_param(w, PARAM_ATTENTION_OUT_WEIGHT) });
    return tp_leave_forward(&ctx->tp, y_TC);                                  /* <-> tp: all-reduce | reduce-scatter */
}

/* do = dy out,  dqkv = rope'(attention'(do)),  dn = dqkv w */
Tensor attend_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    Queue *q = ctx->queue;
    save->dya_TC = tp_leave_backward(&ctx->tp, dy_tC, ctx->wgrad_saved);             /* <-> tp: - | all-gather */
    int64_t T = save->dya_TC.dim[0];
    Tensor do_TO = scratch_new(ctx, "attention core gradient", T, save->core.out_TO.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = do_TO, .dy_TK = save->dya_TC,      /* the op's C is O, its K is C */
        .w_KC = unit_param(w, PARAM_ATTENTION_OUT_WEIGHT) });
    save->dqkv_TK = wgrad_saved_new(ctx, "query key value gradient", T, save->qkv_TK.dim[1]);
    ring_backward(ctx, layer, save->dqkv_TK, &save->core, save->qkv_TK, do_TO);      /* <-> cp: keys, values and their gradients go round */
    if (ctx->config->position == POSITION_ROPE)
        rope_backward(q, (RopeBackward){ .dx_TnD = turning_heads(ctx, save->dqkv_TK), .position_i = ctx->batch->position_i,
            .base = ctx->config->rope_base });                                 /* in place */
    Tensor dn_TC = wgrad_saved_new(ctx, "attention input gradient", T, save->dya_TC.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = dn_TC, .dy_TK = save->dqkv_TK, .w_KC = qkv_weight(w) });
    Region wgrad_saved = region_wgrad_saved(ctx);
    return tp_enter_backward(&wgrad_saved, dn_TC);                                   /* <-> tp: all-reduce | reduce-scatter */
}

/* dout += dyT o,  dw += dqkvT n,  biases += column sums */
void attend_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    Tensor db_C = unit_param(dw, PARAM_ATTENTION_OUT_BIAS), db_K = qkv_bias(dw);
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, PARAM_ATTENTION_OUT_WEIGHT), .dy_TK = save->dya_TC,
        .x_TC = save->core.out_TO });                                         /* the op's C is O, its K is C */
    if (tensor_present(db_C)) bias_backward(q, (BiasBackward){ .db_K = db_C, .dy_TK = tp_rows(&ctx->tp, save->dya_TC) });
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n1_tC);                    /* <-> tp: - | all-gather: the shard was kept */
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = qkv_weight(dw), .dy_TK = save->dqkv_TK, .x_TC = n_TC });
    if (tensor_present(db_K)) bias_backward(q, (BiasBackward){ .db_K = db_K, .dy_TK = save->dqkv_TK });
}
