/* QK norm: RMSNorm of queries and keys between their projection and RoPE. Each head by itself, or all heads
 * of a token together, whose squares tensor-parallel ranks then add up.
 *
 *  T tokens   H query and G key-value heads held by this rank, of D channels   n: H or G
 *  M statistics of a token: n or 1   N gains of a channel: 1 or n
 *
 * Forward saves queries and keys as they were projected, since backward could not get them from the rotated
 * ones where a gain is 0. The statistic of all heads is the sum over the ranks, of n D tp channels: where
 * ranks hold copies of a key-value head, sum and channels count it as often as it is held. Backward a rank
 * has the gradient of a copy that comes from its own queries, and its part of the sum, so the parts of dx
 * add up as well. */
#include "model/model_internal.h"

enum { KINDS = 2 };                              /* queries, keys */
static const ParamId gains[KINDS][KINDS] = {     /* of each head, of all */
    { PARAM_ATTENTION_QUERY_GAIN, PARAM_ATTENTION_KEY_GAIN },
    { PARAM_ATTENTION_QUERY_GAINS, PARAM_ATTENTION_KEY_GAINS } };

static bool    of_all(const ExecContext *ctx) { return ctx->config->qk_norm == QK_NORM_ALL; }
static int64_t heads_held(const ExecContext *ctx, int kind)
{
    int tp = comm_size(ctx->tp.comm);
    return kind == 0 ? ctx->config->heads / tp : model_groups_held(ctx->config, tp);
}

/* [T, n, D] of rows that begin with H query and G key heads */
static Tensor heads_of(const ExecContext *ctx, Tensor x_TQ, int kind)
{
    int64_t D = ctx->config->head_dim, H = heads_held(ctx, 0);
    Tensor x_TnD = tensor_view(x_TQ, x_TQ.dim[0], x_TQ.dim[1] / D, D);
    return tensor_slice(x_TnD, 1, kind * H, heads_held(ctx, kind));
}

static Tensor gain_of(const ExecContext *ctx, const UnitParam *w, int kind)
{
    int64_t D = ctx->config->head_dim;
    Tensor gain = unit_param(w, gains[of_all(ctx)][kind]);
    return tensor_view(gain, gain.dim[0] / D, D);
}

/* What a statistic is divided by: the channels that it is the sum of. */
static double channels_of(const ExecContext *ctx, int kind)
{
    int64_t heads = of_all(ctx) ? heads_held(ctx, kind) * comm_size(ctx->tp.comm) : 1;
    return (double)(heads * ctx->config->head_dim);
}

/* The statistics of queries and keys, which one message adds up. */
typedef struct { Tensor all, of_TM[KINDS]; } Sums;

static Sums sums_new(const ExecContext *ctx, int64_t T)
{
    int64_t M[KINDS], at = 0;
    for (int kind = 0; kind < KINDS; kind++) M[kind] = of_all(ctx) ? 1 : heads_held(ctx, kind);
    Sums sums = { .all = tensor_new(ctx->scratch, "query key norm sums", ctx->precision.statistic,
                                    T * (M[0] + M[1])) };
    for (int kind = 0; kind < KINDS; at += T * M[kind], kind++)
        sums.of_TM[kind] = tensor_view(tensor_flat(sums.all, at, T * M[kind]), T, M[kind]);
    return sums;
}

static void sums_join(const ExecContext *ctx, Sums *sums)
{
    if (of_all(ctx) && comm_size(ctx->tp.comm) > 1)
        comm_all_reduce(ctx->tp.comm, ctx->queue, sums->all, ctx->tp.scratch);        /* <-> tp: all-reduce */
}

