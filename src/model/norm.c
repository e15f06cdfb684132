#include <stdio.h>
#include "model/model_internal.h"

static Tensor norm_param(const UnitParam *w, const char *name, const char *what)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "%s.%s", name, what);
    return unit_param(w, suffix);
}

/* y = (x - mean) rstd gain + bias;   RMSNorm: y = x rstd gain */
Tensor norm_unit_forward(const ExecContext *ctx, const UnitParam *w, const char *name, Tensor *mean, Tensor *rstd, Tensor x_tC)
{
    int64_t t = x_tC.dim[0];
    *mean = ctx->config->norm == NORM_LAYER ? tensor_new(ctx->activations, "norm statistics", ctx->queue->real, t) : tensor_none();
    *rstd = tensor_new(ctx->activations, "norm statistics", ctx->queue->real, t);
    Tensor y_tC = activation_new(ctx, "norm output", t, x_tC.dim[1]);
    norm_forward(ctx->queue, (NormForward){ .y_TC = y_tC, .mean_T = *mean, .rstd_T = *rstd, .x_TC = x_tC,
        .gain_C = norm_param(w, name, "gain"), .bias_C = norm_param(w, name, "bias"), .epsilon = ctx->config->epsilon });
    return y_tC;
}

void norm_unit_backward_weight(const ExecContext *ctx, const UnitParam *dw, const char *name, Tensor dn_tC, Tensor x_tC, Tensor mean, Tensor rstd)
{
    norm_backward_weight(ctx->queue, (NormBackwardWeight){ .dgain_C = norm_param(dw, name, "gain"),
        .dbias_C = norm_param(dw, name, "bias"), .dy_TC = dn_tC, .x_TC = x_tC, .mean_T = mean, .rstd_T = rstd });
}
