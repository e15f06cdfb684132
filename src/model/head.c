/* The head unit: final norm, logits and vocabulary-parallel cross entropy. Each tensor-parallel rank holds
 * the logits of its own columns only; instead of the logits the ranks exchange three numbers per token, as in
 * Megatron-LM (arXiv 1909.08053).
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels   R tp ranks
 *  V vocabulary rows held by this rank
 *
 *  x -- final norm -- enter -- logits -- cross entropy -- loss   lines with <-> communicate */
#include "model/model_internal.h"

/* A tied head multiplies with the token embedding itself. */
static Tensor head_weight(const ExecContext *ctx, const UnitParam *w)
{
    return unit_param(w, ctx->config->tied ? PARAM_EMBED_TOKEN_WEIGHT : PARAM_HEAD_WEIGHT);
}

/* Column c of this rank's logits is token id first + c. Columns from `valid` on are padding, which makes the
 * ranks' shards equally large; they take no part in the softmax. */
typedef struct { int64_t first, valid; } HeadVocabulary;

static HeadVocabulary head_vocabulary(const ExecContext *ctx)
{
    int64_t held = model_vocabulary_held(ctx->config, comm_size(ctx->tp.comm)),
        first = held * comm_rank(ctx->tp.comm);
    int64_t left = ctx->config->vocabulary - first;
    return (HeadVocabulary){ first, left < 0 ? 0 : left < held ? left : held };
}

/* loss = lse(logits) - logits[target]
 * A rank's statistics of a row are its maximum, its sum of exponentials and the target's logit. They are
 * gathered and combined in rank order on every rank, so the loss has the same bits on all of them. */
static void loss_forward(const ExecContext *ctx, HeadSave *save)
{
    Queue *q = ctx->queue;
    HeadVocabulary columns = head_vocabulary(ctx);
    int64_t T = save->logits_TV.dim[0], R = comm_size(ctx->tp.comm);
    Tensor stats_T3  = tensor_new(ctx->scratch, "softmax statistics", ctx->precision.statistic, T, 3);
    Tensor stats_RT3 = tensor_new(ctx->scratch, "softmax statistics", ctx->precision.statistic, R, T, 3);
    Tensor loss_T    = tensor_new(ctx->scratch, "loss", ctx->precision.statistic, T);
    xent_stats(q, (XentStats){ .stats_T3 = stats_T3, .logits_TV = save->logits_TV,
        .target_i = ctx->batch->target_i, .first = columns.first, .valid = columns.valid });
    if (R == 1) stats_RT3 = tensor_view(stats_T3, 1, T, 3);
    comm_all_gather(ctx->tp.comm, q, stats_RT3, stats_T3);                  /* <-> tp: all-gather of [T, 3] */
    save->lse_T = tensor_new(ctx->activations, "softmax lse", ctx->precision.statistic, T);
    xent_forward(q, (XentForward){ .loss_T = loss_T, .lse_T = save->lse_T, .stats_RT3 = stats_RT3 });
    weighted_sum(q, (WeightedSum){ .out_2 = ctx->sums_2, .x_T = loss_T,
        .loss_weight_T = ctx->batch->loss_weight_T });
}

/* logits = norm(x) wT; the loss is added to ctx->sums_2. Generation passes no sums_2 and reads the logits
 * instead. */
void head_forward(const ExecContext *ctx, const UnitParam *w, HeadSave *save, Tensor x_tC)
{
    Queue *q = ctx->queue;
    Tensor w_VC = head_weight(ctx, w);
    save->x_tC = x_tC;
    save->n_tC = norm_unit_forward(ctx, &save->mean_t, &save->rstd_t, x_tC, unit_param(w, PARAM_FINAL_GAIN),
        unit_param(w, PARAM_FINAL_BIAS));
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n_tC);                     /* <-> tp: - | all-gather */
    save->logits_TV = tensor_new(ctx->activations, "logits", ctx->precision.statistic, n_TC.dim[0], w_VC.dim[0]);
    matmul_forward(q, (MatmulForward){ .y_TK = save->logits_TV, .x_TC = n_TC, .w_KC = w_VC,
        .bias_K = tensor_none() });
    if (tensor_present(ctx->sums_2)) loss_forward(ctx, save);                 /* <-> tp */
}

/* dlogits = (softmax - [target]) weight,  dn = dlogits w
 * dlogits overwrite the logits: they are the largest activation, so a second buffer [T, V] is not
 * affordable. */
void head_backward_input(const ExecContext *ctx, Tensor dx_tC, const UnitParam *w, HeadSave *save)
{
    Queue *q = ctx->queue;
    HeadVocabulary columns = head_vocabulary(ctx);
    if (ctx->precision.activation != ctx->precision.statistic)
        save->dlogits_TV = activation_new(ctx, "logits gradient", save->logits_TV.dim[0], save->logits_TV.dim[1]);
    else save->dlogits_TV = save->logits_TV;
    xent_backward(q, (XentBackward){ .dlogits_TV = save->dlogits_TV, .logits_TV = save->logits_TV, .lse_T = save->lse_T,
        .target_i = ctx->batch->target_i, .loss_weight_T = ctx->batch->loss_weight_T,
        .first = columns.first, .valid = columns.valid });
    Tensor dlogits_TV = save->dlogits_TV;
    Tensor dn_TC = wgrad_saved_new(ctx, "head input gradient", dlogits_TV.dim[0], ctx->config->hidden);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = dn_TC, .dy_TK = dlogits_TV,
        .w_KC = head_weight(ctx, w) });
    Region wgrad_saved = region_wgrad_saved(ctx);
    save->dn_tC = tp_enter_backward(&wgrad_saved, dn_TC);            /* <-> tp: all-reduce | reduce-scatter */
    norm_backward_input(q, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = save->dn_tC, .x_TC = save->x_tC,
        .mean_T = save->mean_t, .rstd_T = save->rstd_t, .gain_C = unit_param(w, PARAM_FINAL_GAIN),
        .residual_TC = tensor_none() });
}

/* dw += dlogitsT n */
void head_backward_weight(const ExecContext *ctx, const UnitParam *dw, const HeadSave *save)
{
    Queue *q = ctx->queue;
    Tensor n_TC = tp_enter_forward(&ctx->tp, save->n_tC);          /* <-> tp: - | all-gather, as in forward */
    Tensor dlogits_TV = save->dlogits_TV;
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = head_weight(ctx, dw), .dy_TK = dlogits_TV,
        .x_TC = n_TC });
    norm_backward_weight(q, (NormBackwardWeight){ .dgain_C = unit_param(dw, PARAM_FINAL_GAIN),
        .dbias_C = unit_param(dw, PARAM_FINAL_BIAS), .dy_TC = save->dn_tC, .x_TC = save->x_tC,
        .mean_T = save->mean_t, .rstd_T = save->rstd_t });
}