/* y = x / root mean square(x) * gain */
void qk_norm_forward(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor qkv_TQ)
{
    Queue *q = ctx->queue;
    int64_t T = qkv_TQ.dim[0], R = (heads_held(ctx, 0) + heads_held(ctx, 1)) * ctx->config->head_dim;
    if (ctx->config->qk_norm == QK_NORM_NONE) return;
    save->qk_TR = activation_new(ctx, "query key before norm", T, R);
    copy_strided(q, (CopyStrided){ .y = save->qk_TR, .x = tensor_slice(qkv_TQ, 1, 0, R) });
    Sums sums = sums_new(ctx, T);
    for (int kind = 0; kind < KINDS; kind++)
        head_norm_sums(q, (HeadNormSums){ .sum_TM = sums.of_TM[kind],
            .x_TnD = heads_of(ctx, save->qk_TR, kind) });
    sums_join(ctx, &sums);                                                    /* <-> tp: - | all-reduce */
    for (int kind = 0; kind < KINDS; kind++) {
        save->qk_rstd_TM[kind] = tensor_new(ctx->activations, "query key norm statistics",
            ctx->precision.statistic, T, sums.of_TM[kind].dim[1]);
        head_norm_forward(q, (HeadNormForward){ .y_TnD = heads_of(ctx, qkv_TQ, kind),
            .rstd_TM = save->qk_rstd_TM[kind], .x_TnD = heads_of(ctx, save->qk_TR, kind),
            .gain_ND = gain_of(ctx, w, kind), .sum_TM = sums.of_TM[kind], .channels = channels_of(ctx, kind),
            .epsilon = ctx->config->epsilon, .gain_offset = model_gain_offset(ctx->config) });
    }
}

/* With g = dy gain, h = x rstd:   dx = rstd (g - h mean of (g h)),   dgain = sum of dy h, added by
 * qk_norm_backward_weight: dy is overwritten here. */
void qk_norm_backward_input(const ExecContext *ctx, const UnitParam *w, BlockSave *save, Tensor dqkv_TQ)
{
    Queue *q = ctx->queue;
    if (ctx->config->qk_norm == QK_NORM_NONE) return;
    Sums sums = sums_new(ctx, dqkv_TQ.dim[0]);
    for (int kind = 0; kind < KINDS; kind++) {
        Tensor dy_TnD = heads_of(ctx, dqkv_TQ, kind), x_TnD = heads_of(ctx, save->qk_TR, kind);
        Tensor rstd_TM = save->qk_rstd_TM[kind], gain_ND = gain_of(ctx, w, kind);
        save->dqk_gain_ND[kind] = tensor_new(ctx->wgrad_saved, "query key norm gain gradient",
            ctx->precision.statistic, gain_ND.dim[0], gain_ND.dim[1]);
        fill_zero(q, (FillZero){ .y = save->dqk_gain_ND[kind] });
        head_norm_backward_weight(q, (HeadNormBackwardWeight){ .dgain_ND = save->dqk_gain_ND[kind],
            .dy_TnD = dy_TnD, .x_TnD = x_TnD, .rstd_TM = rstd_TM });
        head_norm_backward_sums(q, (HeadNormBackwardSums){ .sum_TM = sums.of_TM[kind], .dy_TnD = dy_TnD,
            .x_TnD = x_TnD, .rstd_TM = rstd_TM, .gain_ND = gain_ND,
            .gain_offset = model_gain_offset(ctx->config) });
    }
    sums_join(ctx, &sums);                                                    /* <-> tp: - | all-reduce */
    for (int kind = 0; kind < KINDS; kind++) {
        Tensor dy_TnD = heads_of(ctx, dqkv_TQ, kind);
        head_norm_backward_input(q, (HeadNormBackwardInput){ .dx_TnD = dy_TnD, .dy_TnD = dy_TnD,
            .x_TnD = heads_of(ctx, save->qk_TR, kind), .rstd_TM = save->qk_rstd_TM[kind],
            .gain_ND = gain_of(ctx, w, kind), .sum_TM = sums.of_TM[kind],
            .channels = channels_of(ctx, kind), .gain_offset = model_gain_offset(ctx->config) });
    }
}

void qk_norm_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save)
{
    for (int kind = 0; kind < KINDS && ctx->config->qk_norm != QK_NORM_NONE; kind++)
        accumulate(ctx->queue, (Accumulate){ .y = gain_of(ctx, dw, kind), .x = save->dqk_gain_ND[kind] });
}
