/* The embedding unit: the vocabulary-parallel token embedding, its norm, and learned or sinusoidal positions
 * where the model has them, and dropout. Multi-token prediction embeds the tokens ahead in the same way.
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   C channels
 *  V vocabulary rows held by this rank   P positions of the learned position table */
#include "model/model_internal.h"

/* The dropout site of the embedding is the first number after those of all blocks. */
static uint64_t embed_site(const ExecContext *ctx, int64_t depth)
{
    return (uint64_t)(SITES * model_layers(ctx->config) + depth);
}

static Tensor ids_of(const ExecContext *ctx, int64_t depth)
{
    return depth == 0 ? ctx->batch->token_i : batch_ahead(ctx->batch->ahead_token_i, depth);
}

/* Absent where no positions are added. */
static Tensor position_table(const UnitParam *w, int64_t depth)
{
    return depth == 0 ? unit_param(w, PARAM_EMBED_POSITION_WEIGHT) : tensor_none();
}

static int64_t first_held_token(const ExecContext *ctx)
{
    return comm_rank(ctx->tp.comm) * model_vocabulary_held(ctx->config, comm_size(ctx->tp.comm));
}

/* In the rounding of activations, as Gemma's: sqrt(3072) = 55.4256 is 55.5 in bf16. */
static double embedding_factor(const ExecContext *ctx)
{
    double factor = ctx->config->embedding_factor, rounded;
    char in_type[8];
    if (factor == 0) return 1;
    dtype_convert(in_type, ctx->precision.activation, &factor, F64, 1);
    dtype_convert(&rounded, F64, in_type, ctx->precision.activation, 1);
    return rounded;
}

/* y = norm(x) on scratch. What backward reads is saved, with a copy of the gain: so ZeRO 3 need not gather
 * the token embedding again, which the unit also uses. */
static Tensor norm_embedding(const ExecContext *ctx, const UnitParam *w, EmbedSave *save, Tensor x_tC)
{
    Tensor gain_C = unit_param(w, PARAM_EMBED_NORM_GAIN);
    save->norm.x_tC = tensor_new(ctx->activations_wgrad, "embedding before its norm", x_tC.dtype, x_tC.dim[0],
        x_tC.dim[1]);
    save->gain_C = tensor_new(ctx->activations_wgrad, "gain of the embedding's norm", gain_C.dtype,
        gain_C.dim[0]);
    copy_strided(ctx->queue, (CopyStrided){ .y = save->norm.x_tC, .x = x_tC });
    copy_strided(ctx->queue, (CopyStrided){ .y = save->gain_C, .x = gain_C });
    return norm_after_forward(ctx, &save->norm, gain_C, unit_param(w, PARAM_EMBED_NORM_BIAS));
}

/* y = drop(norm(factor word[id]) + position[p]), with or without the norm; position[p] may be sines and
 * cosines A rank writes zero rows for ids it does not hold, so the sum over tp is the row of the whole table.
 */
void embed_unit_forward(const ExecContext *ctx, int64_t depth, Tensor y_tC, const UnitParam *w,
                        EmbedSave *save)
{
    Queue *q = ctx->queue;
    Tensor id_T = ids_of(ctx, depth), position_PC = position_table(w, depth);
    Tensor e_TC = scratch_new(ctx, "embedding", id_T.dim[0], ctx->config->hidden);
    embed_forward(q, (EmbedForward){ .y_TC = e_TC, .id_i = id_T,
        .table_VC = unit_param(w, PARAM_EMBED_TOKEN_WEIGHT), .first = first_held_token(ctx),
        .scale = embedding_factor(ctx) });
    Tensor e_tC = tp_leave_forward(&ctx->tp, e_TC);                  /* <-> tp: all-reduce | reduce-scatter */
    if (ctx->config->embedding_norm) e_tC = norm_embedding(ctx, w, save, e_tC);

    /* Positions are replicated over tp, so they are added after the sum: once, and only to this rank's
     * rows. */
    if (tensor_present(position_PC))
        embed_forward(q, (EmbedForward){ .y_TC = e_tC, .id_i = tp_rows(&ctx->tp, ctx->batch->position_i),
            .table_VC = position_PC, .add = true, .scale = 1 });
    if (ctx->config->position == POSITION_SINUSOIDAL && depth == 0)
        sinusoid_forward(q, (SinusoidForward){ .y_TC = e_tC,
            .position_i = tp_rows(&ctx->tp, ctx->batch->position_i), .first = SINUSOID_FIRST });
    dropout_forward(q, (DropoutForward){ .y_TC = y_tC, .residual_TC = tensor_none(), .x_TC = e_tC,
        .bias_C = tensor_none(), .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i),
        .p = exec_dropout(ctx, ctx->config->hidden_dropout), .site = embed_site(ctx, depth) });
}

