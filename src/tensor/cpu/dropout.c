/* Dropout with a mask that is computed from a key and element indices, and never stored.
 * T rows   C channels */
#include "base/random.h"
#include "tensor/cpu/cpu.h"

/* UINT64_MAX is no block, because an index is at most 2^64 - 1 and a block is a quarter of it. */
DropoutMask cpu_dropout_mask(uint64_t key, double p)
{
    return (DropoutMask){ .key = key, .block = UINT64_MAX, .threshold = (uint32_t)(p * 4294967296.0),
                   .scale = (float)(1 / (1 - p)) };
}

void cpu_dropout_mask_load(DropoutMask *mask, uint64_t block)
{
    Philox bits = philox(mask->key, block, 0);
    memcpy(mask->bits, bits.v, sizeof bits.v);
    mask->block = block;
}

/* y = drop(x) for C channels from element `first` of the mask */
static void drop_row(float *y, const float *x, DropoutMask *mask, uint64_t first, int64_t C)
{
    for (int64_t c = 0; c < C; c++) y[c] = x[c] * dropout_factor(mask, first + (uint64_t)c);
}

static void add_to(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

typedef struct { const DropoutForward *forward; const DropoutBackward *backward; uint64_t key; } DropoutJob;

/* y = residual + drop(x + bias). y may be residual or x, so each tile of the row is computed on the stack
 * first. */
static void forward_rows(void *context, int64_t begin, int64_t end)
{
    enum { TILE = 256 };                       /* channels */
    const DropoutJob *drop = context;
    const DropoutForward *a = drop->forward;
    int64_t C = a->y_TC.dim[1];
    DropoutMask mask = cpu_dropout_mask(drop->key, a->p);
    float tile[TILE];
    for (int64_t t = begin; t < end; t++)
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = C - first < TILE ? C - first : TILE;
            memcpy(tile, row(a->x_TC, t) + first, (size_t)n * sizeof *tile);
            if (tensor_present(a->bias_C)) add_to(tile, flat(a->bias_C) + first, n);
            if (a->p > 0) {
                int64_t token = ((const int32_t *)a->dropout_index_i.data)[t];
                drop_row(tile, tile, &mask, (uint64_t)(token * C + first), n);
            }
            if (tensor_present(a->residual_TC)) add_to(tile, row(a->residual_TC, t) + first, n);
            memcpy(row(a->y_TC, t) + first, tile, (size_t)n * sizeof *tile);
        }
}

CPU(dropout_forward, DropoutForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, F32, T, C);
    WANT(a->x_TC, F32, T, C);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, F32, T, C);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, F32, C);
    if (a->p > 0) WANT(a->dropout_index_i, I32, T);
    DropoutJob drop = { .forward = a, .key = dropout_key(q->step_state, a->site) };
    team_for(q->team, T, chunk_rows(C), forward_rows, &drop);
}

/* dx = drop(dy) */
static void backward_rows(void *context, int64_t begin, int64_t end)
{
    const DropoutJob *drop = context;
    const DropoutBackward *a = drop->backward;
    int64_t C = a->dx_TC.dim[1];
    DropoutMask mask = cpu_dropout_mask(drop->key, a->p);
    for (int64_t t = begin; t < end; t++) {
        float *dx = row(a->dx_TC, t), *dy = row(a->dy_TC, t);
        int64_t first = a->p > 0 ? ((const int32_t *)a->dropout_index_i.data)[t] * C : 0;
        if (a->p > 0) drop_row(dx, dy, &mask, (uint64_t)first, C);
        else memmove(dx, dy, (size_t)C * sizeof *dx);
    }
}

CPU(dropout_backward, DropoutBackward)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, F32, T, C);
    WANT(a->dy_TC, F32, T, C);
    if (a->p > 0) WANT(a->dropout_index_i, I32, T);
    DropoutJob drop = { .backward = a, .key = dropout_key(q->step_state, a->site) };
    team_for(q->team, T, chunk_rows(C), backward_rows, &drop);
}
