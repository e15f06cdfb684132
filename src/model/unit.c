/* Calls the right function for the kind of a unit. A unit number counts the embedding, so unit u is layer u -
 * 1 of the blocks. */
#include "model/unit.h"
#include "model/model_internal.h"

static bool is_moe(const ModelConfig *config, int64_t unit)
{
    return model_unit(config, unit) == UNIT_BLOCK && model_layer_is_moe(config, unit - 1);
}

/* Of a unit of multi-token prediction: 1, 2, ... */
static int64_t depth_of(const ModelConfig *config, int64_t unit) { return unit - model_head(config); }

/* Absent where no unit follows. */
static Tensor only(Hidden x) { return x.n > 0 ? x.t[0] : tensor_none(); }

void unit_forward(const ExecContext *ctx, int64_t unit, Hidden y, const UnitParam *w, UnitSave *save,
                  Hidden x)
{
    switch (model_unit(ctx->config, unit)) {
    case UNIT_EMBED: embed_unit_forward(ctx, 0, y.t[0], w, &save->embed); break;
    case UNIT_BLOCK: block_forward(ctx, unit - 1, y.t[0], w, &save->block, x.t[0]); break;
    case UNIT_HEAD:  head_forward(ctx, only(y), w, &save->head, x.t[0]); break;
    case UNIT_MTP:
        mtp_forward(ctx, depth_of(ctx->config, unit), only(y), w, &save->mtp, x.t[0]);
        break;
    }
}

bool unit_defers_weight(const ExecContext *ctx, int64_t unit)
{
    UnitKind kind = model_unit(ctx->config, unit);
    if (kind == UNIT_HEAD || kind == UNIT_MTP) return false;
    return !is_moe(ctx->config, unit) || moe_defers_weight(ctx);
}

bool unit_weight_beside(const ModelConfig *config, int64_t unit)
{
    return model_unit(config, unit) == UNIT_BLOCK && !is_moe(config, unit);
}

void unit_backward_input(const ExecContext *ctx, int64_t unit, Hidden dx, const UnitParam *w,
                         const UnitParam *dw, UnitSave *save, Hidden dy)
{
    switch (model_unit(ctx->config, unit)) {
    case UNIT_EMBED: embed_unit_backward_input(ctx, 0, &save->embed, dy.t[0]); break;
    case UNIT_BLOCK:
        block_backward_input(ctx, unit - 1, dx.t[0], w, dw, &save->block, dy.t[0]);
        if (!unit_defers_weight(ctx, unit)) block_backward_weight(ctx, unit - 1, dw, &save->block);
        break;
    case UNIT_HEAD:  head_backward(ctx, dx.t[0], w, dw, &save->head, only(dy)); break;
    case UNIT_MTP:
        mtp_backward(ctx, depth_of(ctx->config, unit), dx.t[0], w, dw, &save->mtp, only(dy));
        break;
    }
}

void unit_backward_weight(const ExecContext *ctx, int64_t unit, const UnitParam *dw, UnitSave *save)
{
    switch (model_unit(ctx->config, unit)) {
    case UNIT_EMBED: embed_unit_backward_weight(ctx, 0, dw, &save->embed); break;
    case UNIT_BLOCK: block_backward_weight(ctx, unit - 1, dw, &save->block); break;
    case UNIT_HEAD:
    case UNIT_MTP:   break;                                  /* unit_backward_input has computed them */
    }
}
