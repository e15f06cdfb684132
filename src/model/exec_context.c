/* What all units share: their parameters as views of flat blocks, and new tensors on the arena of the right
 * lifetime. */
#include "model/model_internal.h"

int64_t exec_rows(const ExecContext *ctx)
{
    int64_t rows = ctx->batch->token_i.dim[0];
    return ctx->tp.sequence_parallel ? rows / comm_size(ctx->tp.comm) : rows;
}

Hidden hidden_make(Arena *arena, const char *what, Dtype dtype, const HiddenShape *shape)
{
    Hidden hidden = { .n = shape->n };
    for (int i = 0; i < shape->n; i++)
        hidden.t[i] = tensor_new(arena, what, dtype, shape->rows[i], shape->columns[i]);
    return hidden;
}

Hidden hidden_new(const ExecContext *ctx, Arena *arena, const char *what)
{
    HiddenShape shape = { .n = 1, .rows = { exec_rows(ctx) }, .columns = { ctx->config->hidden } };
    return hidden_make(arena, what, ctx->precision.activation, &shape);
}

/* Which block of the unit stores parameters of this kind. */
static int block_with(const UnitParam *w, ParamId id)
{
    for (int i = 0; i < UNIT_BLOCKS; i++)
        if (w->block[i] && w->block[i]->index_of[id] != PARAM_ELSEWHERE) return i;
    stop_world(__FILE__, __LINE__, "parameter %d is not in block %lld", (int)id,
               w->block[UNIT_OWN] ? (long long)w->block[UNIT_OWN]->index : -1LL);
}

/* Parameters of one matrix follow each other in the block (JOINED in params.def) and have equal width, so
 * their view begins at the first and has the rows of all. */
Tensor unit_span(const UnitParam *w, ParamId first, ParamId last)
{
    int which = block_with(w, first);
    const ParamBlock *block = w->block[which];
    const Param *from = NULL;
    int64_t rows = 0, next = 0;
    for (ParamId id = first; id <= last; id++) {
        int i = block->index_of[id];
        CHECK(i != PARAM_ELSEWHERE, "parameter %d is not in block %lld", (int)id, (long long)block->index);
        if (i == PARAM_ABSENT) continue;
        const Param *p = &block->param[i];
        if (!from) from = p, next = p->at;
        CHECK(p->local[1] == from->local[1] && p->at == next && (p->dims < PARAM_DIMS || p == from),
            "%s and %s are not one matrix in memory", from->name, p->name);
        rows += p->local[0];
        next += param_elements(p);
    }
    if (!from) return tensor_none();
    Tensor flat = tensor_flat(w->flat[which], from->at, next - from->at);
    if (from->dims == 1) return flat;
    if (from->dims == 2) return tensor_view(flat, rows, from->local[1]);
    return tensor_view(flat, rows, from->local[1], from->local[2]);
}

Tensor unit_param(const UnitParam *w, ParamId id) { return unit_span(w, id, id); }

Tensor activation_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols)
{
    return tensor_new(ctx->activations, what, ctx->precision.activation, rows, cols);
}

Tensor wgrad_saved_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols)
{
    return tensor_new(ctx->wgrad_saved, what, ctx->precision.activation, rows, cols);
}

Tensor scratch_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols)
{
    return tensor_new(ctx->scratch, what, ctx->precision.activation, rows, cols);
}

double exec_dropout(const ExecContext *ctx, double p) { return ctx->drop ? p : 0; }

Tensor region_gradient_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols)
{
    return ctx->tp.sequence_parallel ? scratch_new(ctx, what, rows, cols)
                                     : wgrad_saved_new(ctx, what, rows, cols);
}

/* The save is in the slot, where deferred weight gradients find what they read. */
static bool gradient_replaces(const ExecContext *ctx, unsigned modules)
{
    return ctx->activations == ctx->wgrad_saved && !(ctx->recompute & modules);
}

Tensor activation_gradient_new(const ExecContext *ctx, const char *what, unsigned modules, int64_t rows,
                               int64_t cols)
{
    Arena *arena = gradient_replaces(ctx, modules) ? ctx->scratch : ctx->wgrad_saved;
    return tensor_new(arena, what, ctx->precision.activation, rows, cols);
}

Tensor activation_gradient_keep(const ExecContext *ctx, unsigned modules, Tensor save, Tensor gradient)
{
    if (!gradient_replaces(ctx, modules)) return gradient;
    Tensor kept = tensor_view(tensor_flat(save, 0, tensor_count(gradient)), gradient.dim[0], gradient.dim[1]);
    copy_strided(ctx->queue, (CopyStrided){ .y = kept, .x = gradient });
    return kept;
}

Arena *save_arena(const ExecContext *ctx, unsigned modules, Arena *arena)
{
    return ctx->recompute & modules ? ctx->scratch : arena;
}

ExecContext exec_recompute(const ExecContext *ctx)
{
    ExecContext again = *ctx;
    again.recompute         = 0;
    again.activations       = ctx->scratch;
    again.activations_wgrad = ctx->wgrad_saved;
    return again;
}
