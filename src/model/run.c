/* What the units of this room share: their parameters as views, their tensors by lifetime. */
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

Tensor save_new   (const Run *run, const char *what, int64_t rows, int64_t cols) { return tensor_new(run->flight,  what, run->queue->real, rows, cols); }
Tensor keep_new   (const Run *run, const char *what, int64_t rows, int64_t cols) { return tensor_new(run->keep,    what, run->queue->real, rows, cols); }
Tensor scratch_new(const Run *run, const char *what, int64_t rows, int64_t cols) { return tensor_new(run->scratch, what, run->queue->real, rows, cols); }
double run_dropout(const Run *run, double p) { return run->drop ? p : 0; }

Region region_keep(const Run *run)
{
    Region region = run->tp;
    region.scratch = run->keep;
    return region;
}
