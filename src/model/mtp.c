/* Multi-token prediction as in DeepSeek-V3 (arXiv 2412.19437) and Megatron-LM: depth k predicts, beside the
 * head, the token that stands k + 1 places after each position, from the hidden states of depth k - 1 (of the
 * head at k = 1, after the final norm) and the embedding of the token k places ahead. Embedding and output
 * matrix are those of the model. As the head does, a unit has its loss computed in backward, in chunks of
 * tokens; only the hidden states are needed forward.
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels   R tp ranks
 *
 *  embedding of the token ahead -- norm -+
 *                                        +- n [2 C] -- projection -- block -- z -- norm -- y -- logits, loss
 *  x -- norm ----------------------------+                                          |
 *                                                                              next depth
 *
 *  The projection is row-parallel: each rank multiplies its own 2 C / R columns of n. Lines with <->
 *  communicate. */
#include "model/model_internal.h"

/* The norms of both halves of n. */
enum { OF_EMBEDDING, OF_HIDDEN, HALVES };
static const struct { ParamId gain, bias; } norms[HALVES] = {
    [OF_EMBEDDING] = { PARAM_MTP_EMBEDDING_GAIN, PARAM_MTP_EMBEDDING_BIAS },
    [OF_HIDDEN]    = { PARAM_MTP_HIDDEN_GAIN,    PARAM_MTP_HIDDEN_BIAS },
};

static int64_t layer_of(const ExecContext *ctx, int64_t depth) { return ctx->config->layers + depth - 1; }

static Tensor half(Tensor n_tK, int which)
{
    int64_t C = n_tK.dim[1] / 2;
    return tensor_slice(n_tK, 1, which * C, C);
}

static Tensor half_input(const MtpSave *save, int which)
{
    return which == OF_EMBEDDING ? save->e_tC : save->x_tC;
}

/* The columns that this rank multiplies. */
static Tensor own_columns(const ExecContext *ctx, Tensor n_TK)
{
    int64_t columns = n_TK.dim[1] / comm_size(ctx->tp.comm);
    return tensor_slice(n_TK, 1, comm_rank(ctx->tp.comm) * columns, columns);
}

/* n = [ norm(e), norm(x) ] */
static void halves_forward(const ExecContext *ctx, const UnitParam *w, MtpSave *save)
{
    int64_t t = save->x_tC.dim[0], C = save->x_tC.dim[1];
    Dtype statistic = ctx->precision.statistic;
    save->n_tK = activation_new(ctx, "mtp projection input", t, 2 * C);
    for (int i = 0; i < HALVES; i++) {
        save->mean_t[i] = ctx->config->norm == NORM_LAYER
                        ? tensor_new(ctx->activations, "norm statistics", statistic, t) : tensor_none();
        save->rstd_t[i] = tensor_new(ctx->activations, "norm statistics", statistic, t);
        norm_forward(ctx->queue, (NormForward){ .y_TC = half(save->n_tK, i), .mean_T = save->mean_t[i],
            .rstd_T = save->rstd_t[i], .x_TC = half_input(save, i), .gain_C = unit_param(w, norms[i].gain),
            .bias_C = unit_param(w, norms[i].bias), .epsilon = ctx->config->epsilon,
            .gain_offset = model_gain_offset(ctx->config) });
    }
}

/* p = n wT */
static void projection_forward(const ExecContext *ctx, const UnitParam *w, Tensor p_tC, Tensor n_tK)
{
    size_t mark = arena_mark(ctx->scratch);
    Tensor n_TK = tp_enter_forward(&ctx->tp, n_tK);                           /* <-> tp: - | all-gather */
    Tensor y_TC = scratch_new(ctx, "mtp projection", n_TK.dim[0], p_tC.dim[1]);
    matmul_forward(ctx->queue, (MatmulForward){ .y_TK = y_TC, .x_TC = own_columns(ctx, n_TK),
        .w_KC = unit_param(w, PARAM_MTP_PROJECTION), .bias_K = tensor_none() });
    Tensor y_tC = tp_leave_forward(&ctx->tp, y_TC);                  /* <-> tp: all-reduce | reduce-scatter */
    copy_strided(ctx->queue, (CopyStrided){ .y = p_tC, .x = y_tC });
    arena_reset(ctx->scratch, mark);
}

static FinalNorm norm_of(const ExecContext *ctx, const UnitParam *w, const MtpSave *save)
{
    return final_norm_forward(ctx, save->z_tC, unit_param(w, PARAM_MTP_FINAL_GAIN),
                              unit_param(w, PARAM_MTP_FINAL_BIAS));
}

void mtp_forward(const ExecContext *ctx, int64_t depth, Tensor y_tC, const UnitParam *w, MtpSave *save,
                 Tensor x_tC)
{
    int64_t t = x_tC.dim[0], C = x_tC.dim[1];
    save->x_tC = x_tC;                             /* no copy: the caller keeps x until backward */
    save->e_tC = activation_new(ctx, "mtp embedding", t, C);
    size_t mark = arena_mark(ctx->scratch);
    embed_unit_forward(ctx, depth, save->e_tC, w, &save->embed);                        /* <-> tp */
    arena_reset(ctx->scratch, mark);
    halves_forward(ctx, w, save);
    Tensor p_tC = activation_new(ctx, "residual", t, C);
    projection_forward(ctx, w, p_tC, save->n_tK);                                       /* <-> tp */
    save->z_tC = activation_new(ctx, "residual", t, C);
    block_forward(ctx, layer_of(ctx, depth), save->z_tC, w, &save->block, p_tC);        /* <-> tp cp */
    arena_reset(ctx->scratch, mark);
    if (tensor_present(y_tC))
        copy_strided(ctx->queue, (CopyStrided){ .y = y_tC, .x = norm_of(ctx, w, save).n_tC });
}