/* Ids have no gradient: this saves dy after dropout for the weight gradients and computes nothing else. */
void embed_unit_backward_input(const ExecContext *ctx, int64_t depth, EmbedSave *save, Tensor dy_tC)
{
    save->dy_tC = wgrad_saved_new(ctx, "embedding gradient", dy_tC.dim[0], dy_tC.dim[1]);
    dropout_backward(ctx->queue, (DropoutBackward){ .dx_TC = save->dy_tC, .dy_TC = dy_tC,
        .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i),
        .p = exec_dropout(ctx, ctx->config->hidden_dropout), .site = embed_site(ctx, depth) });
}

/* dgain, dbias += norm'(dy),  dx = norm'(dy) */
static Tensor norm_embedding_backward(const ExecContext *ctx, const UnitParam *dw, const EmbedSave *save)
{
    const NormAfterSave *n = &save->norm;
    Tensor dx_tC = scratch_new(ctx, "gradient before the embedding's norm", save->dy_tC.dim[0],
        save->dy_tC.dim[1]);
    norm_backward_weight(ctx->queue, (NormBackwardWeight){ .dgain_C = unit_param(dw, PARAM_EMBED_NORM_GAIN),
        .dbias_C = unit_param(dw, PARAM_EMBED_NORM_BIAS), .dy_TC = save->dy_tC, .x_TC = n->x_tC,
        .mean_T = n->mean_t, .rstd_T = n->rstd_t });
    norm_backward_input(ctx->queue, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = save->dy_tC,
        .x_TC = n->x_tC, .mean_T = n->mean_t, .rstd_T = n->rstd_t, .gain_C = save->gain_C,
        .gain_offset = model_gain_offset(ctx->config) });
    return dx_tC;
}

/* dposition[p] += dy of this rank's rows,  dword[id] += factor norm'(dy) of all rows, for the ids that this
 * rank holds */
void embed_unit_backward_weight(const ExecContext *ctx, int64_t depth, const UnitParam *dw,
                                const EmbedSave *save)
{
    Queue *q = ctx->queue;
    Tensor dposition_PC = position_table(dw, depth);
    if (tensor_present(dposition_PC))
        embed_backward(q, (EmbedBackward){ .dtable_VC = dposition_PC,
            .id_i = tp_rows(&ctx->tp, ctx->batch->position_i), .dy_TC = save->dy_tC, .scale = 1 });
    Tensor dx_tC = ctx->config->embedding_norm ? norm_embedding_backward(ctx, dw, save) : save->dy_tC;
    Tensor dx_TC = tp_leave_backward(&ctx->tp, dx_tC, ctx->scratch);          /* <-> tp: - | all-gather */
    embed_backward(q, (EmbedBackward){ .dtable_VC = unit_param(dw, PARAM_EMBED_TOKEN_WEIGHT),
        .id_i = ids_of(ctx, depth), .dy_TC = dx_TC, .first = first_held_token(ctx),
        .scale = embedding_factor(ctx) });
}
