/* Calls the right function for the kind of a unit. A unit number counts the embedding, so unit u is layer u -
 * 1 of the blocks. */
#include "model/unit.h"
#include "model/model_internal.h"

static bool is_moe(const ModelConfig *config, int64_t unit)
{
    return model_unit(config, unit) == UNIT_BLOCK && model_layer_is_moe(config, unit - 1);
}

void unit_forward(const ExecContext *ctx, int64_t unit, Hidden y, const UnitParam *w, UnitSave *save,
                  Hidden x)
{
    switch (model_unit(ctx->config, unit)) {
    case UNIT_EMBED: embed_unit_forward(ctx, y.t[0], w); break;
    case UNIT_BLOCK: block_forward(ctx, unit - 1, y.t[0], w, &save->block, x.t[0]); break;
    case UNIT_HEAD:  head_forward(ctx, w, &save->head, x.t[0]); break;
    }
}

bool unit_defers_weight(const ExecContext *ctx, int64_t unit)
{
    if (model_unit(ctx->config, unit) == UNIT_HEAD) return false;
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
    case UNIT_EMBED: embed_unit_backward_input(ctx, &save->embed, dy.t[0]); break;
    case UNIT_BLOCK:
        block_backward_input(ctx, unit - 1, dx.t[0], w, dw, &save->block, dy.t[0]);
        if (!unit_defers_weight(ctx, unit)) block_backward_weight(ctx, unit - 1, dw, &save->block);
        break;
    case UNIT_HEAD:  head_backward(ctx, dx.t[0], w, dw, &save->head); break;
    }
}

void unit_backward_weight(const ExecContext *ctx, int64_t unit, const UnitParam *dw, UnitSave *save)
{
    switch (model_unit(ctx->config, unit)) {
    case UNIT_EMBED: embed_unit_backward_weight(ctx, dw, &save->embed); break;
    case UNIT_BLOCK: block_backward_weight(ctx, unit - 1, dw, &save->block); break;
    case UNIT_HEAD:  break;                                  /* unit_backward_input has computed them */
    }
}
