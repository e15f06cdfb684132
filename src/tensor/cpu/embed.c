/* Embedding lookup and its gradient.
 * T rows   C channels   V rows of the table, which begins at vocabulary row `first` */
#include "tensor/cpu/cpu.h"

/* The table's row for token t, or NULL when another rank of the tensor-parallel group holds it */
static float *table_row(Tensor table_VC, Tensor id_i, int64_t t, int64_t first)
{
    int64_t v = ((const int32_t *)id_i.data)[t] - first;
    return v >= 0 && v < table_VC.dim[0] ? row(table_VC, v) : NULL;
}

/* y = table[id], or y += table[id] */
static void forward_rows(void *context, int64_t begin, int64_t end)
{
    const EmbedForward *a = context;
    int64_t C = a->y_TC.dim[1];
    for (int64_t t = begin; t < end; t++) {
        const float *x = table_row(a->table_VC, a->id_i, t, a->first);
        float *y = row(a->y_TC, t);
        if (!a->add && x) memcpy(y, x, (size_t)C * sizeof *y);
        if (!a->add && !x) memset(y, 0, (size_t)C * sizeof *y);
        for (int64_t c = 0; c < C && a->add && x; c++) y[c] += x[c];
    }
}

CPU(embed_forward, EmbedForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1], V = a->table_VC.dim[0];
    WANT(a->y_TC, F32, T, C);
    WANT(a->id_i, I32, T);
    WANT(a->table_VC, F32, V, C);
    team_for(q->team, T, chunk_rows(C), forward_rows, (void *)a);
}

/* dtable[id] += dy, token after token. A chunk of work owns columns and not tokens, because two tokens
 * with the same id add to the same row; so there is no race and the order of additions is fixed. */
static void backward_columns(void *context, int64_t begin, int64_t end)
{
    const EmbedBackward *a = context;
    for (int64_t t = 0; t < a->dy_TC.dim[0]; t++) {
        const float *dy = row(a->dy_TC, t);
        float *dx = table_row(a->dtable_VC, a->id_i, t, a->first);
        for (int64_t c = begin; c < end && dx; c++) dx[c] += dy[c];
    }
}

CPU(embed_backward, EmbedBackward)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1], V = a->dtable_VC.dim[0];
    WANT(a->dtable_VC, F32, V, C);
    WANT(a->id_i, I32, T);
    WANT(a->dy_TC, F32, T, C);
    team_for(q->team, C, 64, backward_columns, (void *)a);
}
