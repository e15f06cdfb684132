/* Dropout.   T rows   C channels */
#include "base/random.h"
#include "tensor/cpu/cpu.h"

Keep cpu_keep(uint64_t key, double p)
{
    return (Keep){ .key = key, .at = UINT64_MAX, .threshold = (uint32_t)(p * 4294967296.0),
                   .scale = (float)(1 / (1 - p)) };
}

void cpu_keep_move(Keep *keep, uint64_t block)
{
    Philox bits = philox(keep->key, block, 0);
    memcpy(keep->bits, bits.v, sizeof bits.v);
    keep->at = block;
}

/* y = x, kept or dropped */
static void keep_row(float *y, const float *x, Keep *keep, uint64_t first, int64_t C)
{
    for (int64_t c = 0; c < C; c++) y[c] = x[c] * keep_next(keep, first + (uint64_t)c);
}

static void add_to(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

typedef struct { const DropoutForward *forward; const DropoutBackward *backward; uint64_t key; } Drop;

/* y = residual + keep (x + bias): y may be residual or x, so a piece of the row is made beside it */
static void forward_rows(void *context, int64_t begin, int64_t end)
{
    enum { PIECE = 256 };
    const Drop *drop = context;
    const DropoutForward *a = drop->forward;
    int64_t C = a->y_TC.dim[1];
    Keep keep = cpu_keep(drop->key, a->p);
    float piece[PIECE];
    for (int64_t t = begin; t < end; t++)
        for (int64_t first = 0; first < C; first += PIECE) {
            int64_t n = C - first < PIECE ? C - first : PIECE;
            memcpy(piece, row(a->x_TC, t) + first, (size_t)n * sizeof *piece);
            if (tensor_present(a->bias_C)) add_to(piece, flat(a->bias_C) + first, n);
            if (a->p > 0) {
                int64_t place = ((const int32_t *)a->dropout_index_i.data)[t];
                keep_row(piece, piece, &keep, (uint64_t)(place * C + first), n);
            }
            if (tensor_present(a->residual_TC)) add_to(piece, row(a->residual_TC, t) + first, n);
            memcpy(row(a->y_TC, t) + first, piece, (size_t)n * sizeof *piece);
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
    Drop drop = { .forward = a, .key = dropout_key(q->step_state, a->site) };
    team_for(q->team, T, some_rows(C), forward_rows, &drop);
}

/* dx = keep dy */
static void backward_rows(void *context, int64_t begin, int64_t end)
{
    const Drop *drop = context;
    const DropoutBackward *a = drop->backward;
    int64_t C = a->dx_TC.dim[1];
    Keep keep = cpu_keep(drop->key, a->p);
    for (int64_t t = begin; t < end; t++) {
        float *dx = row(a->dx_TC, t), *dy = row(a->dy_TC, t);
        if (a->p > 0) keep_row(dx, dy, &keep, (uint64_t)(((const int32_t *)a->dropout_index_i.data)[t] * C), C);
        else memmove(dx, dy, (size_t)C * sizeof *dx);
    }
}

CPU(dropout_backward, DropoutBackward)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1];
    WANT(a->dx_TC, F32, T, C);
    WANT(a->dy_TC, F32, T, C);
    if (a->p > 0) WANT(a->dropout_index_i, I32, T);
    Drop drop = { .backward = a, .key = dropout_key(q->step_state, a->site) };
    team_for(q->team, T, some_rows(C), backward_rows, &drop);
}