/* dw += dpT n,   dn = dp w,  of which a rank has its own columns, so that their sum over tp is whole */
static Tensor projection_backward(const ExecContext *ctx, const UnitParam *w, const UnitParam *dw,
                                  Tensor n_tK, Tensor dp_tC)
{
    Queue *q = ctx->queue;
    Tensor dp_TC = tp_leave_backward(&ctx->tp, dp_tC, ctx->scratch);          /* <-> tp: - | all-gather */
    Tensor n_TK  = tp_enter_forward(&ctx->tp, n_tK);                          /* <-> tp: - | all-gather */
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, PARAM_MTP_PROJECTION),
        .dy_TK = dp_TC, .x_TC = own_columns(ctx, n_TK) });
    Tensor dn_TK = scratch_new(ctx, "mtp projection gradient", n_TK.dim[0], n_TK.dim[1]);
    if (comm_size(ctx->tp.comm) > 1) fill_zero(q, (FillZero){ .y = dn_TK });
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = own_columns(ctx, dn_TK), .dy_TK = dp_TC,
        .w_KC = unit_param(w, PARAM_MTP_PROJECTION) });
    return tp_enter_backward(&ctx->tp, dn_TK, ctx->scratch);         /* <-> tp: all-reduce | reduce-scatter */
}

/* de or dx = dnorm of its half of dn */
static void half_backward(const ExecContext *ctx, const UnitParam *w, const UnitParam *dw,
                          const MtpSave *save, int which, Tensor dx_tC, Tensor dn_tK)
{
    Tensor dn_tC = half(dn_tK, which), x_tC = half_input(save, which);
    norm_backward_input(ctx->queue, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = dn_tC, .x_TC = x_tC,
        .mean_T = save->mean_t[which], .rstd_T = save->rstd_t[which],
        .gain_C = unit_param(w, norms[which].gain), .residual_TC = tensor_none(),
        .gain_offset = model_gain_offset(ctx->config) });
    norm_backward_weight(ctx->queue, (NormBackwardWeight){ .dgain_C = unit_param(dw, norms[which].gain),
        .dbias_C = unit_param(dw, norms[which].bias), .dy_TC = dn_tC, .x_TC = x_tC,
        .mean_T = save->mean_t[which], .rstd_T = save->rstd_t[which] });
}

/* The gradient of z: that of the loss, and of the next depth where there is one */
static void loss_backward(const ExecContext *ctx, int64_t depth, Tensor dz_tC, const UnitParam *w,
                          const UnitParam *dw, const MtpSave *save, Tensor dy_tC)
{
    size_t mark = arena_mark(ctx->scratch);
    LossTargets targets = { batch_ahead(ctx->batch->ahead_target_i, depth),
        batch_ahead(ctx->batch->ahead_weight, depth), tensor_flat(ctx->mtp_sums_N2, 2 * (depth - 1), 2) };
    FinalNorm norm = norm_of(ctx, w, save);
    Tensor dn_tC = head_loss_backward(ctx, w, dw, &targets, norm.n_tC);               /* <-> tp */
    if (tensor_present(dy_tC)) accumulate(ctx->queue, (Accumulate){ .y = dn_tC, .x = dy_tC });
    final_norm_backward(ctx, dz_tC, unit_param(dw, PARAM_MTP_FINAL_GAIN),
                        unit_param(dw, PARAM_MTP_FINAL_BIAS), &norm, dn_tC);
    arena_reset(ctx->scratch, mark);
}

void mtp_backward(const ExecContext *ctx, int64_t depth, Tensor dx_tC, const UnitParam *w,
                  const UnitParam *dw, MtpSave *save, Tensor dy_tC)
{
    int64_t t = dx_tC.dim[0], C = dx_tC.dim[1], layer = layer_of(ctx, depth);
    Tensor dz_tC = scratch_new(ctx, "residual gradient", t, C);
    Tensor dp_tC = scratch_new(ctx, "residual gradient", t, C);
    loss_backward(ctx, depth, dz_tC, w, dw, save, dy_tC);                               /* <-> tp */
    size_t mark = arena_mark(ctx->scratch);
    block_backward_input(ctx, layer, dp_tC, w, dw, &save->block, dz_tC);                /* <-> tp cp */
    block_backward_weight(ctx, layer, dw, &save->block);                                /* <-> tp */
    arena_reset(ctx->scratch, mark);
    Tensor dn_tK = projection_backward(ctx, w, dw, save->n_tK, dp_tC);                  /* <-> tp */
    half_backward(ctx, w, dw, save, OF_HIDDEN, dx_tC, dn_tK);
    half_backward(ctx, w, dw, save, OF_EMBEDDING, dz_tC, dn_tK);
    embed_unit_backward_input(ctx, depth, &save->embed, dz_tC);
    embed_unit_backward_weight(ctx, depth, dw, &save->embed);                           /* <-> tp */
}
