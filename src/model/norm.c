/* The norm in front of a branch: LayerNorm (arXiv 1607.06450) or RMSNorm (arXiv 1910.07467), by
 * ModelConfig.norm. Its backward operations are called by the units themselves, since input and weight
 * gradients are computed apart. */
#include "model/model_internal.h"

/* y = (x - mean) rstd gain + bias;   RMSNorm: y = x rstd gain */
Tensor norm_unit_forward(const ExecContext *ctx, Tensor *mean_t, Tensor *rstd_t, Tensor x_tC, Tensor gain_C,
                         Tensor bias_C)
{
    int64_t t = x_tC.dim[0];
    Arena *arena = save_arena(ctx, RECOMPUTE_LAYERNORM, ctx->activations_wgrad);
    *mean_t = ctx->config->norm == NORM_LAYER
            ? tensor_new(arena, "norm statistics", ctx->precision.statistic, t) : tensor_none();
    *rstd_t = tensor_new(arena, "norm statistics", ctx->precision.statistic, t);
    Tensor y_tC = tensor_new(arena, "norm output", ctx->precision.activation, t, x_tC.dim[1]);
    norm_forward(ctx->queue, (NormForward){ .y_TC = y_tC, .mean_T = *mean_t, .rstd_T = *rstd_t, .x_TC = x_tC,
        .gain_C = gain_C, .bias_C = bias_C, .epsilon = ctx->config->epsilon });
    return y_tC;
}
