/* What the units of this room share: their parameters as views, their tensors by lifetime. */
#include <string.h>
#include "model/model_internal.h"

int64_t exec_rows(const ExecContext *ctx)
{
    int64_t rows = ctx->batch->token_i.dim[0];
    return ctx->tp.sequence ? rows / comm_size(ctx->tp.comm) : rows;
}

Flow flow_new(const ExecContext *ctx, Arena *arena, const char *what)
{
    return (Flow){ .n = 1, .t = { tensor_new(arena, what, ctx->queue->real, exec_rows(ctx), ctx->config->hidden) } };
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && !strcmp(name + n - m, suffix) && (n == m || name[n - m - 1] == '.');
}

static const Param *find(const ParamBlock *block, const char *suffix)
{
    for (int i = 0; block && i < block->params; i++)
        if (ends_with(block->param[i].name, suffix)) return &block->param[i];
    return NULL;
}

static Tensor view(Tensor flat, const Param *p, int64_t rows)
{
    Tensor ctx = tensor_flat(flat, p->at, rows * p->local[1]);
    return p->dims == 1 ? ctx : tensor_view(ctx, rows, p->local[1]);
}

Tensor unit_span(const UnitParam *w, const char *first, const char *last)
{
    const ParamBlock *block = w->own;
    Tensor flat = w->flat_own;
    const Param *p = find(block, first);
    if (!p) { block = w->word; flat = w->flat_word; p = find(block, first); }
    const Param *end = find(block, last);
    if (!p || !end) return tensor_none();
    int64_t rows = 0;
    for (const Param *i = p; i <= end; i++) rows += i->local[0];
    return view(flat, p, rows);
}

Tensor unit_param(const UnitParam *w, const char *suffix) { return unit_span(w, suffix, suffix); }

Tensor activation_new   (const ExecContext *ctx, const char *what, int64_t rows, int64_t cols) { return tensor_new(ctx->activations,  what, ctx->queue->real, rows, cols); }
Tensor wgrad_saved_new   (const ExecContext *ctx, const char *what, int64_t rows, int64_t cols) { return tensor_new(ctx->wgrad_saved,    what, ctx->queue->real, rows, cols); }
Tensor scratch_new(const ExecContext *ctx, const char *what, int64_t rows, int64_t cols) { return tensor_new(ctx->scratch, what, ctx->queue->real, rows, cols); }
double exec_dropout(const ExecContext *ctx, double p) { return ctx->drop ? p : 0; }

Region region_wgrad_saved(const ExecContext *ctx)
{
    Region region = ctx->tp;
    region.scratch = ctx->wgrad_saved;
    return region;
}
