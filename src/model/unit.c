#include "model/unit.h"
#include <string.h>
#include "model/rooms.h"

int64_t run_rows(const Run *run)
{
    int64_t rows = run->batch->token_i.dim[0];
    return run->tp.sequence ? rows / comm_size(run->tp.comm) : rows;
}

Flow flow_new(const Run *run, Arena *arena, const char *what)
{
    return (Flow){ .n = 1, .t = { tensor_new(arena, what, run->queue->real, run_rows(run), run->shape->hidden) } };
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
    Tensor run = tensor_flat(flat, p->at, rows * p->local[1]);
    return p->dims == 1 ? run : tensor_shape(run, rows, p->local[1]);
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

void unit_forward(const Run *run, int64_t unit, Flow y, const UnitParam *w, UnitSave *save, Flow x)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_forward(run, y.t[0], w); break;
    case UNIT_BLOCK: block_forward(run, unit - 1, y.t[0], w, &save->block, x.t[0]); break;
    case UNIT_HEAD:  head_forward(run, w, &save->head, x.t[0]); break;
    }
}

void unit_backward_input(const Run *run, int64_t unit, Flow dx, const UnitParam *w, UnitSave *save, Flow dy)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_backward_input(run, &save->embed, dy.t[0]); break;
    case UNIT_BLOCK: block_backward_input(run, unit - 1, dx.t[0], w, &save->block, dy.t[0]); break;
    case UNIT_HEAD:  head_backward_input(run, dx.t[0], w, &save->head); break;
    }
}

void unit_backward_weight(const Run *run, int64_t unit, const UnitParam *dw, UnitSave *save)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_backward_weight(run, dw, &save->embed); break;
    case UNIT_BLOCK: block_backward_weight(run, dw, &save->block); break;
    case UNIT_HEAD:  head_backward_weight(run, dw, &save->head); break;
    }
}
