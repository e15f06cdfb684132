/* Dropout with a mask that is computed from a key and element indices, and never stored.
 * T rows   C channels */
#include "base/random.h"
#include "tensor/cpu/cpu.h"

/* The mask of one dropout: an element with bits of at least `threshold` is kept and multiplied by scale. */
typedef struct { uint64_t key; uint32_t threshold; float scale; } DropoutMask;

static DropoutMask dropout_mask(uint64_t key, double p)
{
    return (DropoutMask){ key, (uint32_t)(p * 4294967296.0), (float)(1 / (1 - p)) };
}

/* x = drop(x) for the elements of a tile, of which the first is element `first` of the mask */
static CLONES void dropout_tile(float *x, const DropoutMask *mask, uint64_t first, int64_t n)
{
    uint32_t bits[TILE];
    random_bits_of(bits, mask->key, first, n);
    for (int64_t c = 0; c < n; c++) x[c] *= bits[c] >= mask->threshold ? mask->scale : 0;
}

/* y += a tile of a tensor */
static void add_tile(float *y, TileBuffer *buffer, Tensor x, int64_t i, int64_t first, int64_t n)
{
    const float *from = tile_read(buffer, x, i, first, n);
    for (int64_t c = 0; c < n; c++) y[c] += from[c];
}

/* Columns [column, last) of the rows */
typedef struct {
    const DropoutForward  *forward;
    const DropoutBackward *backward;
    uint64_t key;
    int64_t  column, last;
} DropoutJob;

/* y = residual + drop(x + bias). y may be residual or x, so each tile of the row is computed on the stack
 * first. */
static void forward_rows(void *context, int64_t begin, int64_t end)
{
    const DropoutJob *drop = context;
    const DropoutForward *a = drop->forward;
    int64_t C = a->y_TC.dim[1];
    DropoutMask mask = dropout_mask(drop->key, a->p);
    TileBuffer buffer;
    float tile[TILE];
    for (int64_t t = begin; t < end; t++)
        for (int64_t first = drop->column; first < drop->last; first += TILE) {
            int64_t n = tile_count(drop->last, first);
            tile_load(tile, a->x_TC, t, first, n);
            if (tensor_present(a->bias_C)) add_tile(tile, &buffer, a->bias_C, 0, first, n);
            if (a->p > 0) {
                int64_t token = ((const int32_t *)a->dropout_index_i.data)[t];
                dropout_tile(tile, &mask, (uint64_t)(token * C + first), n);
            }
            if (tensor_present(a->residual_TC)) add_tile(tile, &buffer, a->residual_TC, t, first, n);
            tile_store(a->y_TC, t, first, tile, n);
        }
}

void cpu_drop_part(const Queue *q, const DropoutForward *a, int64_t row, int64_t rows, int64_t column,
                   int64_t columns)
{
    forward_rows(&(DropoutJob){ .forward = a, .key = dropout_key(q->step_state, a->site), .column = column,
                                .last = column + columns }, row, row + rows);
}

CPU(dropout_forward, DropoutForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, T, C);
    if (tensor_present(a->bias_C)) WANT(a->bias_C, C);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    DropoutJob drop = { .forward = a, .key = dropout_key(q->step_state, a->site), .last = C };
    team_for(q->team, T, chunk_rows(C), forward_rows, &drop);
}

/* dx = drop(dy) */
static void backward_rows(void *context, int64_t begin, int64_t end)
{
    const DropoutJob *drop = context;
    const DropoutBackward *a = drop->backward;
    int64_t C = a->dx_TC.dim[1];
    DropoutMask mask = dropout_mask(drop->key, a->p);
    float tile[TILE];
    for (int64_t t = begin; t < end; t++)
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            tile_load(tile, a->dy_TC, t, first, n);
            if (a->p > 0) {
                int64_t token = ((const int32_t *)a->dropout_index_i.data)[t];
                dropout_tile(tile, &mask, (uint64_t)(token * C + first), n);
            }
            tile_store(a->dx_TC, t, first, tile, n);
        }
}

CPU(dropout_backward, DropoutBackward)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    DropoutJob drop = { .backward = a, .key = dropout_key(q->step_state, a->site) };
    team_for(q->team, T, chunk_rows(C), backward_rows, &drop);
}
