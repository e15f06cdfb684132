/* The norms in front of a branch and after it: LayerNorm (arXiv 1607.06450) or RMSNorm (arXiv 1910.07467), by
 * ModelConfig.norm. Its backward operations are called by the units themselves, since input and weight
 * gradients are computed apart. */
#include "model/model_internal.h"

/* y = (x - mean) rstd (gain + offset) + bias;   RMSNorm: y = x rstd (gain + offset) */
static void norm_into(const ExecContext *ctx, Arena *arena, Tensor y_tC, Tensor *mean_t, Tensor *rstd_t,
                      Tensor x_tC, Tensor gain_C, Tensor bias_C)
{
    int64_t t = x_tC.dim[0];
    *mean_t = ctx->config->norm == NORM_LAYER
            ? tensor_new(arena, "norm statistics", ctx->precision.statistic, t) : tensor_none();
    *rstd_t = tensor_new(arena, "norm statistics", ctx->precision.statistic, t);
    norm_forward(ctx->queue, (NormForward){ .y_TC = y_tC, .mean_T = *mean_t, .rstd_T = *rstd_t, .x_TC = x_tC,
        .gain_C = gain_C, .bias_C = bias_C, .epsilon = ctx->config->epsilon,
        .gain_offset = model_gain_offset(ctx->config) });
}

Tensor norm_unit_forward(const ExecContext *ctx, Tensor *mean_t, Tensor *rstd_t, Tensor x_tC, Tensor gain_C,
                         Tensor bias_C)
{
    Arena *arena = save_arena(ctx, RECOMPUTE_LAYERNORM, ctx->activations_wgrad);
    Tensor y_tC = tensor_new(arena, "norm output", ctx->precision.activation, x_tC.dim[0], x_tC.dim[1]);
    norm_into(ctx, arena, y_tC, mean_t, rstd_t, x_tC, gain_C, bias_C);
    return y_tC;
}

Tensor norm_after_forward(const ExecContext *ctx, NormAfterSave *save, Tensor gain_C, Tensor bias_C)
{
    Tensor y_tC = scratch_new(ctx, "norm output", save->x_tC.dim[0], save->x_tC.dim[1]);
    norm_into(ctx, ctx->activations_wgrad, y_tC, &save->mean_t, &save->rstd_t, save->x_tC, gain_C, bias_C);
    return y_tC;
}
