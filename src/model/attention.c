#include "model/model_internal.h"
/*  t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels
 *  H query heads and G key-value heads held by this rank, of D channels   K = (H + 2 G) D
 *
 *  n -- enter -- qkv -- rope -- ring -- out -- leave -- y      lines with <-> talk to other ranks  */

static Tensor qkv_weight(const UnitParam *w) { return unit_span(w, "attention.query.weight", "attention.value.weight"); }
static Tensor qkv_bias  (const UnitParam *w) { return unit_span(w, "attention.query.bias", "attention.value.bias"); }

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
    save->qkv = activation_new(ctx, "query key value", T, w_KC.dim[0]);
    matmul_forward(q, (MatmulForward){ .y_TK = save->qkv, .x_TC = n_TC, .w_KC = w_KC, .bias_K = qkv_bias(w) });
    if (ctx->config->position == POSITION_ROPE)
        rope_forward(q, (RopeForward){ .x_TnD = turning_heads(ctx, save->qkv), .position_i = ctx->batch->position_i, .base = ctx->config->rope_base });
    ring_forward(ctx, layer, &save->core, save->qkv);                         /* <-> cp: keys and values go round */
    Tensor y_TC = scratch_new(ctx, "attention output", T, n_TC.dim[1]);
    matmul_forward(q, (MatmulForward){ .y_TK = y_TC, .x_TC = save->core.out, .w_KC = unit_param(w, "attention.out.weight") });
    return tp_leave_forward(&ctx->tp, y_TC);                                  /* <-> tp: all-reduce | reduce-scatter */
}

/* do = dy out,  dqkv = rope'(attention'(do)),  dn = dqkv w */
Tensor attend_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor dy_tC)
{
    Queue *q = ctx->queue;
    save->dya = tp_leave_backward(&ctx->tp, dy_tC, ctx->wgrad_saved);                /* <-> tp: - | all-gather */
    int64_t T = save->dya.dim[0];
    Tensor do_TO = scratch_new(ctx, "attention core gradient", T, save->core.out.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = do_TO, .dy_TK = save->dya, .w_KC = unit_param(w, "attention.out.weight") });
    save->dqkv = wgrad_saved_new(ctx, "query key value gradient", T, save->qkv.dim[1]);
    ring_backward(ctx, layer, save->dqkv, &save->core, save->qkv, do_TO);     /* <-> cp: keys, values and their gradients go round */
    if (ctx->config->position == POSITION_ROPE)
        rope_backward(q, (RopeBackward){ .dx_TnD = turning_heads(ctx, save->dqkv), .position_i = ctx->batch->position_i, .base = ctx->config->rope_base });
    Tensor dn_TC = wgrad_saved_new(ctx, "attention input gradient", T, save->dya.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = dn_TC, .dy_TK = save->dqkv, .w_KC = qkv_weight(w) });
    Region wgrad_saved = region_wgrad_saved(ctx);
    return tp_enter_backward(&wgrad_saved, dn_TC);                                   /* <-> tp: all-reduce | reduce-scatter */
}

/* dout += dyT o,  dw += dqkvT n,  biases += column sums */
void attend_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    Queue *q = ctx->queue;
    Tensor db_C = unit_param(dw, "attention.out.bias"), db_K = qkv_bias(dw);
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, "attention.out.weight"), .dy_TK = save->dya, .x_TC = save->core.out });
    if (tensor_present(db_C)) bias_backward(q, (BiasBackward){ .db_K = db_C, .dy_TK = tp_rows(&ctx->tp, save->dya) });
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n1);                       /* <-> tp: - | all-gather: the shard was kept */
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = qkv_weight(dw), .dy_TK = save->dqkv, .x_TC = n_TC });
    if (tensor_present(db_K)) bias_backward(q, (BiasBackward){ .db_K = db_K, .dy_TK = save->dqkv });
}
